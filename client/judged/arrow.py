"""Judge or score Arrow tables, with Ray Data, Spark, Daft or plain pyarrow.

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
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from itertools import repeat
from typing import Any, ClassVar

from judged._batching.judging import CHUNK_CHARACTERS, PASSING, most_contexts, packed
from judged._batching.scoring import PART_BYTES, PART_SCORES
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
"""pyarrow's names of the types of texts."""
_PLACE = re.compile(r"(?:^|\.)(?:groups|items)\[(\d+)\]\.?(\w*)")
"""Finds the index and the field of a group or item in the field path of an error."""
_NOT_CAUSED_BY_ROW = {
    "BUDGET",
    "BUDGET_EXHAUSTED",
    "DEADLINE_EXCEEDED",
    "DEADLINE_TOO_SHORT",
    "NOT_CACHED",
    "PROVIDER_REFUSED_KEY",
    "TIMEOUT",
}
"""Reasons that the row does not cause: with money, time or a valid key it gets a verdict."""
_SERVER_FAULTS = {"", "ABORTED", "DATA_LOSS", "INTERNAL", "UNKNOWN"}
"""Reasons of a fault in the server, which a row may cause."""
_Row = tuple[Any, ...]
"""Status, relevant or passed, score, probability, error, source and judge."""


@dataclass(frozen=True)
class Answered:
    """The answers of a batch, their usage, and the number of rows without one, by reason."""

    table: pa.Table | pa.RecordBatch
    usage: Usage | None
    missing: Mapping[str, int]


@dataclass(frozen=True)
class _Question(ABC):
    """A question about each row of a batch; picklable, since each process makes its own client."""

    target: str | None = None
    _: KW_ONLY
    id: str = "id"
    expect: str | None = None
    credentials: Credentials | None = None
    asking: Asking | None = None
    timeout: float = 600.0
    every_row: bool = False

    DDL: ClassVar[str]
    """The columns of the result after the id, in the syntax of Spark."""
    _fields: ClassVar[Sequence[str]] = ()
    _lists: ClassVar[Sequence[str]] = ()
    """The fields that name columns to read; those in `_lists` name columns of lists of texts."""

    def __post_init__(self) -> None:
        if f", {self.id} " in f", {self.DDL}":
            rule = f"the result has a column {self.id!r} of its own; rename that of the ids"
            raise InvalidArgument.of_field("id", rule)

    @property
    def columns(self) -> Mapping[str, str]:
        """The names of the columns to read, by field."""
        named = {field: getattr(self, field) for field in self._fields}
        return {field: name for field, name in named.items() if name is not None}

    def __call__(self, batch: Any) -> Any:  # noqa: ANN401 - what it gets
        """Return the answers of a Table or RecordBatch in the same type, or of an iterator of them.

        Warns of rows without an answer. Raises InvalidArgument if a column is missing or has no
        texts, or an id is null or repeated; FailedPrecondition if another judge than the expected
        one answers; and the errors of a call that fails as a whole.
        """
        if isinstance(batch, Iterator):
            return map(self, batch)
        answered = self.ask(batch)
        if missing := answered.missing:
            what = of_all(sum(missing.values()), batch.num_rows, "row")
            why = max(missing, key=missing.__getitem__)
            warnings.warn(f"{what} without a verdict, to be asked again: {why}", stacklevel=2)
        return answered.table

    def ask(self, batch: pa.Table | pa.RecordBatch) -> Answered:
        """Return the answers of a batch, and their usage. Raises as `__call__` does."""
        if not isinstance(batch, pa.Table | pa.RecordBatch):
            rule = f"must be a Table or RecordBatch of pyarrow, not {type(batch).__name__}"
            raise WrongType.of_field("batch", rule)
        ids, texts = self._read(batch)
        rows: dict[int, _Row] = {}
        usage = self._fill(texts, rows)
        missing, left_out = Counter[str](), set[int]()
        for place, row in rows.items():
            if (error := row[4]) is not None:
                passes = error.retryable or error.reason in _NOT_CAUSED_BY_ROW
                why = f"{error.reason}: {error.message}"
                missing[why] += passes
                if passes and not self.every_row:
                    left_out.add(place)
                rows[place] = (None if passes else row[0], *row[1:4], why, *row[5:])
        schema = self.schema(ids.type)
        places = [place for place in range(len(ids)) if place not in left_out]
        columns = zip(*map(rows.__getitem__, places), strict=True) if places else repeat(())
        arrays = map(pa.array, columns, schema.types[1:])
        ids = ids.take(pa.array(places, pa.int64()))
        table = type(batch).from_arrays([ids, *arrays], schema=schema)
        return Answered(table, usage, +missing)

    def _fill(self, texts: Sequence[Sequence[Any]], rows: dict[int, _Row]) -> Usage | None:
        """Put the row for each row of texts into `rows`; return the usage of all calls."""
        limit, ends = CostLimit(self.asking), time.monotonic() + self.timeout
        usages: list[Usage] = []

        def ask(chunk: Sequence[tuple[int, Any]]) -> None:
            client, items = _client(self.target, self.credentials), dict(chunk)
            todo = [list(items)]
            while todo:
                places = todo.pop()
                left = max(ends - time.monotonic(), _LEAST_S)
                found, usage = self._request(client, {at: items[at] for at in places}, limit, left)
                rows.update(found)
                usages.extend(() if usage is None else (usage,))
                again = [[at for at in places if at not in found]]
                broken = [at for at in found if _is_broken(rows[at])]
                if broken and not self._works(client, left):
                    rows.update(
                        {at: _failed(replace(rows[at][4], retryable=True)) for at in broken}
                    )
                elif len(places) > 1:
                    # Ask again in halves, until the row that causes the fault is alone.
                    half = (len(broken) + 1) // 2
                    again += [broken[:half], broken[half:]]
                todo += filter(None, again)

        ahead = 1 if limit.limited else CHUNKS_IN_FLIGHT
        # The rows of one message, so that a refused call has spent nothing.
        for _ in in_order(ask, packed(self._items(texts, rows), self._limits()), ahead):
            pass
        return sum(usages, Usage()) if usages else None

    def _request(
        self, client: Client, items: Mapping[int, Any], limit: CostLimit, timeout: float
    ) -> tuple[Mapping[int, _Row], Usage | None]:
        """Return the rows of the items of a call, or of the refused one, and the usage."""
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
        """Return whether the server answers for a row that is valid."""
        texts = [["text"] if each in self._lists else "text" for each in self.columns]
        try:
            found = self._call(client, [self._item(0, texts)], Asking(CacheMode.ONLY), timeout)
        except PASSING:
            return False
        return {error.reason for error in found.errors.values()} <= {"NOT_CACHED"}

    def _read(self, batch: pa.Table | pa.RecordBatch) -> tuple[pa.Array, list[list[Any]]]:
        """Return the ids, and the columns of texts."""
        if not (batch.num_columns or batch.num_rows):  # an engine's empty batch
            return pa.array([], pa.string()), []
        columns, there = self.columns, batch.schema.names
        for name in (self.id, *columns.values()):
            if (n := there.count(name)) != 1:
                many = "more than one" if n else "no"
                rule = f"the batch has {many} such column, but {', '.join(there)}"
                raise InvalidArgument.of_field(name, rule)
        ids = batch.column(self.id)
        check_ids(self.id, ids)
        texts = {
            field: texts_of(name, batch.column(name), lists=field in self._lists)
            for field, name in columns.items()
        }
        if "expected" in texts:  # a retrieved text would be judged as unlike a blank one
            texts["expected"] = [
                text if text and text.strip() else None for text in texts["expected"]
            ]
        return ids, list(texts.values())

    def _items(
        self, texts: Sequence[Sequence[Any]], rows: dict[int, _Row]
    ) -> Iterator[tuple[tuple[int, Any], tuple[int, int]]]:
        """Yield the place, item and sizes of each row; put those that can't be asked into `rows`.

        Items are made while those before them are judged.
        """
        for place, values in enumerate(zip(*texts, strict=True)):
            if None in values:
                rows[place] = _refused(
                    list(self.columns.values())[values.index(None)], "is null or blank"
                )
            else:
                n = sum(
                    len(each) if isinstance(each, str) else sum(map(len, each)) for each in values
                )
                yield (place, self._item(place, values)), (n, 1)

    def _signature_of(self, judge: JudgeIdentity | None) -> str | None:
        """Return a judge's signature. Raises FailedPrecondition if it is not the expected judge."""
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

    def schema(self, of_id: pa.DataType) -> pa.Schema:
        """Return the schema of the result for a type of ids."""
        columns = (pa.field(*column.split()) for column in self.DDL.split(", "))
        return pa.schema([pa.field(self.id, of_id), *columns])

    @abstractmethod
    def _item(self, place: int, values: Sequence[Any]) -> Any:  # noqa: ANN401 - of the question
        """Return the item to ask for a row, from the values of `columns`."""

    @abstractmethod
    def _limits(self) -> tuple[int, int]:
        """Return how many characters and rows fit in one message."""

    @abstractmethod
    def _call(
        self, client: Client, items: Sequence[Any], asking: Asking | None, timeout: float
    ) -> Any:  # noqa: ANN401 - of the question
        """Send items in one call; return the answers, with errors and usage."""

    @abstractmethod
    def _rows(self, found: Any) -> Iterable[_Row]:  # noqa: ANN401 - of the question
        """Return the row of each answer."""


@dataclass(frozen=True)
class Judging(_Question):
    """Judges a table: each row is a context, and gets one verdict.

    `query`, `expected` and `retrieved` name the columns of texts; leave out `expected` if the judge
    needs no expected text. The result has the column `id`, unique and unchanged, and the columns
    status, relevant, score, probability, error, source and judge (its signature). A row that can't
    be judged, such as one with a null, has the status ERROR and the reason in `error`. Rows without
    a verdict for a temporary reason are left out, so that a later run can find and judge them; with
    `every_row` they are included, with a null status.

    `target` is a server as for Client; "local" starts one in each process that needs it. `expect`
    is the signature or fingerprint of the one judge that may answer, on any replica. `timeout`, in
    seconds, and `asking.max_cost` apply to each batch.
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

    def _item(self, place: int, values: Sequence[Any]) -> QueryGroup:  # noqa: ARG002
        query, *expected, retrieved = values
        return QueryGroup(query, expected, [retrieved])

    def _limits(self) -> tuple[int, int]:
        return CHUNK_CHARACTERS, most_contexts(self.judge, self.asking)

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
    """Scores a table by a rubric: each row is an answer, and gets one score.

    `query` and `answer` name columns of texts, `references` and `contexts` columns of lists of
    texts. The result has `passed` instead of `relevant`; all else is as for Judging.
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

    def _item(self, place: int, values: Sequence[Any]) -> AnswerItem:
        return AnswerItem(str(place), **dict(zip(self.columns, values, strict=True)))

    def _limits(self) -> tuple[int, int]:
        return PART_BYTES // 4, PART_SCORES  # a character has 4 bytes at most

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
    return row[4] is not None and row[4].reason in _SERVER_FAULTS


def check_ids(name: str, ids: pa.Array, rows: Sequence[int] = ()) -> None:
    """Raise InvalidArgument if ids have another type, are null or are repeated.

    `rows` are the row numbers for the message, if they are not the indices.
    """
    if not len(ids):
        return
    # pyarrow can't select rows of a string_view.
    if not (str(ids.type) in _TEXTS - {"string_view"} or pa.types.is_integer(ids.type)):
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


def texts_of(name: str, column: pa.Array, *, lists: bool = False) -> list[Any]:
    """Return the texts of a column, or its lists; None for a null. Raises WrongType."""
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


def _decoded(scalar: pa.Scalar) -> Any:  # noqa: ANN401 - a text or a list
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return ["\udcff"] if pa.types.is_nested(scalar.type) else "\udcff"  # refused later


_locks: dict[int, threading.Lock] = {}
"""A lock for each process, by its id: a fork would wait for ever for one that its parent holds."""


def _client(target: str | None, credentials: Credentials | None) -> Client:
    """Return this process's client of a target; start a private server for "local"."""
    pid = os.getpid()
    with _locks.setdefault(pid, threading.Lock()):
        return _new_client(pid, target, credentials)


@cache
def _new_client(pid: int, target: str | None, credentials: Credentials | None) -> Client:
    if target != LOCAL:
        return Client(target, credentials=credentials)
    stack = ExitStack()
    client = Client(stack.enter_context(local()))
    client._connection.patience.waits = False  # noqa: SLF001 - no supervisor restarts it
    # A fork that ends leaves the server to its parent.
    atexit.register(lambda: stack.close() if os.getpid() == pid else None)
    return client
