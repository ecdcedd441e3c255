"""Rubrics read from TOML files: those of the package, and an operator's own.

Owns the form of the file and every check of it, so that a rubric that was read can be asked. Every
fault names the file and the key. docs/rubrics.md says how to write one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from judged_server.llm.rubrics.rubric import ANSWER, FIELDS, NONCE, PLACEHOLDER, Rubric
from judged_server.llm.toml_table import TomlTable
from judged_server.settings import SettingsError

MAX_FILE_BYTES = 1 << 18

_ID = "[a-z][a-z0-9_]{0,63}"
_ID_RULE = "a name of a-z, 0-9 and _ that begins with a letter"
_PROSE = r"(?s)(?=.*\S).{1,65536}"
_PROSE_RULE = "a text that is not empty"


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
    """Return the rubrics of the *.toml files in `folder` by id, in the order of the file names.

    Raises SettingsError, naming the file and the key, when one of them breaks a rule, when two have
    one id, or when one has the id of a built-in rubric.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".toml")
    except OSError as error:
        raise SettingsError(f"rubrics_dir {folder} can't be read: {error.strerror}") from None
    if not paths:
        raise SettingsError(
            f"rubrics_dir {folder} has no *.toml file; add one, or drop the setting"
        )
    found: dict[str, tuple[Path, Rubric]] = {}
    for path in paths:
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
    """Return the rubric a file holds; `source` is named in errors. Raises SettingsError."""
    try:
        content = tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        raise SettingsError(f"{source}: the file is not UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{source} is not TOML: {error}") from None
    table = TomlTable(content, source)
    rubric = Rubric(
        id=table.text("id", _ID, _ID_RULE),
        version=table.integer("version", 1, 1_000_000, 0),
        description=table.text("description", r".{0,500}\S.{0,500}", "one line of text"),
        min_score=table.number("min_score", 0, 1, 0.5) or 0.0,
        fails_closed="yes" if table.text("fails_closed", "yes|no", "yes or no") == "yes" else "no",
        scored=table.flag("scored", default=False),
        system=table.text("system", _PROSE, _PROSE_RULE),
        user=table.text("user", _PROSE, _PROSE_RULE),
        structured_answer=table.text("structured_answer", _PROSE, _PROSE_RULE),
        plain_answer=table.text("plain_answer", _PROSE, _PROSE_RULE),
    )
    table.end()
    if not rubric.version:
        raise table.fault("version", "must be a whole number from 1 on")
    _check_system(rubric, table)
    _check_user(rubric, table)
    _check_answers(rubric, table)
    return rubric


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


def _check_system(rubric: Rubric, table: TomlTable) -> None:
    names = _placeholders(rubric.system, "system", table)
    if names != [ANSWER]:
        raise table.fault(
            "system",
            "must hold {{answer}} once, where it says how to answer, and nothing else "
            "in double braces",
        )


def _check_user(rubric: Rubric, table: TomlTable) -> None:
    names = _placeholders(rubric.user, "user", table)
    allowed = ", ".join("{{" + name + "}}" for name in FIELDS)
    if NONCE not in names:
        raise table.fault("user", "must hold {{nonce}}, where it says how the texts are marked")
    fields = [name for name in names if name != NONCE]
    if not fields or not set(fields) <= set(FIELDS):
        raise table.fault("user", f"must show one or more of {allowed}, and nothing else but nonce")
    if len(set(fields)) < len(fields):
        raise table.fault("user", "must show each text once")


def _check_answers(rubric: Rubric, table: TomlTable) -> None:
    """Refuse words on how to answer that fit another form of reply than the one that is read."""
    keys = ["reasoning", "verdict", "score"] if rubric.scored else ["reasoning", "verdict"]
    for key in keys:
        if f'"{key}"' not in rubric.structured_answer:
            raise table.fault("structured_answer", f'must name the key "{key}" in double quotes')
    if not rubric.scored and '"score"' in rubric.structured_answer:
        raise table.fault("structured_answer", 'must not ask for "score" without scored = true')
    for word in ("YES", "NO"):
        if not re.search(rf"\b{word}\b", rubric.plain_answer):
            raise table.fault("plain_answer", "must ask for YES or NO, in capitals")
    for key in ("structured_answer", "plain_answer"):
        if "{{" in getattr(rubric, key):
            raise table.fault(key, "can't hold double braces")


def _placeholders(template: str, key: str, table: TomlTable) -> list[str]:
    """Return the names in double braces; a template has no others, so that none stays unfilled."""
    names = PLACEHOLDER.findall(template)
    rest = PLACEHOLDER.sub("", template)
    if "{{" in rest or "}}" in rest:
        raise table.fault(key, "has double braces that are not around a name")
    return names
