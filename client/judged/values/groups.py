"""What is to be judged, and the verdicts on it."""

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
    """Your own vectors for a group: float32, little endian, row after row."""

    dimensions: int
    expected: bytes
    retrieved: bytes

    @classmethod
    def from_rows(
        cls, expected: Sequence[Sequence[float]], retrieved: Sequence[Sequence[float]]
    ) -> Embeddings:
        """Return the embeddings of lists of vectors, all of one length."""
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
    """Rankings judged by the cosine of your vectors; without a threshold the server's 0.8 holds."""

    rankings: Sequence[EmbeddedRanking]
    min_score: float | None = None


def _packed(rows: Sequence[Sequence[float]]) -> bytes:
    values = list(chain.from_iterable(rows))
    return struct.pack(f"<{len(values)}f", *values)


@dataclass(frozen=True)
class Span:
    """A part of a file: from the character `start`, counted from 0, up to, not including, `end`."""

    file: str
    start: int
    end: int


@dataclass(frozen=True)
class Spans(Given):
    """The spans that stand for the texts of a group, the retrieved ones best rank first."""

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

    Verdicts come retrieved-major: all expected texts for retrieved[0], then for retrieved[1].
    `document_ids` names the retrieved documents; `relevant_document_ids` makes `evaluate` match
    by id instead of judging; ids are text or whole numbers, compared as text. Embeddings or spans
    may stand for the texts. Without `expected` a judge whose rubric shows no expected text judges
    each retrieved text by itself. `negatives` are texts that should not be found, on which
    `evaluate` reports. `grades` of documents by their ids, 0 for those judged not relevant, say
    more than `relevant_document_ids`, which are then those above 0.
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
        """Whether results are matched by document id, and not judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of what stands for them."""
        return self._count("expected")

    @property
    def open_ended(self) -> bool:
        """Whether texts were retrieved, and no text or one blank text says what was expected."""
        if not self.retrieved or self.by_id or any(self.expected):
            return False
        return len(self.expected) <= 1 and self.embeddings is None and self.spans is None

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of what stands for them."""
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
"""The columns that are empty unless the judge fills them, and what then fills their gaps."""
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
    """The answer for one context. `relevant` and `score` are None unless the status is OK.

    So is `agreement`, the share of votes on the larger side, and always for judges without votes;
    and `probability`, that it is relevant, and always for judges that are not calibrated. `stage`
    is that of a cascade which settled it, from 1; None where none did, and for other judges.
    `grade` is that of a judge that gives grades, None for others.
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

    `relevant` and `score` are False and 0.0 where the status is not OK. `offsets[g]:offsets[g+1]`
    are the verdicts of group g. `errors` holds the missing ones by index. Judges that vote fill
    `agreement`, calibrated ones `probability`; those that ask a language model tell their `usage`,
    and `details` when asked to. `groups` are those that were judged, where they are known, for
    `to_rows`. A slice is a list. Columns are lists; of groups that are read as they are sent they
    are arrays, of 15 bytes a verdict in all.
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

        There are probabilities only where every verdict that exists has one.
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
        """Return the verdicts as rows, with the judge and what it took."""
        return {
            "verdicts": self.to_rows(),
            "signature": self.judge.signature,
            "judge": plain(self.judge),
            "usage": plain(self.usage),
            "details": plain(self.details),
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row a verdict. Ranks count from 1, groups and expected texts from 0.

        What the groups would tell is None where they are not known.
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
        """The number of verdicts that exist."""
        return self.status.count(int(Status.OK))

    @property
    def coverage(self) -> float | None:
        """The share of verdicts that exist; None when there are none at all."""
        return self.n_ok / len(self) if len(self) else None

    def count(self, flag: Flag) -> int:
        """Return the number of verdicts that carry a flag."""
        # Few distinct ones stand in a column, and `&` of members of an enum takes a microsecond.
        return sum(n for flags, n in Counter(self.flags).items() if flags & flag)


def join_verdicts(
    parts: Iterable[tuple[Verdicts, bool]], groups: Sequence[QueryGroup] = ()
) -> Verdicts:
    """Return the verdicts of parts, one after the other, under the judge of the first.

    That the others are of the same judge is for the caller to see to. Each part comes with whether
    its first group is more of the last one before. Parts are read once and let go; columns are of
    the kind that those of the first are.
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
    """Make a column so long, with zeros."""
    column.extend([0] * (size - len(column)))


def vote_agreement(verdict: Verdict, judge: JudgeIdentity) -> float | None:
    """Return the agreement of a verdict's votes; None where fewer than two samples voted.

    One sample agrees with itself, which is no vote. How many voted is known when there are
    details; without them, a judge that asks once is known by its signature.
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
    """Yield what each verdict is about: its group and, where that is known, query and rank."""
    ends = pairwise(offsets) if len(offsets) > 1 else [(0, total)]
    known = chain(groups, repeat(QueryGroup()))
    for number, ((start, end), group) in enumerate(zip(ends, known, strict=False)):
        width = group.n_expected or 1
        # Others are not the groups as they were judged.
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


@dataclass(frozen=True, repr=False)
class VerdictCounts(View):
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
    flagged_unknown_tokens: int = 0

    @classmethod
    def of(cls, verdicts: Verdicts | None) -> VerdictCounts:
        """Return the counts of some verdicts, or of none."""
        if verdicts is None:
            return cls()
        # A column counts an integer a thousand times faster than members of an IntEnum.
        counts = {each.name.lower(): verdicts.status.count(int(each)) for each in Status}
        for name in (part.name for part in fields(cls) if part.name.startswith(_FLAGGED)):
            counts[name] = verdicts.count(Flag[name.removeprefix(_FLAGGED).upper()])
        return cls(**counts, relevant=verdicts.relevant.count(True))

    def __add__(self, other: VerdictCounts) -> VerdictCounts:
        """Return the counts of both."""
        return VerdictCounts(*map(add, astuple(self), astuple(other)))

    def to_dict(self) -> dict[str, Any]:
        """Return the counts by name; those that few verdicts have only where there are any."""
        counts = ((part.name, getattr(self, part.name)) for part in fields(self))
        return {name: n for name, n in counts if n or name not in _RARE}

    @property
    def total(self) -> int:
        """All verdicts."""
        return self.ok + self.error + self.abstained + self.not_assessable


@dataclass(frozen=True)
class VerdictSample:
    """One answer of a language model. `relevant` and `score` are None unless it is a vote.

    Of a panel it is the verdict of one member, whose signature is `judge`. `fallback` names the
    model that answered in place of the one that was asked, "" when that one did.
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
    `system_fingerprint` are what its provider says has answered.
    """

    rationale: str
    samples: Sequence[VerdictSample]
    usage: Usage
    model: str
    system_fingerprint: str
