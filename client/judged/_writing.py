"""Files that are replaced whole: what was there stays until all of the new is written."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """Yield where to write what then takes the place of a file. Raises OSError.

    After an error the file is as it was. Pipes and devices are written to as they are, as is a file
    whose folder takes no other one.
    """
    target = Path(os.path.realpath(path))
    if target.exists():
        if not target.is_file():
            yield target
            return
        os.close(os.open(target, os.O_WRONLY))  # raises for a file that must not be written to
    beside = target.with_name(f".judged-{secrets.token_hex(8)}.new")
    try:
        beside.touch(exist_ok=False)
    except PermissionError:
        yield target
        return
    try:
        if target.exists():
            beside.chmod(target.stat().st_mode & 0o777)
        yield beside
        with beside.open("rb") as written:
            os.fsync(written.fileno())
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def replacing_text(path: Path | str, newline: str | None = None) -> Iterator[TextIO]:
    """Open a file of UTF-8 that then takes the place of another one. Raises OSError."""
    with replacing(path) as beside, beside.open("w", encoding="utf-8", newline=newline) as file:
        yield file


def replace_text(path: Path | str, text: str) -> None:
    """Write a text to a file in place of what it held. Raises OSError."""
    with replacing_text(path) as file:
        file.write(text)
