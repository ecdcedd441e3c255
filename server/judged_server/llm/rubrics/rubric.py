"""Rubrics: versioned instructions that a language model judges by, and the files that hold them.

`parse` reads a rubric from a file, `question` turns it into a request, and `parsing` checks replies
by its `schema`.

_FIELDS lists the fields of each form; docs/rubrics.md says how to write a rubric. One that asks for
another form of reply than the parser reads would fail on every item, so it is refused at the start.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from judged.values.choices import ClaimVerdict
from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass as table

from judged_server.domain import TIE_TOLERANCE
from judged_server.llm.chat import ReplySchema
from judged_server.llm.config import STRICT, matching, read
from judged_server.settings import SettingsError, content_of, read_toml

Form = Literal["verdict", "score", "grade", "dimensions", "claims", "extraction", "verification"]
"""The form of a reply: yes or no; a score; one word of a scale; a score per dimension. A rubric of
claims is not asked itself, but its two steps are: one extracts a list of claims, one verifies a
claim."""

FieldValue = str | Sequence[str]
"""The value of a field of a prompt: a text, or a list of texts."""

EXPECTED_TEXT = "expected_text"
RETRIEVED_TEXT = "retrieved_text"
CONTEXT_FIELDS = ("query", EXPECTED_TEXT, RETRIEVED_TEXT)
"""The texts of a context, which the judge `llm` shows."""
ANSWER_FIELDS = (
    "query",
    "answer",
    "other_answer",
    "reference",
    "references",
    "contexts",
    "sources_used",
    "confidence",
)
"""The texts of an answer and of what it is compared with; `references`, `contexts` and
`sources_used` are lists."""
CLAIM = "claim"
"""One claim; only the second step of a rubric of claims shows it."""

NONCE = "nonce"
"""The placeholder of the marker of a request's data blocks."""
ANSWER = "answer"
"""In `system` the placeholder of how to answer, which depends on whether the model takes a schema;
in `user` the answer that is judged."""

MAX_CLAIMS = 50
"""The most claims that the first step of a rubric of claims may find."""

PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")

_SHARE: dict[str, object] = {"type": "number", "minimum": 0, "maximum": 1}
_STRING: dict[str, object] = {"type": "string"}


@dataclass(frozen=True)
class Rubric:
    """What is asked, how to answer, and the score from which the verdict is yes.

    `system` holds {{answer}} once; `user` holds {{nonce}}, and each field it shows once.
    `fails_closed` is the verdict to assume if one is needed and there is none: no for "is it
    relevant?", yes for "is it harmful?". With `scored` a structured reply has a score in [0, 1]
    beside its verdict; without, a yes scores 1 and a no scores 0.

    `grades` are the words of a scale, the lowest first: grade i of n scores i / (n - 1).

    `dimensions` are names and default weights, a weight of 0 for what is only reported;
    `need_contexts` names those that can't be assessed without contexts. A rubric of claims has no
    templates of its own but an `extraction` and a `verification`.
    """

    id: str
    version: int
    description: str
    min_score: float
    fails_closed: Literal["yes", "no"]
    system: str
    user: str
    structured_answer: str
    plain_answer: str
    scored: bool = False
    form: Form = "verdict"
    grades: tuple[str, ...] = ()
    dimensions: tuple[tuple[str, float], ...] = ()
    need_contexts: tuple[str, ...] = ()
    extraction: Rubric | None = None
    verification: Rubric | None = None

    @property
    def judges_contexts(self) -> bool:
        """Whether the judge `llm` can ask it: a verdict, a score or a grade on a context."""
        asks_of_one = self.form in {"verdict", "score", "grade"}
        return asks_of_one and set(self.fields) <= set(CONTEXT_FIELDS)

    @property
    def scores_answers(self) -> bool:
        """Whether ScoreAnswers can ask it: it shows only the fields of an answer."""
        return set(self.fields) <= set(ANSWER_FIELDS)

    @property
    def takes_json(self) -> bool:
        """Whether its replies are JSON from every model, even from one that takes no schema."""
        return self.form in {"dimensions", "claims", "extraction", "verification"}

    @property
    def max_grade(self) -> int:
        """The highest grade of its scale, whose lowest is 0; 0 if it has no scale."""
        return max(len(self.grades) - 1, 0)

    def passes(self, score: float) -> bool:
        """Return whether a score reaches the rubric's threshold."""
        return score + TIE_TOLERANCE >= self.min_score

    @cached_property
    def steps(self) -> tuple[Rubric, ...]:
        """What is asked, in order: the rubric itself, or the two steps of a rubric of claims."""
        if self.extraction is None or self.verification is None:
            return (self,)
        return (self.extraction, self.verification)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The user template in pieces: text at even indexes, names of placeholders at odd ones."""
        return tuple(PLACEHOLDER.split(self.user))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The fields that the prompt shows, in their order; of claims those of both steps.

        The claim is left out there, since the rubric extracts the claims itself.
        """
        if self.form != "claims":
            return tuple(name for name in self.parts[1::2] if name != NONCE)
        rendered = (name for step in self.steps for name in step.fields if name != CLAIM)
        return tuple(dict.fromkeys(rendered))

    @cached_property
    def structured_system(self) -> str:
        """The instructions for a model that takes a schema; the same for every request."""
        return self.system.replace(_in_braces(ANSWER), self.structured_answer)

    @cached_property
    def plain_system(self) -> str:
        """The instructions for a model that answers in plain text."""
        return self.system.replace(_in_braces(ANSWER), self.plain_answer)

    @cached_property
    def properties(self) -> dict[str, dict[str, object]]:
        """The JSON schema of each key of a reply.

        The reasoning comes first, so that the decision follows from it and not the reverse.
        """
        if self.form == "extraction":
            return {"claims": {"type": "array", "items": _STRING, "maxItems": MAX_CLAIMS}}
        if self.form == "verification":
            words = [verdict.name for verdict in ClaimVerdict]
            return {"evidence": _STRING, "verdict": {"type": "string", "enum": words}}
        found = {"reasoning": _STRING}
        if self.form == "dimensions":
            names = [name for name, _ in self.dimensions]
            return found | dict.fromkeys([*names, "overall"], _SHARE)
        if self.form == "verdict":
            found["verdict"] = {"type": "string", "enum": ["yes", "no"]}
        if self.form == "grade":
            found["grade"] = {"type": "string", "enum": list(self.grades)}
        if self.scored or self.form == "score":
            found["score"] = _SHARE
        return found

    @cached_property
    def schema(self) -> ReplySchema:
        """The schema of a structured reply: flat, all keys required, no others allowed."""
        return ReplySchema(
            self.id,
            {
                "type": "object",
                "properties": self.properties,
                "required": list(self.properties),
                "additionalProperties": False,
            },
        )

    @cached_property
    def sha256(self) -> str:
        """The hash of all that can change a reply: the templates, the form of the reply, the id.

        The threshold, the weights, the description and `fails_closed` are applied after the reply,
        so they are left out, as are the comments and the layout of the file.
        """
        content: dict[str, object] = {
            "id": self.id,
            "version": self.version,
            "scored": self.scored,
            "system": self.system,
            "user": self.user,
            "structured_answer": self.structured_answer,
            "plain_answer": self.plain_answer,
        }
        if self.form != "verdict":  # verdicts keep their hash from before other forms
            content["form"] = self.form
            content["properties"] = self.properties
        if self.form == "claims":
            content["steps"] = [step.sha256 for step in self.steps]
        # The order of `properties` is kept: it may change a reply.
        ordered = {name: content[name] for name in sorted(content)}
        return hashlib.sha256(json.dumps(ordered).encode()).hexdigest()


def _in_braces(name: str) -> str:
    return "{{" + name + "}}"


MAX_FILE_BYTES = 1 << 18
MAX_DIMENSIONS = 16
MAX_GRADES = 11

_SUFFIX = ".toml"
_TAKEN = {"reasoning", "overall"}
"""Keys of a reply that no dimension can have as its name."""


@cache
def load_builtin() -> Mapping[str, Rubric]:
    """Return the package's rubrics by id, in the order of their ids."""
    rubrics = [
        parse(file.read_bytes(), file.name)
        for file in (files("judged_server.llm.rubrics") / "builtin").iterdir()
    ]
    return MappingProxyType({rubric.id: rubric for rubric in sorted(rubrics, key=lambda r: r.id)})


def load_folder(folder: Path) -> Mapping[str, Rubric]:
    """Return the rubrics in the files of `folder` by id, in the order of the file names.

    Raises SettingsError, naming the file and the key, when one of them breaks a rule, when two have
    one id, or when one has the id of a built-in rubric.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() == _SUFFIX)
    except OSError as error:
        raise SettingsError(
            f"rubrics_dir {folder} can't be read: {error.strerror}; name a folder of rubrics, or "
            "drop the setting"
        ) from None
    if not paths:
        raise SettingsError(
            f"rubrics_dir {folder} has no *.toml file; add one, or drop the setting"
        )
    found: dict[str, Rubric] = {}
    for path in paths:
        rubric = parse(content_of(path, "rubric", MAX_FILE_BYTES), str(path))
        if rubric.id in load_builtin() or rubric.id in found:
            whose = "an earlier file" if rubric.id in found else "a built-in rubric"
            raise SettingsError(f"{path}: id is that of {whose}; choose another")
        found[rubric.id] = rubric
    return MappingProxyType(found)


def parse(raw: bytes, source: str) -> Rubric:
    """Return the rubric in a file; `source` names it in errors. Raises SettingsError."""
    content = read_toml(raw, source)
    file = read(_FILES.get(str(content.get("form")), _Verdict), content, source)
    given: dict[str, Any] = dict(vars(file))
    if isinstance(file, _Dimensions):
        given["dimensions"] = tuple((each.name, each.weight) for each in file.dimensions)
        need_contexts = (each.name for each in file.dimensions if each.needs_contexts)
        given["need_contexts"] = tuple(need_contexts)
    if not isinstance(file, _Claims):
        return _checked(given, source)
    templates = {name: vars(given.pop(name)) for name in ("extraction", "verification")}
    steps: dict[str, Any] = {
        name: _checked(given | own | {"id": f"{file.id}_{name}", "form": name}, f"{source}: {name}")
        for name, own in templates.items()
    }
    return Rubric(**given, **steps, system="", user="", structured_answer="", plain_answer="")


def _checked(given: dict[str, Any], source: str) -> Rubric:
    # JSON is asked for in the same words, whether or not the model gets a schema.
    rubric = Rubric(**{"plain_answer": given["structured_answer"], **given})
    try:
        _check(rubric)
    except ValueError as error:
        raise SettingsError(f"{source}: {error}") from None
    return rubric


def _name(longest: int) -> Any:  # noqa: ANN401 - a type
    rule = "a name of a-z, 0-9 and _ that begins with a letter"
    return Annotated[str, Field(max_length=longest), matching("[a-z][a-z0-9_]*", rule)]


def _is_scale(words: tuple[str, ...]) -> tuple[str, ...]:
    if len({word.lower() for word in words}) < len(words):
        raise ValueError("must be different words, the lowest grade first")
    return words


_Prose = Annotated[
    str, Field(max_length=1 << 16), matching(r"(?s).*\S.*", "a text that is not empty")
]
_Line = Annotated[str, Field(max_length=1000), matching(r".*\S.*", "one line of text, no more")]
_Share = Annotated[float, Field(ge=0, le=1)]
_Word = Annotated[str, matching("[A-Za-z0-9]{1,32}", "a word of letters and digits")]


@table(frozen=True, kw_only=True, config=STRICT)
class _Templates:
    system: _Prose
    user: _Prose
    structured_answer: _Prose


@table(frozen=True, config=STRICT)
class _Dimension:
    name: _name(32)  # type: ignore[valid-type]
    weight: Annotated[float, Field(ge=0, le=1000)] = 1.0
    needs_contexts: bool = False


@table(frozen=True, kw_only=True, config=STRICT)
class _Head:
    """What rubrics of any form have."""

    id: _name(64)  # type: ignore[valid-type]
    version: Annotated[int, Field(ge=1, le=1_000_000)]
    description: _Line
    form: Literal["verdict", "score", "grade", "dimensions", "claims"] = "verdict"
    min_score: _Share = 0.7
    fails_closed: Literal["yes", "no"]


@table(frozen=True, kw_only=True, config=STRICT)
class _Score(_Head, _Templates):
    plain_answer: _Prose


@table(frozen=True, kw_only=True, config=STRICT)
class _Verdict(_Score):
    min_score: _Share = 0.5
    scored: bool = False


@table(frozen=True, kw_only=True, config=STRICT)
class _Grade(_Score):
    grades: Annotated[
        tuple[_Word, ...],
        Field(min_length=2, max_length=MAX_GRADES),
        AfterValidator(_is_scale),
    ]


@table(frozen=True, kw_only=True, config=STRICT)
class _Dimensions(_Head, _Templates):
    dimensions: Annotated[tuple[_Dimension, ...], Field(min_length=1, max_length=MAX_DIMENSIONS)]

    def __post_init__(self) -> None:
        names = [each.name for each in self.dimensions]
        taken = _TAKEN.intersection(names) or {name for name in names if names.count(name) > 1}
        if taken:
            raise ValueError(f"dimensions: name {min(taken)} is taken; choose another")
        if not any(each.weight for each in self.dimensions):
            raise ValueError("dimensions must have a weight above 0 somewhere")


@table(frozen=True, kw_only=True, config=STRICT)
class _Claims(_Head):
    id: _name(48)  # type: ignore[valid-type] # each step appends its name
    extraction: _Templates
    verification: _Templates


_FILES: dict[str, type[_Head]] = {
    "score": _Score, "grade": _Grade, "dimensions": _Dimensions, "claims": _Claims,
}  # fmt: skip
"""By the form that a file names; any other form is read as a verdict."""

_EITHER = tuple(dict.fromkeys(CONTEXT_FIELDS + ANSWER_FIELDS))
_FIELDS: dict[Form, tuple[str, ...]] = {
    **dict.fromkeys(("verdict", "score", "grade"), _EITHER),
    "dimensions": ANSWER_FIELDS,
    "extraction": ANSWER_FIELDS,
    "verification": (*ANSWER_FIELDS, CLAIM),
}
_SINGLE = re.compile(r"\{([^{}]*)\}")
_OF_CONTEXTS = set(CONTEXT_FIELDS) - set(ANSWER_FIELDS)
_OF_ANSWERS = set(ANSWER_FIELDS) - set(CONTEXT_FIELDS)
_PLAIN: dict[Form, tuple[str, ...]] = {
    "verdict": ("YES", "NO"), "score": ("Score:",), "grade": ("Grade:",),
}  # fmt: skip
"""Words that the plain answer of a form must contain exactly."""


def _check(rubric: Rubric) -> None:
    """Raise ValueError, which names the key, when `rubric` can't be asked."""
    if len(_placeholders(rubric.system, "system", [ANSWER])) != 1:
        raise ValueError("system must hold {{answer}} once, where it says how to answer")
    _check_user(rubric)
    claims = [verdict.name for verdict in ClaimVerdict] if rubric.form == "verification" else []
    _check_words(rubric, "structured_answer", [f'"{key}"' for key in rubric.properties])
    _check_words(rubric, "structured_answer", [*rubric.grades, *claims])
    _check_words(rubric, "plain_answer", _PLAIN.get(rubric.form, ()))


def _check_words(rubric: Rubric, key: str, words: Collection[str]) -> None:
    prose = getattr(rubric, key)
    if "{{" in prose:
        raise ValueError(f"{key} can't hold double braces")
    for word in words:
        if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", prose):
            raise ValueError(f"{key} must ask for {word}, written like this")


def _check_user(rubric: Rubric) -> None:
    known = _FIELDS[rubric.form]
    names = _placeholders(rubric.user, "user", [NONCE, *known])
    if NONCE not in names:
        raise ValueError("user must hold {{nonce}}, where it says how the texts are marked")
    fields = [name for name in names if name != NONCE]
    if not fields:
        raise ValueError(f"user must show one or more of {_listed(known)}")
    if len(set(fields)) < len(fields):
        raise ValueError("user must show each text once")
    if not _OF_CONTEXTS.isdisjoint(fields) and not _OF_ANSWERS.isdisjoint(fields):
        raise ValueError("user shows texts of a context beside texts of an answer; keep one kind")
    if rubric.judges_contexts and RETRIEVED_TEXT not in fields:
        raise ValueError("user must show {{retrieved_text}}, or texts of an answer")
    if rubric.form == "verification" and CLAIM not in fields:
        raise ValueError("user must show {{claim}}, the one that is checked")
    if rubric.need_contexts and "contexts" not in fields:
        raise ValueError("user must show {{contexts}}, which some of the dimensions need")


def _placeholders(template: str, key: str, known: Sequence[str]) -> list[str]:
    """Return the names in double braces. Raises ValueError for one that is not in `known`."""
    names: list[str] = PLACEHOLDER.findall(template)
    rest = PLACEHOLDER.sub("", template)
    # Other names in single braces may be plain text: {} is common in prose.
    unfilled = {name.strip() for name in _SINGLE.findall(rest)}.intersection(known)
    if unfilled or "{{" in rest or "}}" in rest or not set(names) <= set(known):
        raise ValueError(f"{key} may hold {_listed(known)}, and nothing else like them")
    return names


def _listed(names: Sequence[str]) -> str:
    return ", ".join("{{" + name + "}}" for name in names)
