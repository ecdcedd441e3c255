"""The file that a run of questions goes on from: a line an answer, written as they come.

A line with a `run` holds the request_id under which the answers are scored from there on. It stays
the same until all have their scores, so that a scoring that broke is not paid for twice.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from judged._files import FileError, Record, parse_json, writing
from judged.evaluation._steps.answering import Outcome
from judged.evaluation.system import Answer, Question


class AnswerLog:
    """The answers of earlier runs by item id, and the place for those of this one.

    Raises FileError for a line that can't be read, that is about another question under the same
    id, or that another system answered.
    """

    def __init__(self, path: Path | str, questions: Iterable[Question], system: str) -> None:
        self._name = str(path)
        self._path = Path(path)
        self._system = system
        self.known: dict[str, tuple[Answer, float]] = {}
        self.run = ""
        self._file: BinaryIO | None = None
        self._read({question.item_id: question for question in questions})

    def _read(self, questions: dict[str, Question]) -> None:
        try:
            raw = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise FileError(self._name, None, f"can't be read: {error.strerror or error}") from None
        *lines, rest = raw.split(b"\n")
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._take(line, number, questions)
        whole = not rest or self._is_whole(rest, len(lines) + 1, questions)
        with writing(self._path):
            self._file = self._path.open("ab")
            if not whole:
                self._file.truncate(len(raw) - len(rest))
            elif rest:
                self._file.write(b"\n")
        if not self.run:
            self._begin_run(self._file)

    def _is_whole(self, rest: bytes, number: int, questions: dict[str, Question]) -> bool:
        """Say whether the last line only lacks its end; else the run that wrote it ended there."""
        try:
            parse_json(rest, self._name, number)
        except FileError:
            return False
        self._take(rest, number, questions)
        return True

    def _take(self, raw: bytes, number: int, questions: dict[str, Question]) -> None:
        line = Record(parse_json(raw, self._name, number), self._name, number, "")
        if line.get("run") is not None:
            self.run = line.text("run")
            return
        item_id = line.identifier("item_id")
        question = questions.get(item_id)
        if question is None:
            return  # of a larger set of questions
        if line.text("question_sha256") != digest(question):
            raise line.error(
                f"is the answer to another question than that of item {item_id!r}; remove the "
                "line, or name another file"
            )
        system = line.text("system")
        if system != self._system:
            raise line.error(
                f"was answered by {system}, and now the system is {self._system}; name another file"
            )
        contexts = line.texts("contexts") if line.get("contexts") is not None else None
        metadata = line.record("metadata")
        answer = Answer(line.text("answer"), contexts, dict(metadata.fields) if metadata else {})
        self.known[item_id] = (answer, line.optional_number("seconds") or 0.0)

    def append(self, outcome: Outcome) -> None:
        """Write an answer down; a failure is not written, so that it is asked again."""
        answer = outcome.answer
        if self._file is None or answer is None:
            return
        line = {
            "item_id": outcome.question.item_id,
            "question_sha256": digest(outcome.question),
            "system": self._system,
            "answer": answer.text,
            "contexts": None if answer.contexts is None else list(answer.contexts),
            "metadata": dict(answer.metadata),
            "seconds": round(outcome.seconds, 6),
        }
        self._write(self._file, line)

    def scored(self) -> None:
        """Note that all answers have their scores: to score them again is to pay again."""
        with self._path.open("ab") as file:
            self._begin_run(file)

    def _begin_run(self, file: BinaryIO) -> None:
        self.run = str(uuid.uuid4())
        self._write(file, {"run": self.run})

    def _write(self, file: BinaryIO, line: Mapping[str, object]) -> None:
        file.write(json.dumps(line, ensure_ascii=False, default=str).encode() + b"\n")
        file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def digest(question: Question) -> str:
    """Return the SHA-256 of what a system is asked: the query and the sources."""
    asked = json.dumps([question.query, list(question.contexts)], ensure_ascii=False)
    return hashlib.sha256(asked.encode(errors="surrogatepass")).hexdigest()
