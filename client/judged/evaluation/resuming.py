"""The files that interrupted evaluations go on from: a line of JSON for each thing that is done.

What failed is not written, so that it is tried again.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

from judged._files import FileError, Record, read_bytes, writing
from judged.evaluation.asking import Asker, Item, Outcome


class ResumeFile(Generic[Item]):
    """A file of lines that are read at first, and added to; without a path nothing is written.

    The first says what it is about, and has the `run` that request_ids are made of. `known` is what
    earlier runs were answered about items, by their ids. Raises FileError for a file about
    something else, and for one that can't be read or written.
    """

    def __init__(self, path: Path | str | None, about: Mapping[str, object]) -> None:
        self.name, self._path = str(path), None if path is None else Path(path)
        head = {"format": "judged.resume", "version": 3, **about}
        self._head = json.loads(json.dumps(head))
        self.known: dict[str, Outcome[Any]] = {}
        self.run = ""
        if self._path is not None and self._path.exists():
            self._read_all(self._path)
        if not self.run:
            self.begin_run(**self._head)

    def _read_all(self, path: Path) -> None:
        lines = read_bytes(path).split(b"\n")
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                record = Record.parse(line, self.name, number)
            except FileError:
                if number < len(lines) or not line.startswith(b"{"):
                    raise
                with writing(path):  # the run that wrote it was killed there
                    os.truncate(path, path.stat().st_size - len(line))
                return
            self._read(record)
        self._add(b"\n" if lines[-1] else b"")  # which tells if it can't be written

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

    def append(self, outcome: Outcome[Item]) -> None:
        """Write down what came of asking about an item."""

    def id_of(self, item: Item) -> str:
        """Return the id of an item."""
        raise NotImplementedError

    def outcomes(
        self,
        items: Sequence[Item],
        asker: Asker[Item],
        ask: Callable[[Sequence[Item]], Generator[Outcome[Item], None, None]],
    ) -> Iterator[Outcome[Item]]:
        """Yield the outcome of each item: those of earlier runs first; `ask` yields the others.

        These are written down as they come, what came before a break included. Raises what was
        raised to end the run.
        """
        for item in items:
            if (known := self.known.get(self.id_of(item))) is not None:
                yield replace(known, item=item, resumed=True)
        try:
            with closing(ask([i for i in items if self.id_of(i) not in self.known])) as outcomes:
                for outcome in outcomes:
                    self.append(outcome)
                    if outcome.failure is not None and not isinstance(outcome.failure, Exception):
                        raise outcome.failure
                    yield outcome
        finally:
            for outcome in asker.leftover():
                self.append(outcome)

    def begin_run(self, **head: object) -> None:
        """Write a line with another run."""
        self.run = str(uuid.uuid4())
        self.write({**head, "run": self.run})

    def write(self, line: Mapping[str, object]) -> None:
        """Add a line."""
        self._add(json.dumps(line, ensure_ascii=False, default=str).encode() + b"\n")

    def _add(self, raw: bytes) -> None:
        if self._path is not None:
            with writing(self.name), self._path.open("ab") as file:
                file.write(raw)


def sha256_of(content: object) -> str:
    """Return the SHA-256 of a value as JSON, in hex."""
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
