"""Rubrics read from files: those of the package, in TOML, and an operator's own, in TOML or YAML.

Whether templates and words fit the form is up to `checking`. docs/rubrics.md says how to write one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from judged_server.llm.config.toml_table import TomlTable, read_toml
from judged_server.llm.rubrics.checking import check
from judged_server.llm.rubrics.rubric import JSON_FORMS, Form, Rubric
from judged_server.settings import SettingsError

MAX_FILE_BYTES = 1 << 18
MAX_DIMENSIONS = 16

_YAML = (".yaml", ".yml")
_SUFFIXES = (".toml", *_YAML)

_ID = "[a-z][a-z0-9_]*"
_ID_RULE = "a name of a-z, 0-9 and _ that begins with a letter"
_LONGEST_ID = 64
_LONGEST_ID_OF_CLAIMS = 48
"""Shorter, as each step has its own name behind it."""
_LONGEST_NAME = 32
_LONGEST_DESCRIPTION = 1000
_LONGEST_PROSE = 1 << 16
_FORMS: dict[str, Form] = {
    "verdict": "verdict",
    "score": "score",
    "dimensions": "dimensions",
    "claims": "claims",
}
_MIN_SCORE, _MIN_SCORE_OF_VERDICT = 0.7, 0.5
_TAKEN = {"reasoning", "overall"}
"""Keys of a reply that no dimension can have."""

_JSON_ANYWAY = "is not for this form, whose replies are JSON from every model; leave it out"
_IN_STEPS = "belongs into [extraction] and [verification], each with its own"
_HINTS = {
    "scored": 'is for form = "verdict" only',
    "dimensions": 'is for form = "dimensions" only',
    "extraction": 'is for form = "claims" only',
    "verification": 'is for form = "claims" only',
    "plain_answer": _JSON_ANYWAY,
}
_HINTS_OF_CLAIMS = _HINTS | dict.fromkeys(
    ("system", "user", "structured_answer", "plain_answer"), _IN_STEPS
)


@cache
def load_builtin() -> Mapping[str, Rubric]:
    """Return the package's rubrics by id, in the order of their ids."""
    rubrics = [
        parse(file.read_bytes(), file.name)
        for file in files("judged_server.llm.rubrics").iterdir()
        if file.name.endswith(".toml")
    ]
    return MappingProxyType({rubric.id: rubric for rubric in sorted(rubrics, key=lambda r: r.id)})


def load_folder(folder: Path) -> Mapping[str, Rubric]:
    """Return the rubrics in the files of `folder` by id, in the order of the file names.

    Raises SettingsError, naming the file and the key, when one of them breaks a rule, when two have
    one id, or when one has the id of a built-in rubric.
    """
    found: dict[str, tuple[Path, Rubric]] = {}
    for path in _files(folder):
        rubric = parse(_content(path), str(path), yaml=path.suffix.lower() in _YAML)
        if rubric.id in load_builtin():
            raise SettingsError(f"{path}: id is that of a built-in rubric; choose another")
        if rubric.id in found:
            raise SettingsError(
                f"{path}: id is that of {found[rubric.id][0].name} too; choose another"
            )
        found[rubric.id] = path, rubric
    return MappingProxyType({rubric.id: rubric for _, rubric in found.values()})


def parse(raw: bytes, source: str, *, yaml: bool = False) -> Rubric:
    """Return the rubric a file holds, in TOML unless it is `yaml`; `source` is named in errors.

    Raises SettingsError.
    """
    table = TomlTable(_read_yaml(raw, source) if yaml else read_toml(raw, source), source)
    head = _head(table)
    if head.form == "claims":
        rubric = replace(
            head,
            extraction=_asked(head, _step(table, "extraction"), "extraction"),
            verification=_asked(head, _step(table, "verification"), "verification"),
        )
        table.end(_HINTS_OF_CLAIMS)
        return rubric
    if head.form == "dimensions":
        head = _with_dimensions(head, table)
    return _asked(head, table, head.form)


def _files(folder: Path) -> list[Path]:
    """Return the paths of what is a rubric by its name. Raises SettingsError.

    A file that is nearly one by its name is no more passed over than one whose content is wrong:
    its rubric would be missing when a caller asks for it.
    """
    try:
        paths = sorted(folder.iterdir())
        meant = [path for path in paths if _is_misnamed(path)]
    except OSError as error:
        raise SettingsError(f"rubrics_dir {folder} can't be read: {error.strerror}") from None
    if meant:
        raise SettingsError(
            f"{meant[0]}: the name of a rubric ends in .toml, .yaml or .yml; rename the file, or "
            "move it out of rubrics_dir"
        )
    found = [path for path in paths if path.suffix.lower() in _SUFFIXES]
    if not found:
        raise SettingsError(
            f"rubrics_dir {folder} has no *.toml, *.yaml or *.yml file; add one, or drop the "
            "setting"
        )
    return found


def _is_misnamed(path: Path) -> bool:
    name = path.name.lower()
    if name.endswith((*_SUFFIXES, ".md")) or name.startswith((".", "readme")):
        return False
    return any(suffix in name for suffix in _SUFFIXES) and path.is_file()


def _read_yaml(raw: bytes, source: str) -> object:
    # Imported here: most servers have no such file, and all would start 10 ms later.
    from judged_server.llm.rubrics.plain_yaml import read_yaml  # noqa: PLC0415

    return read_yaml(raw, source)


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


def _head(table: TomlTable) -> Rubric:
    """Return what rubrics of all forms have, still without templates."""
    form = _FORMS[table.choice("form", tuple(_FORMS), "verdict")]
    threshold = _MIN_SCORE_OF_VERDICT if form == "verdict" else _MIN_SCORE
    longest_id = _LONGEST_ID_OF_CLAIMS if form == "claims" else _LONGEST_ID
    return Rubric(
        id=table.text("id", _ID, _ID_RULE, longest=longest_id),
        version=table.integer("version", 1, 1_000_000),
        description=table.text(
            "description", r".*\S.*", "one line of text, no more", longest=_LONGEST_DESCRIPTION
        ),
        min_score=table.number("min_score", 0, 1, threshold) or 0.0,
        fails_closed="yes" if table.text("fails_closed", "yes|no", "yes or no") == "yes" else "no",
        scored=form == "verdict" and table.flag("scored", default=False),
        system="",
        user="",
        structured_answer="",
        plain_answer="",
        form=form,
    )


def _step(table: TomlTable, key: str) -> TomlTable:
    step = table.table(key)
    if step is None:
        raise table.fault(key, f"must be a table; begin it with [{key}], in YAML with {key}:")
    return step


def _asked(head: Rubric, table: TomlTable, form: Form) -> Rubric:
    """Return the rubric, or one step of a rubric of claims, with the templates of `table`."""
    prose = partial(
        table.text, pattern=r"(?s).*\S.*", rule="a text that is not empty", longest=_LONGEST_PROSE
    )
    answer = prose("structured_answer")
    rubric = replace(
        head,
        id=head.id if form == head.form else f"{head.id}_{form}",
        form=form,
        system=prose("system"),
        user=prose("user"),
        structured_answer=answer,
        # JSON is asked for in the same words, whether or not the model is held to it.
        plain_answer=answer if form in JSON_FORMS else prose("plain_answer"),
    )
    table.end(_HINTS)
    check(rubric, table)
    return rubric


def _with_dimensions(head: Rubric, table: TomlTable) -> Rubric:
    dimensions: dict[str, float] = {}
    need_contexts: list[str] = []
    entries = table.tables("dimensions", "name")
    if not 1 <= len(entries) <= MAX_DIMENSIONS:
        raise table.fault(
            "dimensions", f"must be 1 to {MAX_DIMENSIONS} tables [[dimensions]], in YAML a list"
        )
    for entry in entries:
        name = entry.text("name", _ID, _ID_RULE, longest=_LONGEST_NAME)
        if name in dimensions or name in _TAKEN:
            raise entry.fault("name", "is taken; choose another")
        dimensions[name] = entry.number("weight", 0, 1000, 1.0) or 0.0
        if entry.flag("needs_contexts", default=False):
            need_contexts.append(name)
        entry.end()
    if not any(dimensions.values()):
        raise table.fault("dimensions", "must have a weight above 0 somewhere")
    return replace(head, dimensions=tuple(dimensions.items()), need_contexts=tuple(need_contexts))
