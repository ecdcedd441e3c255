"""Query groups to judge, and their verdicts."""

from __future__ import annotations

import struct
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from itertools import chain, pairwise, repeat
from operator import add
from typing import Any

from judged._inputs import Given, as_id, as_ids, as_list, refuse_set, set_grades
from judged._views import Listed, View, plain, row_of
from judged.values.choices import Flag, Source, Status
from judged.values.judges import JudgeIdentity, Usage


@dataclass(frozen=True, repr=False)
class Embeddings(View):
    """Your own vectors for a group: float32, little-endian, row by row."""

    dimensions: int
    expected: bytes
    retrieved: bytes

    @classmethod
    def from_rows(
        cls, expected: Sequence[Sequence[float]], retrieved: Sequence[Sequence[float]]
    ) -> Embeddings:
        """Return embeddings from lists of vectors. Raises ValueError unless all have one length."""
        sides = [[list(row) for row in side] for side in (expected, retrieved)]
        sizes = {len(row) for side in sides for row in side}
        if len(sizes) > 1:
            raise ValueError("all vectors must have the same number of dimensions")
        return cls(max(sizes, default=0), *map(_packed, sides))

    @property
    def row_bytes(self) -> int:
        """The bytes of a vector."""
        return 4 * max(1, self.dimensions)


@dataclass(frozen=True)
class EmbeddedRanking(Given):
    """One query's vectors, the retrieved ones best rank first."""

    query_id: str
    embeddings: Embeddings


@dataclass(frozen=True, repr=False)
class EmbeddedRankings(Given, View):
    """Rankings judged by the cosine of your vectors; the default threshold is the server's 0.8."""

    rankings: Sequence[EmbeddedRanking]
    min_score: float | None = None


def _packed(rows: Sequence[Sequence[float]]) -> bytes:
    values = list(chain.from_iterable(rows))
    return struct.pack(f"<{len(values)}f", *values)


@dataclass(frozen=True)
class Span:
    """A part of a file: characters from `start`, counted from 0, up to but excluding `end`."""

    file: str
    start: int
    end: int


@dataclass(frozen=True)
class Spans(Given):
    """Spans in place of the texts of a group, the retrieved ones best rank first."""

    expected: Sequence[Span] = ()
    retrieved: Sequence[Span] = ()


@dataclass(frozen=True)
class Context:
    """One thing to judge."""

    query: str
    expected_text: str
    retrieved_text: str


_READ_ONCE = {
    "query_id": as_id,
    **dict.fromkeys(("expected", "retrieved", "negatives"), as_list),
    **dict.fromkeys(("document_ids", "relevant_document_ids"), as_ids),
}


@dataclass(frozen=True, repr=False)
class QueryGroup(View):
    """One query with expected and retrieved texts: every pair of them is a context.

    Verdicts are retrieved-major: all expected texts for retrieved[0], then for retrieved[1].
    `document_ids` names the retrieved documents; `relevant_document_ids` makes `evaluate` match
    by id instead of judging; ids are text or whole numbers, compared as text. Embeddings or spans
    may take the place of texts. Without `expected`, a judge whose rubric shows no expected text
    judges each retrieved text by itself. `negatives` are texts that should not be found; `evaluate`
    reports those that were. `grades` maps document ids to grades, 0 for those judged not relevant;
    `relevant_document_ids` are then those above 0.
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
    grades: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("retrieved", "document_ids"):
            refuse_set(getattr(self, name), name)
        for name, read in _READ_ONCE.items():
            given = getattr(self, name)
            if (read_once := read(given)) is not given:
                object.__setattr__(self, name, read_once)
        set_grades(self)

    @property
    def by_id(self) -> bool:
        """Whether results are matched by document id, not judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of spans or vectors in their place."""
        return self._count("expected")

    @property
    def open_ended(self) -> bool:
        """Whether texts were retrieved, and no text is expected, or one blank text."""
        if not self.retrieved or self.by_id or any(self.expected):
            return False
        return len(self.expected) <= 1 and self.embeddings is None and self.spans is None

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of spans or vectors in their place."""
        return self._count("retrieved")

    def _count(self, side: str) -> int:
        if texts := getattr(self, side):
            return len(texts)
        if self.spans is not None:
            return len(getattr(self.spans, side))
        vectors = self.embeddings
        return 0 if vectors is None else len(getattr(vectors, side)) // vectors.row_bytes


_RARE = {"flagged_reserved_tokens", "flagged_fallback", "flagged_unknown_tokens"}
_FLAGGED = "flagged_"
_RARE_COLUMNS: Mapping[str, float] = {"agreement": 0.0, "probability": 0.0, "stage": 0}
"""The columns that only some judges fill, and the value that fills gaps in them."""
_COLUMNS: Mapping[str, float] = {
    "relevant": False,
    "score": 0.0,
    "status": 0,
    "source": 0,
    "flags": 0,
    **_RARE_COLUMNS,
}


@dataclass(frozen=True)
class VerdictError:
    """Why a verdict is missing."""

    code: int
    reason: str
    message: str
    retryable: bool


@dataclass(frozen=True)
class Verdict:
    """The verdict on one context. `relevant` and `score` are None unless the status is OK.

    `agreement` is the share of votes on the larger side, None for judges without votes;
    `probability` is that of being relevant, None for judges without a calibration; both are None
    unless the status is OK. `stage` is the stage of a cascade that settled it, from 1, None if none
    did or for other judges. `grade` is None for judges that give no grades.
    """

    status: Status
    relevant: bool | None
    score: float | None
    source: Source
    flags: Flag
    error: VerdictError | None
    agreement: float | None = None
    detail: VerdictDetail | None = None
    probability: float | None = None
    stage: int | None = None
    grade: float | None = None


@dataclass(frozen=True, repr=False)
class Verdicts(View, Listed[Verdict]):
    """The verdicts of a call as parallel columns; indexing gives one as a Verdict.

    `relevant` and `score` are False and 0.0 if the status is not OK. `offsets[g]:offsets[g+1]` are
    the verdicts of group g. `errors` has those of missing verdicts by index. Judges that vote fill
    `agreement`, calibrated ones `probability`; those that ask a language model report `usage`, and
    `details` on request. `groups` are the judged groups, if known, for `to_rows`. A slice is a
    list. Columns are lists; for groups that are read while they are sent, they are arrays, which
    take 15 bytes per verdict in all.
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
    groups: Sequence[QueryGroup] = field(default=(), compare=False, repr=False)
    probability: Sequence[float] = ()
    stage: Sequence[int] = ()

    @classmethod
    def of(
        cls,
        verdicts: Sequence[Verdict],
        offsets: Sequence[int],
        judge: JudgeIdentity,
        usage: Usage | None = None,
        groups: Sequence[QueryGroup] = (),
    ) -> Verdicts:
        """Return single verdicts as columns.

        Probabilities are kept only if every verdict that is OK has one.
        """
        columns: dict[str, Any] = {}
        for name, blank in _COLUMNS.items():
            given = [getattr(verdict, name) for verdict in verdicts]
            if name not in _RARE_COLUMNS or any(value is not None for value in given):
                columns[name] = [type(blank)(value or blank) for value in given]
        if any(v.probability is None for v in verdicts if v.status is Status.OK):
            columns.pop("probability", None)
        return cls(
            **columns,
            offsets=offsets,
            errors={i: v.error for i, v in enumerate(verdicts) if v.error is not None},
            judge=judge,
            details={i: v.detail for i, v in enumerate(verdicts) if v.detail is not None},
            usage=usage,
            groups=groups,
        )

    def __len__(self) -> int:
        return len(self.relevant)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdicts as rows, with the judge and its usage."""
        return {
            "verdicts": self.to_rows(),
            "signature": self.judge.signature,
            "judge": plain(self.judge),
            "usage": plain(self.usage),
            "details": plain(self.details),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per verdict. Ranks count from 1, groups and expected texts from 0.

        Without known groups, their cells are None.
        """
        return [
            place | self._row(index)
            for index, place in enumerate(_places(self.offsets, self.groups, len(self)))
        ]

    def _row(self, index: int) -> dict[str, Any]:
        verdict = self._item(index)
        error = verdict.error
        return row_of(
            verdict,
            "status relevant score probability stage agreement source",
            agreement=vote_agreement(verdict, self.judge),
            flags=", ".join(str(flag.name) for flag in Flag if flag & verdict.flags),
            error=None if error is None else f"{error.reason}: {error.message}",
        )

    def _item(self, index: int) -> Verdict:
        status = Status(self.status[index])
        ok, top = status is Status.OK, self.judge.max_grade
        return Verdict(
            status,
            bool(self.relevant[index]) if ok else None,
            self.score[index] if ok else None,
            Source(self.source[index]),
            Flag(self.flags[index]),
            self.errors.get(index),
            self.agreement[index] if ok and self.agreement else None,
            self.details.get(index),
            self.probability[index] if ok and self.probability else None,
            (self.stage[index] or None) if self.stage else None,
            round(self.score[index] * top, 9) if ok and top else None,
        )

    @property
    def n_ok(self) -> int:
        """The number of verdicts that are OK."""
        return self.status.count(int(Status.OK))

    @property
    def coverage(self) -> float | None:
        """The share of verdicts that are OK; None without verdicts."""
        return self.n_ok / len(self) if len(self) else None

    def count(self, flag: Flag) -> int:
        """Return the number of verdicts that have a flag."""
        # A column has few distinct values, and `&` of enum members takes a microsecond.
        return sum(n for flags, n in Counter(self.flags).items() if flags & flag)


def join_verdicts(
    parts: Iterable[tuple[Verdicts, bool]], groups: Sequence[QueryGroup] = ()
) -> Verdicts:
    """Return the verdicts of parts, joined in order, with the judge of the first.

    The caller ensures that all parts are of one judge. Each part comes with whether its first group
    continues the last one before. Parts are read once and not kept; columns are lists or arrays,
    as in the first part.
    """
    judge: JudgeIdentity | None = None
    columns: dict[str, Any] = {}
    errors: dict[int, VerdictError] = {}
    details: dict[int, VerdictDetail] = {}
    total = 0
    for part, continued in parts:
        if judge is None:
            judge = part.judge
            columns = {name: _empty_like(getattr(part, name)) for name in (*_COLUMNS, "offsets")}
            columns["offsets"].append(0)
        for name in _COLUMNS:
            if values := getattr(part, name):
                _fill(columns[name], total)
                columns[name].extend(values)
        if continued:
            columns["offsets"].pop()
        columns["offsets"].extend([total + offset for offset in part.offsets[1:]])
        errors |= {total + index: error for index, error in part.errors.items()}
        details |= {total + index: detail for index, detail in part.details.items()}
        total += len(part)
    if judge is None:
        raise ValueError("there is no part")
    for name in _RARE_COLUMNS:
        if columns[name]:
            _fill(columns[name], total)
    return Verdicts(**columns, errors=errors, judge=judge, details=details, groups=groups)


def _empty_like(column: Any) -> Any:  # noqa: ANN401 - any kind of column
    return array(column.typecode) if isinstance(column, array) else []


def _fill(column: Any, size: int) -> None:  # noqa: ANN401 - any kind of column
    """Pad a column with zeros to a size."""
    column.extend([0] * (size - len(column)))


def vote_agreement(verdict: Verdict, judge: JudgeIdentity) -> float | None:
    """Return the agreement of a verdict's votes; None if fewer than two samples voted.

    A single sample always agrees with itself. Details have the number of votes; without them, the
    signature shows whether the judge asks once.
    """
    detail = verdict.detail
    if detail is not None and detail.samples:
        voted = sum(1 for sample in detail.samples if sample.status is Status.OK)
        return verdict.agreement if voted > 1 else None
    asks_once = judge.kind == "llm" and "samples:1" in judge.signature.split("|")
    return None if asks_once else verdict.agreement


def _places(
    offsets: Sequence[int], groups: Sequence[QueryGroup], total: int
) -> Iterator[dict[str, Any]]:
    """Yield the place of each verdict: its group and, if known, its query and rank."""
    ends = pairwise(offsets) if len(offsets) > 1 else [(0, total)]
    known = chain(groups, repeat(QueryGroup()))
    for number, ((start, end), group) in enumerate(zip(ends, known, strict=False)):
        width = group.n_expected or 1
        # If sizes differ, these are not the groups as they were judged.
        fits = width * group.n_retrieved == end - start
        about = ("query_id", "query", "rank", "document_id", "expected")
        for offset in range(end - start):
            place: dict[str, Any] = {"group": number, **dict.fromkeys(about)}
            if fits:
                rank, place["expected"] = divmod(offset, width)
                place |= {"query_id": group.query_id, "query": group.query, "rank": rank + 1}
                place["document_id"] = group.document_ids[rank] if group.document_ids else None
            yield place


@dataclass(frozen=True, repr=False)
class JudgedChunk(View):
    """One answered chunk of a stream: its verdicts, or the error that kept it from being judged."""

    chunk_id: int
    verdicts: Verdicts | None
    error: VerdictError | None


@dataclass(frozen=True)
class _StatusCounts:
    """How many verdicts or scores have each status."""

    ok: int = 0
    error: int = 0
    abstained: int = 0
    not_assessable: int = 0

    @property
    def total(self) -> int:
        """The number of all."""
        return self.ok + self.error + self.abstained + self.not_assessable


@dataclass(frozen=True, repr=False)
class VerdictCounts(View, _StatusCounts):
    """How many verdicts have each status, and each of the more important flags."""

    relevant: int = 0
    flagged_no_tokens: int = 0
    flagged_truncated: int = 0
    flagged_reserved_tokens: int = 0
    flagged_fallback: int = 0
    flagged_unknown_tokens: int = 0

    @classmethod
    def of(cls, verdicts: Verdicts | None) -> VerdictCounts:
        """Return the counts of verdicts; zeros for None."""
        if verdicts is None:
            return cls()
        # Counting an int in a column is a thousand times faster than counting an IntEnum member.
        counts = {each.name.lower(): verdicts.status.count(int(each)) for each in Status}
        for name in (part.name for part in fields(cls) if part.name.startswith(_FLAGGED)):
            counts[name] = verdicts.count(Flag[name.removeprefix(_FLAGGED).upper()])
        return cls(**counts, relevant=verdicts.relevant.count(True))

    def __add__(self, other: VerdictCounts) -> VerdictCounts:
        """Return the sums of the counts."""
        return VerdictCounts(*map(add, astuple(self), astuple(other)))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts by name; rare flags only if there are any."""
        counts = ((part.name, getattr(self, part.name)) for part in fields(self))
        return {name: n for name, n in counts if n or name not in _RARE}


@dataclass(frozen=True)
class VerdictSample:
    """One answer of a language model. `relevant` and `score` are None unless it is a vote.

    For a panel, it is the verdict of the member whose signature is `judge`. `fallback` names the
    model that answered in place of the one asked; "" if that one answered.
    """

    status: Status
    relevant: bool | None
    score: float | None
    reason: str
    reasoning: str
    raw_reply: str
    judge: str = ""
    fallback: str = ""


@dataclass(frozen=True)
class VerdictDetail:
    """How a language model came to one verdict.

    `rationale` is the reasoning of the first sample that agrees with the verdict. `model` and
    `system_fingerprint` are as reported by the provider.
    """

    rationale: str
    samples: Sequence[VerdictSample]
    usage: Usage
    model: str
    system_fingerprint: str
