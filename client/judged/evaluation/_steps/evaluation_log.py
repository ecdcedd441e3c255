"""The file that an interrupted evaluation goes on from: a line for each query as it is finished.

The first line says what is evaluated. Then come lines with what was retrieved for a query, and
lines with what one call judged: the verdicts of its groups, each known by a hash of all that its
verdicts rest on, and what they took. What failed is not written, so that it is tried again.

All verdicts of a file are of one judge: what was asked for, such as the server's default, may be
another judge the next time, and a result names only one.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO

from judged._files import FileError, Record, parse_json, writing
from judged._transport.call import derived_id
from judged.evaluation.datasets.query import Query
from judged.evaluation.datasets.results import Retrieved, read_span
from judged.values import Asking, JudgeIdentity, QueryGroup, Usage, VerdictError, Verdicts

_COLUMNS = (
    *("relevant", "score", "status", "source", "flags", "agreement", "probability"),
    "stage",
)


class EvaluationLog:
    """What earlier runs found and judged, and the place for what this one does.

    Raises FileError for a file of another evaluation, for one with verdicts of several judges, and
    for one that can't be read or written.
    """

    def __init__(self, path: Path | str, about: Mapping[str, object]) -> None:
        self._name, self._path = str(path), Path(path)
        self.retrieved: dict[str, Sequence[Retrieved]] = {}
        self.verdicts: dict[str, Verdicts] = {}
        self.usage: Usage | None = None
        self._judge: JudgeIdentity | None = None
        self._calls = 0
        self._run = str(uuid.uuid4())
        head = json.loads(json.dumps({"format": "judged.resume", "version": 2, **about}))
        try:
            raw = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise FileError(self._name, None, f"can't be read: {error.strerror or error}") from None
        # A run that was killed may have left half a line, which is nothing.
        whole = raw[: raw.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            record = Record(parse_json(line, self._name, number), self._name, number, "")
            if number == 1:
                self._check(record, head)
            else:
                self._take(record)
        with writing(path):
            self._file: BinaryIO = self._path.open("ab")
            if len(whole) < len(raw):
                self._file.truncate(len(whole))
        if not whole:
            self._write({**head, "run": self._run})

    def _check(self, record: Record, head: Mapping[str, object]) -> None:
        if record.get("format") != "judged.resume":
            raise record.error("is no file to resume an evaluation from; name another one")
        self._run = str(record.get("run"))
        for name, value in head.items():
            if record.get(name) != value:
                raise record.error(
                    f"is of an evaluation with {name} {record.get(name)!r}, and now it is "
                    f"{value!r}; name another file, or remove this one to begin anew"
                )

    def _take(self, record: Record) -> None:
        if record.get("query_id") is not None:
            found = [_read_retrieved(result) for result in record.records("results")]
            self.retrieved[record.text("query_id")] = found
            return
        self._calls += 1
        if (usage := record.record("usage")) is not None:
            self._add(Usage(**usage.fields))  # type: ignore[arg-type]  # written below
        judge = record.record("judge")
        if judge is None:
            return
        identity = JudgeIdentity(**judge.fields)  # type: ignore[arg-type]  # written below
        groups = record.records("groups")
        # A call all of whose verdicts failed left none that another judge's could be mixed with.
        if groups and (other := self._other_judge(identity)) is not None:
            raise record.error(
                f"is of the judge {_told(identity, other)}, and the lines before it are of "
                f"{_told(other, identity)}; name another file, or remove this one to begin anew"
            )
        for group in groups:
            columns: dict[str, Any] = {name: group.items(name) for name in _COLUMNS}
            errors = {
                int(index): VerdictError(**error)
                for index, error in ((group.get("errors") or {}).items())  # type: ignore[attr-defined]
            }
            n = len(columns["status"])
            self.verdicts[group.text("group")] = Verdicts(
                **columns, offsets=[0, n], errors=errors, judge=identity
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

    def _write(self, line: Mapping[str, object]) -> None:
        with writing(self._path):
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


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


def _read_retrieved(record: Record) -> Retrieved:
    span = record.record("span")
    return Retrieved(
        record.optional_text("doc_id"),
        record.optional_number("score"),
        record.optional_text("text"),
        None if span is None else read_span(span),
    )
