"""The files that interrupted evaluations go on from: a line of JSON for each thing that is done.

What failed is not written, so that it is tried again.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

from judged._files import FileError, Record, writing


class ResumeFile:
    """A file of lines that are read at first, and added to; without a path nothing is written.

    The first says what it is about, and has the `run` that request_ids are made of. Raises
    FileError for a file about something else, and for one that can't be read or written.
    """

    def __init__(self, path: Path | str | None, about: Mapping[str, object]) -> None:
        self.name, self._path = str(path), None if path is None else Path(path)
        self._file: BinaryIO | None = None
        head = {"format": "judged.resume", "version": 3, **about}
        self._head = json.loads(json.dumps(head))
        self.run = ""
        if self._path is not None:
            self._open(self._path)
        if not self.run:
            self.begin_run(**self._head)

    def _open(self, path: Path) -> None:
        """Take each line of the file, and open it to go on."""
        try:
            raw = path.read_bytes() if path.exists() else b""
        except OSError as error:
            raise FileError(self.name, None, f"can't be read: {error.strerror or error}") from None
        *lines, rest = raw.split(b"\n")
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._read(Record.parse(line, self.name, number))
        whole = True
        if rest.strip():
            try:  # it may lack its end alone
                record = Record.parse(rest, self.name, len(lines) + 1)
            except FileError:
                if not rest.startswith(b"{"):
                    raise  # no line of ours
                whole = False  # the run that wrote it was killed there
            else:
                self._read(record)
        with writing(path):
            self._file = path.open("ab")
            if not whole:
                self._file.truncate(len(raw) - len(rest))
            elif rest:
                self._file.write(b"\n")

    def _read(self, record: Record) -> None:
        if self.run and record.get("run") is None:
            self.take(record)
            return
        if not self.run and record.get("format") != self._head["format"]:
            raise record.error("is no file to resume an evaluation from; name another one")
        for name, value in ({} if self.run else self._head).items():
            if record.get(name) != value:
                raise record.error(
                    f"is of an evaluation with {name} {record.get(name)!r}, and now it is "
                    f"{value!r}; name another file, or remove this one to begin anew"
                )
        self.run = record.text("run")

    def take(self, record: Record) -> None:
        """Take a line of an earlier run."""
        raise NotImplementedError

    def begin_run(self, **head: object) -> None:
        """Write a line with another run."""
        self.run = str(uuid.uuid4())
        self.write({**head, "run": self.run})

    @property
    def is_file(self) -> bool:
        """Whether lines are written."""
        return self._file is not None

    def write(self, line: Mapping[str, object]) -> None:
        """Add a line."""
        if self._file is not None:
            with writing(self.name):
                text = json.dumps(line, ensure_ascii=False, default=str)
                self._file.write(text.encode() + b"\n")
                self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def sha256_of(content: object) -> str:
    """Return the SHA-256 of a value as JSON, in hex."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
