"""Rubrics read from files: those of the package, and an operator's own, in TOML.

Whether templates and words fit the form is up to `checking`. docs/rubrics.md says how to write one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as table

from judged_server.llm.config.file_tables import (
    STRICT,
    Place,
    flag,
    number,
    read_toml,
    text,
    whole_number,
)
from judged_server.llm.rubrics.checking import check
from judged_server.llm.rubrics.rubric import Rubric
from judged_server.settings import SettingsError

MAX_FILE_BYTES = 1 << 18
MAX_DIMENSIONS = 16
MAX_GRADES = 11

_SUFFIX = ".toml"

_ID = "[a-z][a-z0-9_]*"
_ID_RULE = "a name of a-z, 0-9 and _ that begins with a letter"
_LONGEST_ID = 64
_LONGEST_ID_OF_CLAIMS = 48
"""Shorter, as each step has its own name behind it."""
_LONGEST_NAME = 32
_GRADE = re.compile("[A-Za-z0-9]{1,32}")
_LONGEST_DESCRIPTION = 1000
_LONGEST_PROSE = 1 << 16
_MIN_SCORE, _MIN_SCORE_OF_VERDICT = 0.7, 0.5
_TAKEN = {"reasoning", "overall"}
"""Keys of a reply that no dimension can have."""

_HINTS = {
    "scored": 'is for form = "verdict" only',
    "grades": 'is for form = "grade" only',
    "dimensions": 'is for form = "dimensions" only',
    "extraction": 'is for form = "claims" only',
    "verification": 'is for form = "claims" only',
    "plain_answer": "is not for this form, whose replies are JSON from every model; leave it out",
}


def _prose() -> Any:  # noqa: ANN401 - it stands where a default does
    return text("a text that is not empty", r"(?s).*\S.*", longest=_LONGEST_PROSE)


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
    found: dict[str, tuple[Path, Rubric]] = {}
    for path in _files(folder):
        rubric = parse(_content(path), str(path))
        if rubric.id in load_builtin():
            raise SettingsError(f"{path}: id is that of a built-in rubric; choose another")
        if rubric.id in found:
            raise SettingsError(
                f"{path}: id is that of {found[rubric.id][0].name} too; choose another"
            )
        found[rubric.id] = path, rubric
    return MappingProxyType({rubric.id: rubric for _, rubric in found.values()})


def parse(raw: bytes, source: str) -> Rubric:
    """Return the rubric a file holds; `source` is named in errors.

    Raises SettingsError.
    """
    place = Place(source)
    content = place.table(read_toml(raw, source))
    form = content.get("form", "verdict")
    if not isinstance(form, str) or form not in _TABLES:
        raise place.fault("form", "must be one of " + ", ".join(_TABLES))
    chosen = _TABLES[form]
    said = place.read(chosen, content, _HINTS | chosen.hints)
    threshold = _MIN_SCORE_OF_VERDICT if form == "verdict" else _MIN_SCORE
    head = Rubric(
        id=said.id,
        version=said.version,
        description=said.description,
        min_score=threshold if said.min_score is None else said.min_score,
        fails_closed=said.fails_closed,
        scored=isinstance(said, _Verdict) and said.scored,
        system="",
        user="",
        structured_answer="",
        plain_answer="",
        form=said.form,
    )
    if isinstance(said, _Claims):
        return replace(
            head,
            extraction=_step(head, said.extraction, place, "extraction"),
            verification=_step(head, said.verification, place, "verification"),
        )
    if isinstance(said, _Grade):
        head = replace(head, grades=_grades(said.grades, place))
    if isinstance(said, _Dimensions):
        head = _with_dimensions(head, content, place)
    if isinstance(said, _Templates):
        head = _with_templates(head, said, place)
    return head


@table(frozen=True, kw_only=True, config=STRICT)
class _Head:
    """What rubrics of all forms have."""

    hints: ClassVar[dict[str, str]] = {}

    id: str = text(_ID_RULE, _ID, longest=_LONGEST_ID)
    version: int = whole_number(1, 1_000_000)
    description: str = text("one line of text, no more", r".*\S.*", longest=_LONGEST_DESCRIPTION)
    form: Literal["verdict", "score", "grade", "dimensions", "claims"] = "verdict"
    min_score: float | None = number(0, 1, None)
    fails_closed: Literal["yes", "no"] = Field(description="yes or no")


@table(frozen=True, kw_only=True, config=STRICT)
class _Templates:
    system: str = _prose()
    user: str = _prose()
    structured_answer: str = _prose()


@table(frozen=True, kw_only=True, config=STRICT)
class _PlainTemplates(_Templates):
    plain_answer: str = _prose()


@table(frozen=True, kw_only=True, config=STRICT)
class _Verdict(_PlainTemplates, _Head):
    scored: bool = flag(default=False)


@table(frozen=True, kw_only=True, config=STRICT)
class _Score(_PlainTemplates, _Head):
    pass


@table(frozen=True, kw_only=True, config=STRICT)
class _Grade(_PlainTemplates, _Head):
    grades: Any = ()


@table(frozen=True, kw_only=True, config=STRICT)
class _Dimensions(_Templates, _Head):
    dimensions: Any = ()


@table(frozen=True, config=STRICT)
class _Dimension:
    name: str = text(_ID_RULE, _ID, longest=_LONGEST_NAME)
    weight: float = number(0, 1000, 1.0)
    needs_contexts: bool = flag(default=False)


@table(frozen=True, kw_only=True, config=STRICT)
class _Claims(_Head):
    hints: ClassVar[dict[str, str]] = dict.fromkeys(
        ("system", "user", "structured_answer", "plain_answer"),
        "belongs into [extraction] and [verification], each with its own",
    )

    id: str = text(_ID_RULE, _ID, longest=_LONGEST_ID_OF_CLAIMS)
    extraction: Any = None
    verification: Any = None


_TABLES: dict[str, type[_Head]] = {
    "verdict": _Verdict,
    "score": _Score,
    "grade": _Grade,
    "dimensions": _Dimensions,
    "claims": _Claims,
}


def _files(folder: Path) -> list[Path]:
    """Return the paths of what is a rubric by its name. Raises SettingsError.

    A file that is nearly one by its name is no more passed over than one whose content is wrong:
    its rubric would be missing when a caller asks for it.
    """
    try:
        paths = sorted(folder.iterdir())
        meant = [path for path in paths if _is_misnamed(path)]
    except OSError as error:
        raise SettingsError(
            f"rubrics_dir {folder} can't be read: {error.strerror}; name a folder of rubrics, or "
            "drop the setting"
        ) from None
    if meant:
        raise SettingsError(
            f"{meant[0]}: the name of a rubric ends in .toml; rename the file, or move it out of "
            "rubrics_dir"
        )
    found = [path for path in paths if path.suffix.lower() == _SUFFIX]
    if not found:
        raise SettingsError(
            f"rubrics_dir {folder} has no *.toml file; add one, or drop the setting"
        )
    return found


def _is_misnamed(path: Path) -> bool:
    name = path.name.lower()
    if name.endswith((_SUFFIX, ".md")) or name.startswith((".", "readme")):
        return False
    return _SUFFIX in name and path.is_file()


def _content(path: Path) -> bytes:
    """Return the bytes of a file that an operator wrote."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}") from None
    if len(raw) > MAX_FILE_BYTES:
        raise SettingsError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return raw


def _step(
    head: Rubric, content: object, place: Place, form: Literal["extraction", "verification"]
) -> Rubric:
    """Return one step of a rubric of claims, which is a table of its own."""
    if content is None:
        raise place.fault(form, f"must be a table; begin it with [{form}]")
    inner = place.inner(form)
    said = inner.read(_Templates, content, _HINTS)
    return _with_templates(replace(head, id=f"{head.id}_{form}", form=form), said, inner)


def _with_templates(head: Rubric, said: _Templates, place: Place) -> Rubric:
    # JSON is asked for in the same words, whether or not the model is held to it.
    plain = said.plain_answer if isinstance(said, _PlainTemplates) else said.structured_answer
    rubric = replace(
        head,
        system=said.system,
        user=said.user,
        structured_answer=said.structured_answer,
        plain_answer=plain,
    )
    check(rubric, place)
    return rubric


def _grades(content: object, place: Place) -> tuple[str, ...]:
    """Return the words of a scale. Raises SettingsError."""
    rule = (
        f"must be 2 to {MAX_GRADES} different words of letters and digits, the lowest grade first, "
        'as in grades = ["0", "1", "2", "3"]'
    )
    if not isinstance(content, list) or not 2 <= len(content) <= MAX_GRADES:
        raise place.fault("grades", rule)
    words = [word for word in content if isinstance(word, str) and _GRADE.fullmatch(word)]
    if len({word.lower() for word in words}) < len(content):
        raise place.fault("grades", rule)
    return tuple(words)


def _with_dimensions(head: Rubric, content: object, place: Place) -> Rubric:
    dimensions: dict[str, float] = {}
    need_contexts: list[str] = []
    entries = place.tables(content, "dimensions")
    if not 1 <= len(entries) <= MAX_DIMENSIONS:
        raise place.fault("dimensions", f"must be 1 to {MAX_DIMENSIONS} tables [[dimensions]]")
    for inner, inner_content in entries:
        entry = inner.read(_Dimension, inner_content)
        if entry.name in dimensions or entry.name in _TAKEN:
            raise inner.fault("name", "is taken; choose another")
        dimensions[entry.name] = entry.weight
        if entry.needs_contexts:
            need_contexts.append(entry.name)
    if not any(dimensions.values()):
        raise place.fault("dimensions", "must have a weight above 0 somewhere")
    return replace(head, dimensions=tuple(dimensions.items()), need_contexts=tuple(need_contexts))
