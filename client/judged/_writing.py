"""Files that are replaced whole: what was there stays until all of the new is written."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

_DEVICES = (("/", "dev"), ("/", "proc"))
"""Where files stand for what is open already, such as standard output."""


@contextmanager
def replacing(path: Path | str, mode: int = 0o666) -> Iterator[Path]:
    """Yield where to write what then takes the place of a file. Raises OSError.

    It stays with its owner and those who may read it; a new one has a mode, less the umask. After
    an error the file is as it was. Pipes and devices are written to as they are, as is a file whose
    folder takes no other one.
    """
    given, target = Path(path), Path(os.path.realpath(path))
    there = given.exists()
    if there and (not given.is_file() or given.parts[:2] in _DEVICES):
        yield given
        return
    if there:
        os.close(os.open(target, os.O_WRONLY))  # raises for a file that must not be written to
    beside = target.with_name(f".judged-{secrets.token_hex(8)}.new")
    try:
        beside.touch(mode, exist_ok=False)
    except PermissionError:
        yield target
        return
    try:
        if there:
            before = target.stat()
            beside.chmod(before.st_mode & 0o777)
            with suppress(AttributeError, PermissionError):  # Windows has no owners like these
                os.chown(beside, before.st_uid, before.st_gid)
        yield beside
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        try:
            beside.replace(target)
        except OSError:  # it is mounted by itself, say, and may be written but not replaced
            shutil.copyfile(beside, target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def replacing_text(
    path: Path | str, newline: str | None = None, mode: int = 0o666
) -> Iterator[TextIO]:
    """Open a file of UTF-8 that then takes the place of another one. Raises OSError."""
    with (
        replacing(path, mode) as beside,
        beside.open("w", encoding="utf-8", newline=newline) as file,
    ):
        yield file


def replace_text(path: Path | str, text: str, mode: int = 0o666) -> None:
    """Write a text to a file in place of what it held; a new one has a mode. Raises OSError."""
    with replacing_text(path, mode=mode) as file:
        file.write(text)
