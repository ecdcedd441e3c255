"""Rubrics read from files: those of the package, and an operator's own, in TOML.

Whether templates and words fit the form is up to `checking`. docs/rubrics.md says how to write one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass as table

from judged_server.llm.config.file_tables import (
    STRICT,
    content_of,
    matching,
    read,
    read_toml,
)
from judged_server.llm.rubrics.checking import check
from judged_server.llm.rubrics.rubric import Rubric
from judged_server.settings import SettingsError

MAX_FILE_BYTES = 1 << 18
MAX_DIMENSIONS = 16
MAX_GRADES = 11

_SUFFIX = ".toml"
_MIN_SCORE, _MIN_SCORE_OF_VERDICT = 0.7, 0.5
_TAKEN = {"reasoning", "overall"}
"""Keys of a reply that no dimension can have."""


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
        rubric = parse(content_of(path, "rubric", MAX_FILE_BYTES), str(path))
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
    content = read_toml(raw, source)
    form = content.get("form", "verdict") if isinstance(content, dict) else "verdict"
    if not isinstance(form, str) or form not in _FORMS:
        raise SettingsError(f"{source}: form must be one of {', '.join(_FORMS)}")
    said = read(_FORMS[form], content, source)
    given = _values(said)
    if said.min_score is None:
        given["min_score"] = _MIN_SCORE_OF_VERDICT if said.form == "verdict" else _MIN_SCORE
    if isinstance(said, _Dimensions):
        given["dimensions"] = tuple((each.name, each.weight) for each in said.dimensions)
        need_contexts = (each.name for each in said.dimensions if each.needs_contexts)
        given["need_contexts"] = tuple(need_contexts)
    if not isinstance(said, _Claims):
        return _checked(given, source)
    templates = {form: given.pop(form) for form in ("extraction", "verification")}
    steps: dict[str, Any] = {
        form: _checked(
            given | _values(own) | {"id": f"{said.id}_{form}", "form": form}, f"{source}: {form}"
        )
        for form, own in templates.items()
    }
    return Rubric(**given, **steps, system="", user="", structured_answer="", plain_answer="")


def _values(read_table: Any) -> dict[str, Any]:  # noqa: ANN401 - any table
    return {field.name: getattr(read_table, field.name) for field in fields(read_table)}


def _checked(given: dict[str, Any], source: str) -> Rubric:
    # JSON is asked for in the same words, whether or not the model is held to it.
    rubric = Rubric(**{"plain_answer": given["structured_answer"], **given})
    try:
        check(rubric)
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
_Grade = Annotated[str, matching("[A-Za-z0-9]{1,32}", "a word of letters and digits")]


@table(frozen=True, kw_only=True, config=STRICT)
class _Head:
    """What rubrics of all forms have."""

    id: _name(64)  # type: ignore[valid-type]
    version: Annotated[int, Field(ge=1, le=1_000_000)]
    description: _Line
    form: Literal["verdict", "score", "grade", "dimensions", "claims"] = "verdict"
    min_score: _Share | None = None
    fails_closed: Literal["yes", "no"]


@table(frozen=True, kw_only=True, config=STRICT)
class _Templates:
    system: _Prose
    user: _Prose
    structured_answer: _Prose


@table(frozen=True, kw_only=True, config=STRICT)
class _Verdict(_Templates, _Head):
    plain_answer: _Prose
    scored: bool = False


@table(frozen=True, kw_only=True, config=STRICT)
class _Score(_Templates, _Head):
    plain_answer: _Prose


@table(frozen=True, kw_only=True, config=STRICT)
class _Graded(_Templates, _Head):
    plain_answer: _Prose
    grades: Annotated[
        tuple[_Grade, ...], Field(min_length=2, max_length=MAX_GRADES), AfterValidator(_is_scale)
    ]


@table(frozen=True, config=STRICT)
class _Dimension:
    name: _name(32)  # type: ignore[valid-type]
    weight: Annotated[float, Field(ge=0, le=1000)] = 1.0
    needs_contexts: bool = False


@table(frozen=True, kw_only=True, config=STRICT)
class _Dimensions(_Templates, _Head):
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
    id: _name(48)  # type: ignore[valid-type]  # each step has its own name behind it
    extraction: _Templates
    verification: _Templates


_FORMS = {
    "verdict": _Verdict,
    "score": _Score,
    "grade": _Graded,
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
