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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import KW_ONLY, dataclass, replace
from itertools import repeat
from typing import Any, ClassVar

from judged._batching.judging import PASSING, cut
from judged._convert import CostLimit, missing_for
from judged._local import local
from judged._transport.call import CHUNKS_IN_FLIGHT
from judged._transport.primitives import in_order
from judged._views import of_all
from judged.client import Client
from judged.credentials import Credentials
from judged.errors import FailedPrecondition, InvalidArgument, WrongType
from judged.values import (
    AnswerItem,
    Asking,
    CacheMode,
    Judge,
    JudgeIdentity,
    QueryGroup,
    Rubric,
    ScoredAnswers,
    Source,
    Status,
    Usage,
    VerdictError,
    Verdicts,
)

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError:
    raise ImportError("judged.arrow needs pyarrow; run: pip install 'judged[arrow]'") from None

__all__ = ["Answered", "Judging", "Scoring"]

LOCAL = "local"
_LEAST_S = 0.001
_STATUS = {int(status): status.name for status in Status}
_SOURCE = {int(source): source.name for source in Source}
_TEXTS = {"string", "large_string", "string_view"}
"""What pyarrow calls types of texts."""
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
_OF_THE_SERVER = {"", "ABORTED", "DATA_LOSS", "INTERNAL", "UNKNOWN"}
"""Reasons of a fault of the server, which a row may bring about."""
_Row = tuple[Any, ...]
"""Status, relevant or passed, score, probability, why it is missing, source and judge."""


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
        usage = self._fill(items, rows, CostLimit(asking or self.asking)) if items else None
        missing, kept, cells = Counter[str](), list[int](), list[_Row]()
        for place in range(len(ids)):
            status, *values, error, source, judge = rows[place]
            if error is not None:
                passes = error.retryable or error.reason in _NOT_OF_THE_ROW
                error = f"{error.reason}: {error.message}"
                missing[error] += passes
                if passes and not self.every_row:
                    continue
                status = None if passes else status
            kept.append(place)
            cells.append((status, *values, error, source, judge))
        ids = ids if len(kept) == len(ids) else ids.take(pa.array(kept, pa.int64()))
        schema = self.schema(ids.type)
        columns = zip(*cells, strict=True) if cells else repeat((), len(schema) - 1)
        arrays = map(pa.array, columns, schema.types[1:])
        table = type(batch).from_arrays([ids, *arrays], schema=schema)
        return Answered(table, usage, +missing)

    def _fill(
        self, items: Mapping[int, Any], rows: dict[int, _Row], limit: CostLimit
    ) -> Usage | None:
        """Put what came of each item into `rows`; return what it took."""
        client = _client(self.target, self.credentials)
        ends = time.monotonic() + self.timeout
        usages: list[Usage] = []

        def ask(chunk: Sequence[int]) -> None:
            todo = [chunk]
            while todo:
                places = todo.pop()
                left = max(ends - time.monotonic(), _LEAST_S)
                found, usage = self._asked(client, {at: items[at] for at in places}, limit, left)
                rows.update(found)
                usages.extend(() if usage is None else (usage,))
                again = [[at for at in places if at not in found]]
                broken = [at for at in found if _is_broken(rows[at])]
                if broken and not self._works(client, left):
                    rows.update(
                        {at: _failed(replace(rows[at][4], retryable=True)) for at in broken}
                    )
                elif len(places) > 1:
                    # Each half is asked again, until it is known which row the fault is of.
                    half = (len(broken) + 1) // 2
                    again += [broken[:half], broken[half:]]
                todo += filter(None, again)

        ahead = 1 if limit.limited else CHUNKS_IN_FLIGHT
        with closing(in_order(ask, self._chunks(items), ahead)) as done:
            for _ in done:
                pass
        return sum(usages, Usage()) if usages else None

    def _asked(
        self, client: Client, items: Mapping[int, Any], limit: CostLimit, timeout: float
    ) -> tuple[Mapping[int, _Row], Usage | None]:
        """Return what came of the items of a call, or of the refused one, and what it took."""
        try:
            found = self._call(client, list(items.values()), limit.rest(), timeout)
        except InvalidArgument as error:
            if (at := _PLACE.search(error.field)) is None:
                raise
            rule = error.message.removeprefix(f"{error.field}: ")
            name = self.columns.get(at[2], at[2])
            return {list(items)[int(at[1])]: _refused(name, rule, error.reason)}, None
        except PASSING as error:
            limit.lost(error)
            return dict.fromkeys(items, _failed(missing_for(error))), None
        limit.took(found.usage)
        return dict(zip(items, self._rows(found), strict=True)), found.usage

    def _works(self, client: Client, timeout: float) -> bool:
        """Return whether the server answers about a row that nothing is wrong with."""
        texts = {each: ["text"] if each in self._lists else "text" for each in self.columns}
        try:
            found = self._call(client, [self._item(0, texts)], Asking(CacheMode.ONLY), timeout)
        except PASSING:
            return False
        return {error.reason for error in found.errors.values()} <= {"NOT_CACHED"}

    def _read(self, batch: Any) -> tuple[Any, dict[int, Any], dict[int, _Row]]:  # noqa: ANN401 - as above
        """Return the ids, what is to be asked by its row, and the rows that can't be asked."""
        if not batch.num_columns:  # an engine's batch of nothing
            return pa.array([], pa.string()), {}, {}
        columns, there = self.columns, batch.schema.names
        for name in (self.id, *columns.values()):
            if (n := there.count(name)) != 1:
                many = "more than one" if n else "no"
                rule = f"the batch has {many} such column, but {', '.join(there)}"
                raise InvalidArgument.of_field(name, rule)
        ids = batch.column(self.id)
        check_ids(self.id, ids)
        texts = [
            texts_of(name, batch.column(name), lists=field in self._lists)
            for field, name in columns.items()
        ]
        items: dict[int, Any] = {}
        rows: dict[int, _Row] = {}
        for place, values in enumerate(zip(*texts, strict=True)):
            if None in values:
                rows[place] = _refused(list(columns.values())[values.index(None)], "is null")
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

    def _chunks(self, items: Mapping[int, Any]) -> Iterable[Sequence[int]]:
        """Yield the rows in lists that are each asked about by one call."""
        yield list(items)

    def _call(
        self, client: Client, items: Sequence[Any], asking: Asking | None, timeout: float
    ) -> Any:  # noqa: ANN401 - of the question
        """Return what is found of items, with errors and usage."""
        raise NotImplementedError

    def _rows(self, found: Any) -> Iterable[_Row]:  # noqa: ANN401 - of the question
        """Return what came of each item."""
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
        expected = [] if self.expected is None else [values["expected"]]
        return QueryGroup(values["query"], expected, [values["retrieved"]])

    def _chunks(self, items: Mapping[int, Any]) -> Iterable[Sequence[int]]:
        places = list(items)
        for chunk in cut(items.values(), self.judge, self.asking):
            yield [places[piece.index] for piece in chunk]

    def _call(
        self, client: Client, items: Sequence[QueryGroup], asking: Asking | None, timeout: float
    ) -> Verdicts:
        found = client.judge(items, self.judge, asking=asking, timeout=timeout)
        if len(found) != len(items):
            rule = "the judge compares with an expected text; name the column that has it"
            raise InvalidArgument.of_field("expected", rule)
        return found

    def _rows(self, found: Verdicts) -> Iterable[_Row]:
        n, signature = len(found), self._signature_of(found.judge)
        columns = (found.relevant, found.score, found.probability or repeat(None))
        errors = map(found.errors.get, range(n))
        names, sources = map(_STATUS.get, found.status), map(_SOURCE.get, found.source)
        for row in zip(names, *columns, errors, sources, repeat(signature, n), strict=False):
            yield row if row[0] == "OK" else (row[0], None, None, None, *row[4:])


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

    def _call(
        self, client: Client, items: Sequence[AnswerItem], asking: Asking | None, timeout: float
    ) -> ScoredAnswers:
        return client.score_answers(items, [self.rubric], asking=asking, timeout=timeout)

    def _rows(self, found: ScoredAnswers) -> Iterable[_Row]:
        for score in found:
            values = (score.status.name, score.passed, score.score, score.probability, score.error)
            source = None if score.source is None else score.source.name
            yield (*values, source, self._signature_of(score.judge))


def _failed(error: VerdictError) -> _Row:
    return ("ERROR", None, None, None, error, None, None)


def _refused(name: str, rule: str, reason: str = "INVALID_FIELD") -> _Row:
    return _failed(VerdictError(0, reason, f"{name}: {rule}", retryable=False))


def _is_broken(row: _Row) -> bool:
    return row[4] is not None and row[4].reason in _OF_THE_SERVER


def check_ids(name: str, ids: Any, rows: Sequence[int] = ()) -> None:  # noqa: ANN401 - as above
    """Raise InvalidArgument for ids of another type, that are null, or there twice.

    `rows` are their numbers, where these are others than their places.
    """
    if not len(ids):
        return
    if not (str(ids.type) in _TEXTS or pa.types.is_integer(ids.type)):
        raise WrongType.of_field(name, f"must hold texts or whole numbers, not {ids.type}")
    rows = rows or range(len(ids))
    if ids.null_count:
        row = rows[pc.index(ids.is_null(), True).as_py()]
        raise InvalidArgument.of_field(name, f"is null in row {row}; give every row an id")
    if len(ids.unique()) < len(ids):
        values, counts = ids.value_counts().flatten()
        twice = values.filter(pc.greater(counts, 1))[0]
        first, second, *_ = (rows[at] for at in pc.indices_nonzero(pc.equal(ids, twice)).tolist())
        rule = f"is {twice.as_py()!r} in rows {first} and {second}; give every row an id of its own"
        raise InvalidArgument.of_field(name, rule)


def texts_of(name: str, column: Any, *, lists: bool = False) -> list[Any]:  # noqa: ANN401 - as above
    """Return the texts of a column, or its lists; None where one is null. Raises WrongType."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    fits = is_list == lists and str(kind.value_type if is_list else kind) in _TEXTS
    if not (fits or pa.types.is_null(kind)):
        what = "lists of texts" if lists else "texts"
        raise WrongType.of_field(name, f"must hold {what}, not {kind}")
    try:
        found: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        found = list(map(_decoded, column))
    return [None if None in (each or ()) else each or () for each in found] if lists else found


def _decoded(scalar: Any) -> Any:  # noqa: ANN401 - as above
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return ["\udcff"] if pa.types.is_nested(scalar.type) else "\udcff"  # which are refused


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
