"""What callers hand in and get back: groups, judges, verdicts, metrics. No protobuf, no NumPy.

Owns the public values of the client. How they travel is up to `_call`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

Scalar = bool | int | float | str


class Status(IntEnum):
    """Whether a verdict exists."""

    OK = 1
    ERROR = 2
    ABSTAINED = 3
    NOT_ASSESSABLE = 4


class Source(IntEnum):
    """Where a verdict came from."""

    COMPUTED = 1
    CACHE = 2
    SHARED = 3
    REPLAY = 4


class Flag(IntFlag):
    """Remarks on a verdict."""

    NONE = 0
    NO_TOKENS = 1
    TRUNCATED = 2
    WINDOWED = 4


class Matching(IntEnum):
    """How verdicts pair retrieved results with expected texts."""

    GREEDY_FIRST = 1
    MAXIMUM = 2
    ANY = 3


class NoGold(IntEnum):
    """What becomes of a query that expects nothing."""

    SKIP = 1
    ZERO = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Context:
    """One thing to judge."""

    query: str
    expected_text: str
    retrieved_text: str


@dataclass(frozen=True, slots=True)
class Embeddings:
    """Your own vectors for a group: float32, little endian, row after row."""

    dimensions: int
    expected: bytes
    retrieved: bytes

    @classmethod
    def from_rows(
        cls, expected: Sequence[Sequence[float]], retrieved: Sequence[Sequence[float]]
    ) -> Embeddings:
        """Return the embeddings of lists of vectors, all of one length."""
        rows = [*expected, *retrieved]
        dimensions = len(rows[0]) if rows else 0
        if any(len(row) != dimensions for row in rows):
            raise ValueError("all vectors must have the same number of dimensions")
        return cls(dimensions, _pack(expected), _pack(retrieved))


def _pack(rows: Sequence[Sequence[float]]) -> bytes:
    flat = array("f", (value for row in rows for value in row))
    if flat.itemsize != 4:  # pragma: no cover - C float is four bytes wherever gRPC runs
        raise ValueError("this platform has no 32-bit float")
    if array("h", [1]).tobytes() != b"\x01\x00":  # pragma: no cover - big endian machines
        flat.byteswap()
    return flat.tobytes()


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """One query with expected and retrieved texts: every pair of them is a context.

    Verdicts come retrieved-major: all expected texts for retrieved[0], then for retrieved[1].
    `document_ids` names the retrieved documents; `relevant_document_ids` makes `evaluate` match
    by id instead of judging.
    """

    query: str = ""
    expected: Sequence[str] = ()
    retrieved: Sequence[str] = ()
    query_id: str = ""
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: Embeddings | None = None

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of vectors that stand for them."""
        if self.embeddings is None or self.expected:
            return len(self.expected)
        return len(self.embeddings.expected) // (4 * max(1, self.embeddings.dimensions))

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of vectors that stand for them."""
        if self.embeddings is None or self.retrieved:
            return len(self.retrieved)
        return len(self.embeddings.retrieved) // (4 * max(1, self.embeddings.dimensions))


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge and what you override of it. The empty one is the server's default."""

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """Which judge ran, precisely enough to repeat it."""

    kind: str
    profile: str
    min_score: float
    signature: str
    scoring_key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class VerdictError:
    """Why a verdict is missing."""

    code: int
    reason: str
    message: str
    retryable: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one context. `relevant` and `score` are None unless the status is OK."""

    status: Status
    relevant: bool | None
    score: float | None
    source: Source
    flags: Flag
    error: VerdictError | None


@dataclass(frozen=True, slots=True)
class Verdicts(Sequence[Verdict]):
    """The verdicts of a call as parallel columns; indexing gives one as a Verdict.

    `relevant` and `score` are False and 0.0 where the status is not OK. `offsets[g]:offsets[g+1]`
    are the verdicts of group g. `errors` holds the missing ones by index.
    """

    relevant: Sequence[bool]
    score: Sequence[float]
    status: Sequence[int]
    source: Sequence[int]
    flags: Sequence[int]
    offsets: Sequence[int]
    errors: Mapping[int, VerdictError]
    judge: JudgeIdentity

    def __len__(self) -> int:
        return len(self.relevant)

    def __iter__(self) -> Iterator[Verdict]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Verdict:  # type: ignore[override]  # no slices
        if index < 0:
            index += len(self)
        status = Status(self.status[index])
        ok = status is Status.OK
        return Verdict(
            status,
            self.relevant[index] if ok else None,
            self.score[index] if ok else None,
            Source(self.source[index]),
            Flag(self.flags[index]),
            self.errors.get(index),
        )

    @property
    def n_ok(self) -> int:
        """The number of verdicts that exist."""
        return sum(1 for status in self.status if status == Status.OK)

    @property
    def coverage(self) -> float | None:
        """The share of verdicts that exist; None when there are none at all."""
        return self.n_ok / len(self) if len(self) else None

    def count(self, flag: Flag) -> int:
        """Return the number of verdicts that carry a flag."""
        return sum(1 for flags in self.flags if flags & flag)


@dataclass(frozen=True, slots=True)
class JudgedChunk:
    """One answered chunk of a stream: its verdicts, or the error that kept it from being judged."""

    chunk_id: int
    verdicts: Verdicts | None
    error: VerdictError | None
    contexts_received: int
    contexts_done: int


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """How rankings become numbers. None means the server's default."""

    matching: Matching | None = None
    no_gold: NoGold | None = None
    strict_duplicates: bool = False
    complete: bool = False
    per_query: bool = False


@dataclass(frozen=True, slots=True)
class JudgedRanking:
    """The shape of one query's part of the verdicts."""

    query_id: str
    expected: int
    retrieved: int


@dataclass(frozen=True, slots=True)
class JudgedRankings:
    """Rankings and their verdicts, ranking after ranking, each retrieved-major."""

    rankings: Sequence[JudgedRanking]
    relevant: Sequence[bool]
    status: Sequence[int] = ()
    flags: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class TrecRankings:
    """Judgements and a run.

    `qrels` maps query id to document id to grade. `run` maps query id to document id to score, or
    to a list of document ids, best first.
    """

    qrels: Mapping[str, Mapping[str, int]]
    run: Mapping[str, Mapping[str, float] | Sequence[str]]


@dataclass(frozen=True, slots=True)
class GainRanking:
    """One query's gains by rank, and the gains of everything relevant, retrieved or not."""

    query_id: str
    gains: Sequence[float]
    relevant_gains: Sequence[float]


@dataclass(frozen=True, slots=True)
class GainRankings:
    """Rankings whose gains you know."""

    rankings: Sequence[GainRanking]


@dataclass(frozen=True, slots=True)
class PerQueryValues:
    """Per-query values of earlier calls, one column a metric, to be merged into means."""

    query_ids: Sequence[str]
    columns: Sequence[Sequence[float]]


Relevance = JudgedRankings | TrecRankings | GainRankings | PerQueryValues


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric. `mean` is None when no query was evaluated; bounds exist when verdicts miss."""

    name: str
    mean: float | None
    n: int
    lower_bound: float | None
    upper_bound: float | None
    signature: str
    per_query: Sequence[float]


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """How many verdicts have each status, and remarks worth knowing."""

    ok: int = 0
    error: int = 0
    abstained: int = 0
    not_assessable: int = 0
    relevant: int = 0
    flagged_no_tokens: int = 0
    flagged_truncated: int = 0

    @property
    def total(self) -> int:
        """All verdicts."""
        return self.ok + self.error + self.abstained + self.not_assessable


@dataclass(frozen=True, slots=True)
class MetricCounts:
    """What went into a mean and what did not. `verdicts` is None for qrels and gains."""

    queries: int = 0
    evaluated: int = 0
    skipped_no_gold: int = 0
    skipped_missing: int = 0
    skipped_unjudged: int = 0
    skipped_unsettled: int = 0
    duplicates: int = 0
    retrieved: int = 0
    verdicts: VerdictCounts | None = None


@dataclass(frozen=True, slots=True)
class MetricTable:
    """The metrics of a call. `query_ids` names the rows of `per_query` when they were asked for."""

    metrics: Sequence[MetricResult]
    query_ids: Sequence[str]
    counts: MetricCounts

    def __getitem__(self, name: str) -> MetricResult:
        for metric in self.metrics:
            if metric.name == name:
                return metric
        raise KeyError(f"{name}; this table has {', '.join(m.name for m in self.metrics)}")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of judged groups, and the judge (None when every group was matched by id)."""

    table: MetricTable
    judge: JudgeIdentity | None
    verdicts: Verdicts | None
