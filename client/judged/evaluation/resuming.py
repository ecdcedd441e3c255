"""The files that interrupted evaluations go on from: a line of JSON for each thing that is done.

What failed is not written, so that it is tried again.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from judged._files import FileError, Record, writing
from judged._transport.call import derived_id
from judged.evaluation.asking import Outcome
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Retrieved
from judged.evaluation.system import Answer, Question
from judged.values import Asking, JudgeIdentity, QueryGroup, Usage, VerdictError, Verdicts
from judged.values.verdicts import RARE_COLUMNS

_COLUMNS = ("relevant", "score", "status", "source", "flags", *RARE_COLUMNS)


class _Log:
    """A file of lines that are read at first, and added to."""

    def __init__(self, path: Path | str) -> None:
        self._name, self._path = str(path), Path(path)

    def _open(self) -> None:
        """Take each line of the file, and open it to go on."""
        try:
            raw = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise FileError(self._name, None, f"can't be read: {error.strerror or error}") from None
        *lines, rest = raw.split(b"\n")
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._take(Record.parse(line, self._name, number))
        whole = True
        if rest.strip():
            try:  # it may lack its end alone
                record = Record.parse(rest, self._name, len(lines) + 1)
            except FileError:
                if not rest.startswith(b"{"):
                    raise  # no line of ours
                whole = False  # the run that wrote it was killed there
            else:
                self._take(record)
        with writing(self._path):
            self._file: BinaryIO = self._path.open("ab")
            if not whole:
                self._file.truncate(len(raw) - len(rest))
            elif rest:
                self._file.write(b"\n")

    def _take(self, record: Record) -> None:
        raise NotImplementedError

    def _write(self, line: Mapping[str, object]) -> None:
        with writing(self._path):
            text = json.dumps(line, ensure_ascii=False, default=str)
            self._file.write(text.encode() + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class AnswerLog(_Log):
    """The answers of earlier runs by item id, and the place for those of this one.

    A line with a `run` holds the request_id under which the answers are scored from there on. It
    stays the same until all have their scores, so that a scoring that broke is not paid for twice.

    Raises FileError for a line that can't be read, that is about another question under the same
    id, or that another system answered.
    """

    def __init__(self, path: Path | str, questions: Iterable[Question], system: str) -> None:
        super().__init__(path)
        self._system = system
        self._questions = {question.item_id: question for question in questions}
        self.known: dict[str, tuple[Answer, float]] = {}
        self.run = ""
        self._open()
        if not self.run:
            self._begin_run()

    def _take(self, record: Record) -> None:
        if record.get("run") is not None:
            self.run = record.text("run")
            return
        item_id = record.identifier("item_id")
        question = self._questions.get(item_id)
        if question is None:
            return  # of a larger set of questions
        if record.text("question_sha256") != digest(question):
            raise record.error(
                f"is the answer to another question than that of item {item_id!r}; remove the "
                "line, or name another file"
            )
        system = record.text("system")
        if system != self._system:
            raise record.error(
                f"was answered by {system}, and now the system is {self._system}; name another file"
            )
        contexts = record.texts("contexts") if record.get("contexts") is not None else None
        metadata = record.record("metadata")
        answer = Answer(record.text("answer"), contexts, dict(metadata.fields) if metadata else {})
        self.known[item_id] = (answer, record.optional_number("seconds") or 0.0)

    def append(self, outcome: Outcome[Question]) -> None:
        """Write an answer down; a failure is not written, so that it is asked again."""
        answer: Answer | None = outcome.result
        if answer is None:
            return
        self._write(
            {
                "item_id": outcome.item.item_id,
                "question_sha256": digest(outcome.item),
                "system": self._system,
                "answer": answer.text,
                "contexts": answer.contexts,
                "metadata": dict(answer.metadata),
                "seconds": round(outcome.seconds, 6),
            }
        )

    def scored(self) -> None:
        """Note that all answers have their scores: to score them again is to pay again."""
        with writing(self._path):
            self._file = self._path.open("ab")
        self._begin_run()
        self.close()

    def _begin_run(self) -> None:
        self.run = str(uuid.uuid4())
        self._write({"run": self.run})


class EvaluationLog(_Log):
    """What earlier runs found and judged, and the place for what this one does.

    The first line says what is evaluated. Then come lines with what was retrieved for a query, and
    lines with what one call judged: the verdicts of its groups, each known by a hash of all that
    its verdicts rest on, and what they took. All verdicts of a file are of one judge: what was
    asked for, such as the server's default, may be another judge the next time, and a result names
    only one.

    Raises FileError for a file of another evaluation, for one with verdicts of several judges, and
    for one that can't be read or written.
    """

    def __init__(self, path: Path | str, about: Mapping[str, object]) -> None:
        super().__init__(path)
        self.retrieved: dict[str, Sequence[Retrieved]] = {}
        self.verdicts: dict[str, Verdicts] = {}
        self.usage: Usage | None = None
        self._judge: JudgeIdentity | None = None
        self._calls, self._has_head = 0, False
        self._run = str(uuid.uuid4())
        self._head = json.loads(json.dumps({"format": "judged.resume", "version": 2, **about}))
        self._open()
        if not self._has_head:
            self._write({**self._head, "run": self._run})

    def _check(self, record: Record) -> None:
        if record.get("format") != "judged.resume":
            raise record.error("is no file to resume an evaluation from; name another one")
        self._run = str(record.get("run"))
        for name, value in self._head.items():
            if record.get(name) != value:
                raise record.error(
                    f"is of an evaluation with {name} {record.get(name)!r}, and now it is "
                    f"{value!r}; name another file, or remove this one to begin anew"
                )

    def _take(self, record: Record) -> None:
        if not self._has_head:
            self._has_head = True
            self._check(record)
            return
        if record.get("query_id") is not None:
            found = [result.read(Retrieved) for result in record.records("results")]
            self.retrieved[record.text("query_id")] = found
            return
        self._calls += 1
        if (usage := record.record("usage")) is not None:
            self._add(usage.read(Usage))
        if (named := record.record("judge")) is None:
            return
        judge, groups = named.read(JudgeIdentity), record.records("groups")
        # A call all of whose verdicts failed left none that another judge's could be mixed with.
        if groups and (other := self._other_judge(judge)) is not None:
            raise record.error(
                f"is of the judge {_told(judge, other)}, and the lines before it are of "
                f"{_told(other, judge)}; name another file, or remove this one to begin anew"
            )
        for group in groups:
            errors = group.inner(group.get("errors") or {}, "errors")
            self.verdicts[group.text("group")] = group.read(
                Verdicts,
                judge=judge,
                offsets=[0, len(group.items("status"))],
                errors={
                    int(i): errors.inner(e, i).read(VerdictError) for i, e in errors.fields.items()
                },
            )

    def request_id(self, groups: Sequence[QueryGroup], asking: Asking | None) -> str:
        """Return the request_id of the next call, about some groups.

        It is the same after an interruption, until the call is answered: what is asked again after
        a failure is another call.
        """
        keys = [group_key(group) for group in groups]
        return derived_id(self._run, self._calls, keys, repr(asking))

    def keep_retrieved(self, query: Query, found: Sequence[Retrieved]) -> None:
        """Write down what was retrieved for a query."""
        results = [
            {name: value for name, value in asdict(result).items() if value is not None}
            for result in found
        ]
        self._write({"query_id": query.query_id, "results": results})

    def keep_verdicts(
        self,
        judged: Sequence[tuple[QueryGroup, Verdicts]],
        judge: JudgeIdentity,
        usage: Usage | None,
    ) -> None:
        """Write down what a call judged, and what it took: in one line, which is there or not.

        Raises FileError, and writes nothing, where another judge gave the verdicts that are there.
        """
        if (other := self._other_judge(judge)) is not None:
            raise FileError(
                self._name,
                None,
                f"is of another judge, {_told(other, judge)}, and now {_told(judge, other)} "
                "answers; go back to that judge, name another file, or remove this one to begin "
                "anew",
            )
        self._calls += 1
        if usage is not None:
            self._add(usage)
        groups = [
            {
                "group": group_key(group),
                **{name: list(getattr(verdicts, name)) for name in _COLUMNS},
                "errors": {str(i): asdict(error) for i, error in verdicts.errors.items()},
            }
            for group, verdicts in judged
        ]
        told = None if usage is None else asdict(usage)
        self._write({"judge": asdict(judge), "groups": groups, "usage": told})

    def _other_judge(self, judge: JudgeIdentity) -> JudgeIdentity | None:
        """Return the judge of the verdicts so far where it is another one, else None.

        One without a fingerprint is not known to be another.
        """
        if not judge.fingerprint:
            return None
        if self._judge is None:
            self._judge = judge
        return None if self._judge.fingerprint == judge.fingerprint else self._judge

    def _add(self, usage: Usage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage


def group_key(group: QueryGroup) -> str:
    """Return the SHA-256 of all that the verdicts of a group rest on, its judge aside."""
    spans = None if group.spans is None else asdict(group.spans)
    content = [group.query, list(group.expected), list(group.retrieved), spans]
    text = json.dumps(content, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _told(judge: JudgeIdentity, other: JudgeIdentity) -> str:
    """Return what tells a judge from another one: signatures don't print all that a judge is."""
    if judge.signature != other.signature:
        return judge.signature
    return f"{judge.signature} (fingerprint {judge.fingerprint[:8]})"


def digest(question: Question) -> str:
    """Return the SHA-256 of what a system is asked: the query and the sources."""
    asked = json.dumps([question.query, list(question.contexts)], ensure_ascii=False)
    return hashlib.sha256(asked.encode(errors="surrogatepass")).hexdigest()
