"""Judges and rubrics over Arrow: callables for Ray Data, Spark, Daft and plain pyarrow.

    from judged.arrow import Judging

    judging = Judging("dns:///judged:8470", "semantic", expected="gold", retrieved="passage")
    judged = judging(table)

Needs the extra `arrow`.
"""

from __future__ import annotations

import atexit
import os
import re
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass
from itertools import repeat
from typing import Any, ClassVar, NamedTuple

from judged._batching.judging import PASSING, cut
from judged._convert import CostLimit, missing_for
from judged._local import local
from judged._views import of_all
from judged.client import Client
from judged.credentials import Credentials
from judged.errors import FailedPrecondition, InternalError, InvalidArgument, WrongType
from judged.values import (
    AnswerItem,
    AnswerScore,
    Asking,
    Judge,
    JudgeIdentity,
    QueryGroup,
    Rubric,
    Source,
    Status,
    Usage,
    VerdictError,
    Verdicts,
)

try:
    import pyarrow as pa
except ImportError:
    raise ImportError("judged.arrow needs pyarrow; run: pip install 'judged[arrow]'") from None

__all__ = ["Answered", "Judging", "Scoring"]

LOCAL = "local"
_LEAST_S = 0.001
_STATUS = {int(status): status.name for status in Status}
_SOURCE = {int(source): source.name for source in Source}
_PLACE = re.compile(r"(?:^|\.)(?:groups|items)\[(\d+)\]\.?(\w*)")
"""Which group or item a refusal is about, and which field of it."""
_NOT_OF_THE_ROW = {
    "BUDGET",
    "BUDGET_EXHAUSTED",
    "DEADLINE_EXCEEDED",
    "DEADLINE_TOO_SHORT",
    "NOT_CACHED",
    "PROVIDER_REFUSED_KEY",
    "TIMEOUT",
}
"""Reasons that say nothing of the row: more money, time or the right key gives it a verdict."""
_OF_THE_SERVER = {"", "INTERNAL"}
"""Reasons of a fault of the server, which a row may bring about."""


class _Row(NamedTuple):
    """What came of a row."""

    status: str
    passed: bool | None = None
    score: float | None = None
    probability: float | None = None
    error: VerdictError | None = None
    source: str | None = None
    judge: str | None = None


@dataclass(frozen=True)
class Answered:
    """The answers of a batch, what they took, and how many rows have none yet, by the reason."""

    table: Any
    usage: Usage | None
    missing: Mapping[str, int]


@dataclass(frozen=True)
class _Question:
    """What is asked of each row of a batch: picklable, since clients are the process's own."""

    target: str | None = None
    _: KW_ONLY
    id: str = "id"
    expect: str | None = None
    credentials: Credentials | None = None
    asking: Asking | None = None
    timeout: float = 600.0
    every_row: bool = False

    DDL: ClassVar[str]
    """The columns of the result behind the id, as Spark writes types."""
    _fields: ClassVar[Sequence[str]] = ()
    _lists: ClassVar[Sequence[str]] = ()
    """What is read: columns of texts, and of lists of them."""

    def __post_init__(self) -> None:
        if f", {self.id} " in f", {self.DDL}":
            rule = f"the result has a column {self.id!r} of its own; rename that of the ids"
            raise InvalidArgument.of_field("id", rule)

    @property
    def columns(self) -> Mapping[str, str]:
        """The columns that are read, by what they hold."""
        named = {field: getattr(self, field) for field in self._fields}
        return {field: name for field, name in named.items() if name is not None}

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401 - of pyarrow, which is not installed everywhere
        """Return the answers of a Table or RecordBatch as one, or of an iterator of them as one.

        Warns of rows that have none yet. Raises InvalidArgument for columns that are not there or
        not of texts, and for ids that are null or there twice; FailedPrecondition for a judge that
        is not the one expected; and what a call raises that is wrong as a whole.
        """
        if isinstance(batch, Iterator):
            return map(self, batch)
        answered = self.ask(batch)
        if missing := answered.missing:
            what = of_all(sum(missing.values()), batch.num_rows, "row")
            why = max(missing, key=missing.__getitem__)
            warnings.warn(f"{what} without a verdict, to be asked again: {why}", stacklevel=2)
        return answered.table

    def ask(self, batch: Any, asking: Asking | None = None) -> Answered:  # noqa: ANN401 - as above
        """Return the answers of a Table or RecordBatch with what they took; raises as a call does.

        `asking` takes the place of the object's own.
        """
        if not isinstance(batch, pa.Table | pa.RecordBatch):
            rule = f"must be a Table or RecordBatch of pyarrow, not {type(batch).__name__}"
            raise WrongType.of_field("batch", rule)
        ids, items, rows = self._read(batch)
        limit = CostLimit(asking or self.asking)
        usage = self._fill(items, rows, limit) if items else None
        works = any(row.judge is not None for row in rows.values())
        missing = {
            place: row.error
            for place, row in rows.items()
            if row.error is not None and _passes(row.error, works=works)
        }
        reasons = Counter(f"{error.reason}: {error.message}" for error in missing.values())
        kept = [place for place in range(len(ids)) if self.every_row or place not in missing]
        cells = [_cells(rows[place], left=place in missing) for place in kept]
        ids = ids if len(kept) == len(ids) else ids.take(pa.array(kept, pa.int64()))
        schema = self.schema(ids.type)
        columns = zip(*cells, strict=True) if cells else repeat((), len(schema) - 1)
        arrays = map(pa.array, columns, schema.types[1:])
        table = type(batch).from_arrays([ids, *arrays], schema=schema)
        return Answered(table, usage, reasons)

    def _fill(
        self, items: Mapping[int, Any], rows: dict[int, _Row], limit: CostLimit
    ) -> Usage | None:
        """Put what came of each item into `rows`; return what it took.

        A refusal of one is its error, and the others are asked without it. Of those that a fault
        of the server came of, each half is asked again, until it is known whose it is.
        """
        client = _client(self.target, self.credentials)
        usages: list[Usage] = []
        ends = time.monotonic() + self.timeout
        rounds = deque([self._chunks(client, items)])
        while rounds:
            chunks, taken = rounds.popleft(), 0
            left = max(ends - time.monotonic(), _LEAST_S)
            try:
                asked = [[items[place] for place in chunk] for chunk in chunks]
                for found, usage in self._ask(client.with_options(timeout=left), asked, limit):
                    chunk = chunks[taken]
                    taken += 1
                    rows.update(zip(chunk, found, strict=True))
                    usages += [usage] if usage is not None else []
                    broken = [place for place in chunk if _is_broken(rows[place])]
                    if len(chunk) > 1 and broken:
                        half = (len(broken) + 1) // 2
                        rounds.append([each for each in (broken[:half], broken[half:]) if each])
            except InvalidArgument as error:
                if (at := _PLACE.search(error.field)) is None:
                    raise
                chunk = chunks[taken]
                rule = error.message.removeprefix(f"{error.field}: ")
                name = self.columns.get(at[2], at[2])
                rows[chunk.pop(int(at[1]))] = _refused(name, rule, error.reason)
                # The rest of this chunk alone: those behind it are not judged once for each.
                rounds.appendleft(chunks[taken + 1 :])
                rounds.appendleft([chunk] if chunk else [])
        return sum(usages, Usage()) if usages else None

    def _read(self, batch: Any) -> tuple[Any, dict[int, Any], dict[int, _Row]]:  # noqa: ANN401 - as above
        """Return the ids, what is to be asked by its row, and the rows that can't be asked."""
        if not batch.num_columns:  # an engine's batch of nothing
            return pa.array([], pa.string()), {}, {}
        columns = self.columns
        for name in (self.id, *columns.values()):
            if (n := batch.schema.names.count(name)) != 1:
                there = ", ".join(batch.schema.names)
                rule = (
                    f"the batch has {'no' if not n else 'more than one'} such column, but {there}"
                )
                raise InvalidArgument.of_field(name, rule)
        ids = batch.column(self.id)
        check_ids(self.id, ids)
        texts = [
            _texts(name, batch.column(name), lists=field in self._lists)
            for field, name in columns.items()
        ]
        items: dict[int, Any] = {}
        rows: dict[int, _Row] = {}
        for place, values in enumerate(zip(*texts, strict=True)):
            faults = map(_fault, columns.values(), values)
            if (fault := next(filter(None, faults), None)) is not None:
                rows[place] = fault
            else:
                items[place] = self._item(place, dict(zip(columns, values, strict=True)))
        return ids, items, rows

    def _signature_of(self, judge: JudgeIdentity | None) -> str | None:
        """Return the signature of the judge that answered. Raises FailedPrecondition."""
        if judge is None:
            return None
        if self.expect is not None and self.expect not in {judge.signature, judge.fingerprint}:
            rule = (
                f"the judge at {self.target} is {judge.signature} (fingerprint "
                f"{judge.fingerprint[:8]}), and not the one expected, {self.expect}; "
                "go back to that one, or begin a new result"
            )
            raise FailedPrecondition(rule, code="FAILED_PRECONDITION")
        return judge.signature

    def schema(self, of_id: Any) -> Any:  # noqa: ANN401 - as above
        """Return the schema of the result for ids of a type."""
        kinds = {"string": pa.string(), "boolean": pa.bool_(), "double": pa.float64()}
        columns = [column.split() for column in self.DDL.split(", ")]
        return pa.schema({self.id: of_id, **{name: kinds[kind] for name, kind in columns}})

    def _item(self, place: int, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - of the question
        """Return what is asked of a row."""
        raise NotImplementedError

    def _chunks(self, client: Client, items: Mapping[int, Any]) -> list[list[int]]:
        """Return the rows in lists that are each asked about by one call."""
        raise NotImplementedError

    def _ask(
        self, client: Client, chunks: Sequence[Sequence[Any]], limit: CostLimit
    ) -> Iterator[tuple[Sequence[_Row], Usage | None]]:
        """Yield what came of each chunk, in order, and what it took."""
        raise NotImplementedError


@dataclass(frozen=True)
class Judging(_Question):
    """A judge over a table: each row is a context, and has one verdict.

    `query`, `expected` and `retrieved` name the columns of texts; without `expected` the judge must
    be one that needs none. The result has the column `id`, which tells rows apart and is as it was,
    and status, relevant, score, probability, error, source and judge, its signature. A row that
    can't be judged, such as one with a null, has the status ERROR and says why. Rows whose verdict
    is missing for a reason that passes are left out, so that who asks for those that are not there
    asks again; with `every_row` they are there with no status.

    `target` is a server as for Client; "local" starts one in each process that needs it. `expect`
    is the signature or fingerprint of the one judge that may answer, on any replica. Each batch has
    `timeout` seconds, and `asking.max_cost` is its own.
    """

    judge: Judge | str | None = None
    _: KW_ONLY
    query: str = "query"
    expected: str | None = None
    retrieved: str = "retrieved"

    DDL = (
        "status string, relevant boolean, score double, probability double, error string, "
        "source string, judge string"
    )
    _fields = ("query", "expected", "retrieved")

    def _item(self, place: int, values: Mapping[str, Any]) -> QueryGroup:  # noqa: ARG002
        return QueryGroup(values["query"], [values.get("expected", "")], [values["retrieved"]])

    def _chunks(self, client: Client, items: Mapping[int, Any]) -> list[list[int]]:
        # Blank texts would have a score from a judge that compares with them.
        probe = [QueryGroup(retrieved=["text"])]
        if self.expected is None and not client.estimate(probe, self.judge).contexts:
            rule = "the judge compares with an expected text; name the column that has it"
            raise InvalidArgument.of_field("expected", rule)
        places = list(items)
        chunks = cut(items.values(), self.judge, self.asking)
        return [[places[piece.index] for piece in chunk] for chunk in chunks]

    def _ask(
        self, client: Client, chunks: Sequence[Sequence[Any]], limit: CostLimit
    ) -> Iterator[tuple[Sequence[_Row], Usage | None]]:
        for done in client.judge_stream(chunks, self.judge, asking=limit.rest()):
            if done.error is not None:
                limit.lost(InternalError(done.error.message, code=done.error.reason))
                yield [_Row("ERROR", error=done.error)] * len(chunks[done.chunk_id]), None
            if (found := done.verdicts) is not None:
                limit.took(found.usage)
                yield self._rows(found), found.usage

    def _rows(self, found: Verdicts) -> Sequence[_Row]:
        signature, ok = self._signature_of(found.judge), int(Status.OK)
        columns = (found.relevant, found.score, found.probability or repeat(None), found.source)
        rows = [
            _Row("OK", bool(relevant), score, probability, None, _SOURCE[source], signature)
            for relevant, score, probability, source in zip(*columns, strict=False)
        ]
        for i, status in enumerate(found.status):
            if status != ok:
                error, source = found.errors.get(i), rows[i].source
                rows[i] = _Row(_STATUS[status], error=error, source=source, judge=signature)
        return rows


@dataclass(frozen=True)
class Scoring(_Question):
    """A rubric over a table: each row is an answer, and has one score.

    `query` and `answer` name columns of texts, `references` and `contexts` columns of lists of
    them. The result has `passed` in place of relevant; all else is as with Judging.
    """

    rubric: Rubric | str = "faithfulness"
    _: KW_ONLY
    query: str = "query"
    answer: str = "answer"
    references: str | None = None
    contexts: str | None = None

    DDL = Judging.DDL.replace("relevant", "passed")
    _lists = ("references", "contexts")
    _fields = ("query", "answer", *_lists)

    def _item(self, place: int, values: Mapping[str, Any]) -> AnswerItem:
        return AnswerItem(str(place), **values)

    def _chunks(self, client: Client, items: Mapping[int, Any]) -> list[list[int]]:  # noqa: ARG002
        return [list(items)]

    def _ask(
        self, client: Client, chunks: Sequence[Sequence[Any]], limit: CostLimit
    ) -> Iterator[tuple[Sequence[_Row], Usage | None]]:
        for chunk in chunks:
            try:
                found = client.score_answers(chunk, [self.rubric], asking=limit.rest())
            except PASSING as error:
                limit.lost(error)
                yield [_Row("ERROR", error=missing_for(error))] * len(chunk), None
                continue
            limit.took(found.usage)
            yield list(map(self._row, found)), found.usage

    def _row(self, found: AnswerScore) -> _Row:
        source = None if found.source is None else found.source.name
        signature = self._signature_of(found.judge)
        values = (found.passed, found.score, found.probability)
        return _Row(found.status.name, *values, found.error, source, signature)


def _cells(row: _Row, *, left: bool) -> Sequence[Any]:
    """Return the cells of a row; one that is to be asked again has no status."""
    why = row.error
    text = None if why is None else f"{why.reason}: {why.message}"
    return (None if left else row.status, *row[1:4], text, *row[5:])


def _is_broken(row: _Row) -> bool:
    return row.error is not None and row.error.reason in _OF_THE_SERVER


def _passes(error: VerdictError, *, works: bool) -> bool:
    """Return whether a row may have a verdict the next time.

    A fault of the server is the row's own where others of its batch were answered.
    """
    if error.reason in _OF_THE_SERVER:
        return not works
    return error.retryable or error.reason in _NOT_OF_THE_ROW


def _refused(name: str, rule: str, reason: str = "INVALID_FIELD") -> _Row:
    return _Row("ERROR", error=VerdictError(0, reason, f"{name}: {rule}", retryable=False))


def check_ids(name: str, ids: Any) -> None:  # noqa: ANN401 - as above
    """Raise InvalidArgument for ids of another type, that are null, or there twice."""
    if len(ids) and not (_is_text(ids.type) or pa.types.is_integer(ids.type)):
        raise WrongType.of_field(name, f"must hold texts or whole numbers, not {ids.type}")
    first: dict[object, int] = {}
    for place, value in enumerate(ids.to_pylist()):
        if value is None:
            raise InvalidArgument.of_field(name, f"is null in row {place}; give every row an id")
        if (at := first.setdefault(value, place)) != place:
            rule = f"is {value!r} in rows {at} and {place}; give every row an id of its own"
            raise InvalidArgument.of_field(name, rule)


def _is_text(kind: Any) -> bool:  # noqa: ANN401 - as above
    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(fits(kind) for fits in is_text)


def _texts(name: str, column: Any, *, lists: bool) -> list[Any]:  # noqa: ANN401 - as above
    """Return the texts of a column, or its lists; bytes for what is not UTF-8. Raises WrongType."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    fits = is_list == lists and _is_text(kind.value_type if is_list else kind)
    if not (fits or pa.types.is_null(kind)):
        what = "lists of texts" if lists else "texts"
        raise WrongType.of_field(name, f"must hold {what}, not {kind}")
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        found = list(map(_decoded, column))
    return [() if value is None else value for value in found] if lists else found


def _decoded(scalar: Any) -> Any:  # noqa: ANN401 - as above
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return b""


def _fault(name: str, value: Any) -> _Row | None:  # noqa: ANN401 - as above
    """Return the answer to a text that can't be sent, or a list with one; None where all can."""
    texts = (value,) if isinstance(value, str | bytes | None) else value
    if all(type(text) is str for text in texts):
        return None
    return _refused(name, "is null" if None in texts else "is not UTF-8")


_clients: dict[tuple[int, str | None, Credentials | None], Client] = {}
"""The clients of this process, and those of the ones that it was forked from."""
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _client(target: str | None, credentials: Credentials | None) -> Client:
    """Return this process's client of a target, of a server of its own where that is local."""
    key = (os.getpid(), target, credentials)
    with _lock:
        if (client := _clients.get(key)) is None:
            if target == LOCAL:
                stack = ExitStack()
                client = Client(stack.enter_context(local()))
                client._connection.patience.waits = False  # noqa: SLF001 - nobody starts it again
                atexit.register(_stop, key[0], stack)
            else:
                client = Client(target, credentials=credentials)
            _clients[key] = client
        return client


def _stop(pid: int, stack: ExitStack) -> None:
    """Stop the server of a process, from that process alone."""
    if os.getpid() == pid:
        stack.close()
