"""What callers hand in and get back: groups, judges, verdicts, metrics. No protobuf, no NumPy.

Owns the public values of the client. How they travel is up to `_call`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from judged.correction import CorrectedEstimate, HumanLabels
from judged.details import Usage, VerdictDetail
from judged.embeddings import EmbeddedRankings, Embeddings
from judged.golden import NegativeMatch, Spans
from judged.policies import Matching, NoGold, Unjudged
from judged.runs import TrecRankings
from judged.statistics import Interval, IntervalOptions
from judged.statuses import Flag, Source, Status

Scalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Context:
    """One thing to judge."""

    query: str
    expected_text: str
    retrieved_text: str


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """One query with expected and retrieved texts: every pair of them is a context.

    Verdicts come retrieved-major: all expected texts for retrieved[0], then for retrieved[1].
    `document_ids` names the retrieved documents; `relevant_document_ids` makes `evaluate` match
    by id instead of judging. Embeddings or spans may stand for the texts. `negatives` are texts
    that should not be found, on which `evaluate` reports.
    """

    query: str = ""
    expected: Sequence[str] = ()
    retrieved: Sequence[str] = ()
    query_id: str = ""
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: Embeddings | None = None
    spans: Spans | None = None
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of what stands for them."""
        if self.expected:
            return len(self.expected)
        if self.spans is not None:
            return len(self.spans.expected)
        return self.embeddings.n_expected if self.embeddings is not None else 0

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of what stands for them."""
        if self.retrieved:
            return len(self.retrieved)
        if self.spans is not None:
            return len(self.spans.retrieved)
        return self.embeddings.n_retrieved if self.embeddings is not None else 0


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge and what you override of it. The empty one is the server's default.

    `members` are the judges of a `panel`; a string is a kind.
    """

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, Scalar] = field(default_factory=dict)
    members: Sequence[PanelMember | Judge | str] = ()


@dataclass(frozen=True, slots=True)
class PanelMember:
    """A judge of a panel; its weight counts in the profile `weighted`, None stands for 1."""

    judge: Judge | str
    weight: float | None = None


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
    """The answer for one context. `relevant` and `score` are None unless the status is OK.

    So is `agreement`, the share of votes on the larger side, and always for judges without votes.
    """

    status: Status
    relevant: bool | None
    score: float | None
    source: Source
    flags: Flag
    error: VerdictError | None
    agreement: float | None = None
    detail: VerdictDetail | None = None


@dataclass(frozen=True, slots=True)
class Verdicts(Sequence[Verdict]):
    """The verdicts of a call as parallel columns; indexing gives one as a Verdict.

    `relevant` and `score` are False and 0.0 where the status is not OK. `offsets[g]:offsets[g+1]`
    are the verdicts of group g. `errors` holds the missing ones by index. Judges that vote fill
    `agreement`; those that ask a language model tell their `usage`, and `details` when asked to.
    """

    relevant: Sequence[bool]
    score: Sequence[float]
    status: Sequence[int]
    source: Sequence[int]
    flags: Sequence[int]
    offsets: Sequence[int]
    errors: Mapping[int, VerdictError]
    judge: JudgeIdentity
    agreement: Sequence[float] = ()
    details: Mapping[int, VerdictDetail] = field(default_factory=dict)
    usage: Usage | None = None

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
            self.agreement[index] if ok and self.agreement else None,
            self.details.get(index),
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
    """How rankings become numbers. None means the server's default, for `interval` none at all.

    `slice_by` names keys of the queries' metadata. For qrels only: `unjudged`; `relevance_level`,
    the smallest grade that is relevant (trec_eval -l); `max_documents`, the most of a topic that
    are ranked (trec_eval -M).
    """

    matching: Matching | None = None
    no_gold: NoGold | None = None
    strict_duplicates: bool = False
    complete: bool = False
    per_query: bool = False
    interval: IntervalOptions | None = None
    slice_by: Sequence[str] = ()
    unjudged: Unjudged | None = None
    relevance_level: int | None = None
    max_documents: int | None = None


@dataclass(frozen=True, slots=True)
class JudgedRanking:
    """The shape of one query's part of the verdicts."""

    query_id: str
    expected: int
    retrieved: int


@dataclass(frozen=True, slots=True)
class JudgedRankings:
    """Rankings and their verdicts, ranking after ranking, each retrieved-major.

    Columns may be left empty where every verdict is OK, COMPUTED, or without a flag.
    With `human_labels` every mean also comes corrected; `score` makes bounds of queries narrower.
    """

    rankings: Sequence[JudgedRanking]
    relevant: Sequence[bool]
    status: Sequence[int] = ()
    flags: Sequence[int] = ()
    score: Sequence[float] = ()
    human_labels: HumanLabels | None = None
    source: Sequence[int] = ()


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


Relevance = JudgedRankings | TrecRankings | GainRankings | PerQueryValues | EmbeddedRankings


@dataclass(frozen=True, slots=True)
class MetricResult:
    """One metric. `mean` is None when no query was evaluated.

    Bounds exist when verdicts miss, or for Unjudged.BOUNDS; the interval when it was asked for and
    there are two queries or more. `corrected` exists when there were human labels, and so do the
    bounds of single queries, when asked for per-query values.
    """

    name: str
    mean: float | None
    n: int
    lower_bound: float | None
    upper_bound: float | None
    signature: str
    per_query: Sequence[float]
    interval: Interval | None = None
    corrected: CorrectedEstimate | None = None
    per_query_lower: Sequence[float] = ()
    per_query_upper: Sequence[float] = ()


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
    flagged_reserved_tokens: int = 0
    flagged_fallback: int = 0

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
    unjudged: int = 0


@dataclass(frozen=True, slots=True)
class MetricSlice:
    """The metrics of the queries whose metadata have `value` under `key`, "" if they lack it."""

    key: str
    value: str
    metrics: Sequence[MetricResult]

    def __getitem__(self, name: str) -> MetricResult:
        return _named(self.metrics, name)


@dataclass(frozen=True, slots=True)
class MetricTable:
    """The metrics of a call. `query_ids` names the rows of `per_query` when they were asked for."""

    metrics: Sequence[MetricResult]
    query_ids: Sequence[str]
    counts: MetricCounts
    slices: Sequence[MetricSlice] = field(default_factory=list)

    def __getitem__(self, name: str) -> MetricResult:
        return _named(self.metrics, name)


def _named(metrics: Sequence[MetricResult], name: str) -> MetricResult:
    for metric in metrics:
        if metric.name == name:
            return metric
    raise KeyError(f"{name}; this table has {', '.join(m.name for m in metrics)}")


@dataclass(frozen=True, slots=True)
class NegativeReport:
    """The results that match a negative reference, by group and rank, and how many queries have.

    `counts` sums up the verdicts of all results against all negatives of their queries.
    """

    queries: int
    queries_hit: int
    matches: Sequence[NegativeMatch]
    counts: VerdictCounts


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Metrics of judged groups, and the judge (None when it had nothing to judge).

    `negatives` is None when no group has any, `usage` when no language model was asked.
    """

    table: MetricTable
    judge: JudgeIdentity | None
    verdicts: Verdicts | None
    negatives: NegativeReport | None = None
    usage: Usage | None = None
