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
from judged._views import plain
from judged.evaluation.asking import Outcome
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Retrieved
from judged.evaluation.system import Answer, Question
from judged.values import Asking, JudgeIdentity, QueryGroup, Usage, Verdict, Verdicts


class _Log:
    """A file of lines that are read at first, and added to.

    The first says what it is about, and has the `run` that request_ids are made of. Raises
    FileError for a file about something else, and for one that can't be read or written.
    """

    def __init__(self, path: Path | str, about: Mapping[str, object]) -> None:
        self._name, self._path = str(path), Path(path)
        head = {"format": "judged.resume", "version": 3, **about}
        self._head = json.loads(json.dumps(head))
        self.run = ""
        self._open()
        if not self.run:
            self._begin_run(**self._head)

    def _open(self) -> None:
        """Take each line of the file, and open it to go on."""
        try:
            raw = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise FileError(self._name, None, f"can't be read: {error.strerror or error}") from None
        *lines, rest = raw.split(b"\n")
        for number, line in enumerate(lines, 1):
            if line.strip():
                self._read(Record.parse(line, self._name, number))
        whole = True
        if rest.strip():
            try:  # it may lack its end alone
                record = Record.parse(rest, self._name, len(lines) + 1)
            except FileError:
                if not rest.startswith(b"{"):
                    raise  # no line of ours
                whole = False  # the run that wrote it was killed there
            else:
                self._read(record)
        with writing(self._path):
            self._file: BinaryIO = self._path.open("ab")
            if not whole:
                self._file.truncate(len(raw) - len(rest))
            elif rest:
                self._file.write(b"\n")

    def _read(self, record: Record) -> None:
        if self.run and record.get("run") is None:
            self._take(record)
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

    def _take(self, record: Record) -> None:
        raise NotImplementedError

    def _begin_run(self, **head: object) -> None:
        self.run = str(uuid.uuid4())
        self._write({**head, "run": self.run})

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

    Under its `run` the answers are scored. It stays the same until all have their scores, so that a
    scoring that broke is not paid for twice. Raises FileError for the answers of another system,
    and to another question under the same id.
    """

    def __init__(self, path: Path | str, questions: Iterable[Question], system: str) -> None:
        self._questions = {question.item_id: question for question in questions}
        self.known: dict[str, Outcome[Question]] = {}
        super().__init__(path, {"system": system})

    def _take(self, record: Record) -> None:
        item_id = record.identifier("item_id")
        question = self._questions.get(item_id)
        if question is None:
            return  # of a larger set of questions
        if record.text("question_sha256") != digest(question):
            raise record.error(
                f"is the answer to another question than that of item {item_id!r}; remove the "
                "line, or name another file"
            )
        metadata = record.record("metadata")
        answer = record.read(Answer, metadata=dict(metadata.fields) if metadata else {})
        seconds = record.optional_number("seconds") or 0.0
        self.known[item_id] = Outcome(question, answer, None, seconds)

    def append(self, outcome: Outcome[Question]) -> None:
        """Write an answer down; a failure is not written, so that it is asked again."""
        answer: Answer | None = outcome.result
        if answer is None:
            return
        question, seconds = outcome.item, round(outcome.seconds, 6)
        known = {"item_id": question.item_id, "question_sha256": digest(question)}
        said = {"text": answer.text, "contexts": answer.contexts, "metadata": dict(answer.metadata)}
        self._write({**known, **said, "seconds": seconds})

    def scored(self) -> None:
        """Note that all answers have their scores: to score them again is to pay again."""
        with writing(self._path):
            self._file = self._path.open("ab")
        self._begin_run()
        self.close()


class EvaluationLog(_Log):
    """What earlier runs found and judged, and the place for what this one does.

    There are lines with what was retrieved for a query, and lines with what one call judged: the
    verdicts of its groups, each known by a hash of all that its verdicts rest on, and what they
    took. All verdicts of a file are of one judge: what was asked for, such as the server's default,
    may be another judge the next time, and a result names only one. Raises FileError for a file
    with verdicts of several.
    """

    def __init__(self, path: Path | str, about: Mapping[str, object]) -> None:
        self.retrieved: dict[str, Sequence[Retrieved]] = {}
        self.verdicts: dict[str, Sequence[Verdict]] = {}
        self.usage: Usage | None = None
        self.judge: JudgeIdentity | None = None
        self._calls = 0
        super().__init__(path, about)

    def _take(self, record: Record) -> None:
        if record.get("query_id") is not None:
            found = [result.read(Retrieved) for result in record.records("results")]
            self.retrieved[record.text("query_id")] = found
            return
        usage, judge = record.record("usage"), record.record("judge")
        groups = record.records("groups")
        # A call all of whose verdicts failed left none that another judge's could be mixed with.
        if judge is not None and groups:
            identity = judge.read(JudgeIdentity)
            if (other := self._other_judge(identity)) is not None:
                raise record.error(
                    f"is of the judge {_told(identity, other)}, and the lines before it are of "
                    f"{_told(other, identity)}; name another file, or remove this one to begin anew"
                )
        for group in groups:
            self.verdicts[group.text("group")] = [
                verdict.read(Verdict) for verdict in group.records("verdicts")
            ]
        self._answered(None if usage is None else usage.read(Usage))

    def request_id(self, groups: Sequence[QueryGroup], asking: Asking | None) -> str:
        """Return the request_id of the next call, about some groups.

        It is the same after an interruption, until the call is answered: what is asked again after
        a failure is another call.
        """
        keys = [group_key(group) for group in groups]
        return derived_id(self.run, self._calls, keys, repr(asking))

    def keep_retrieved(self, query: Query, found: Sequence[Retrieved]) -> None:
        """Write down what was retrieved for a query."""
        self._write({"query_id": query.query_id, "results": plain(found)})

    def keep_verdicts(
        self, judged: Iterable[tuple[QueryGroup, Sequence[Verdict]]], call: Verdicts
    ) -> None:
        """Write down what a call judged, and what it took: in one line, which is there or not.

        Raises FileError, and writes nothing, where another judge gave the verdicts that are there.
        """
        if (other := self._other_judge(call.judge)) is not None:
            raise FileError(
                self._name,
                None,
                f"is of another judge, {_told(other, call.judge)}, and now "
                f"{_told(call.judge, other)} answers; go back to that judge, name another file, or "
                "remove this one to begin anew",
            )
        groups = [{"group": group_key(group), "verdicts": plain(of)} for group, of in judged]
        self._answered(call.usage)
        usage = None if call.usage is None else asdict(call.usage)
        self._write({"judge": plain(call.judge), "groups": groups, "usage": usage})

    def _answered(self, usage: Usage | None) -> None:
        self._calls += 1
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage

    def _other_judge(self, judge: JudgeIdentity) -> JudgeIdentity | None:
        """Return the judge of the verdicts so far where it is another one, else None.

        One without a fingerprint is not known to be another.
        """
        if not judge.fingerprint:
            return None
        if self.judge is None:
            self.judge = judge
        return None if self.judge == judge else self.judge


def group_key(group: QueryGroup) -> str:
    """Return the SHA-256 of all that the verdicts of a group rest on, its judge aside."""
    return _sha256([group.query, plain(group.expected), plain(group.retrieved), plain(group.spans)])


def digest(question: Question) -> str:
    """Return the SHA-256 of what a system is asked: the query and the sources."""
    return _sha256([question.query, plain(question.contexts)])


def _sha256(content: object) -> str:
    text = json.dumps(content, ensure_ascii=False)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _told(judge: JudgeIdentity, other: JudgeIdentity) -> str:
    """Return what tells a judge from another one: signatures don't print all that a judge is."""
    if judge.signature != other.signature:
        return judge.signature
    return f"{judge.signature} (fingerprint {judge.fingerprint[:8]})"
