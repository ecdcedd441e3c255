"""The words of the service as values: groups, judge specs, identities, verdict columns.

Nobody writes to a value, or to an array in it, after it is made. Those that every call makes are
not frozen: a frozen one takes six times as long to make.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum, IntFlag
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

ParameterScalar = bool | int | float | str

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
UnsignedArray = NDArray[np.uint64]
ByteArray = NDArray[np.uint8]

TIE_TOLERANCE = 1e-9
"""Added to a score before it is compared, so that one printed equal to the threshold passes."""


class Status(IntEnum):
    """Whether a verdict exists; the numbers are those of VerdictStatus on the wire."""

    OK = 1
    ERROR = 2
    ABSTAINED = 3
    NOT_ASSESSABLE = 4


class Source(IntEnum):
    """Where a verdict came from; the numbers are those of VerdictSource on the wire."""

    COMPUTED = 1
    CACHE = 2
    SHARED = 3
    REPLAY = 4


class ClaimVerdict(IntEnum):
    """What the contexts say of a claim; the numbers are those of ClaimVerdict on the wire."""

    SUPPORTED = 1
    CONTRADICTED = 2
    NOT_ENOUGH_INFO = 3


class CacheMode(IntEnum):
    """What the verdict cache is for; the numbers are those of CacheMode on the wire."""

    USE = 1
    REFRESH = 2
    ONLY = 3


class Flag(IntFlag):
    """Remarks on a verdict; the bits are those of VerdictFlag on the wire."""

    NONE = 0
    NO_TOKENS = 1
    TRUNCATED = 2
    WINDOWED = 4
    RESERVED_TOKENS = 8
    FALLBACK = 16


@dataclass(frozen=True, slots=True)
class CallerEmbeddings:
    """Vectors the caller sent for one group: float32, shapes (expected, d) and (retrieved, d)."""

    expected: Float32Array
    retrieved: Float32Array


@dataclass(frozen=True, slots=True)
class Spans:
    """Parts of files: int64 `files`, uint64 `starts` and `ends`, all of one length.

    Within a group equal numbers are equal files. An end lies above its start and is not part of
    the span.
    """

    files: IntArray
    starts: UnsignedArray
    ends: UnsignedArray

    def __len__(self) -> int:
        return len(self.files)

    def take(self, places: IntArray) -> Spans:
        """Return the spans at these places, in that order."""
        return Spans(self.files[places], self.starts[places], self.ends[places])


@dataclass(frozen=True, slots=True)
class GroupSpans:
    """The spans that stand for the texts of one group."""

    expected: Spans
    retrieved: Spans


@dataclass(slots=True)
class QueryGroup:
    """One query with expected and retrieved texts: all pairs are contexts, retrieved-major.

    Vectors or spans may stand for the texts. `negatives` are texts that should not have been
    found; their verdicts are no part of the group's.
    """

    query_id: str
    query: str
    expected: Sequence[str]
    retrieved: Sequence[str]
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: CallerEmbeddings | None = None
    spans: GroupSpans | None = None
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of what stands for them."""
        return len((self.embeddings or self.spans or self).expected)

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of what stands for them."""
        return len((self.embeddings or self.spans or self).retrieved)

    @property
    def n_contexts(self) -> int:
        """The number of verdicts the group has."""
        if self.embeddings is None and self.spans is None:
            return len(self.expected) * len(self.retrieved)
        return self.n_expected * self.n_retrieved

    def at_ranks(self, ranks: Sequence[int]) -> QueryGroup:
        """Return the group with these of its results only, counted from 0, in that order."""
        embeddings, spans = self.embeddings, self.spans
        rows = np.asarray(ranks, np.int64)
        return replace(
            self,
            retrieved=[self.retrieved[rank] for rank in ranks] if self.retrieved else (),
            document_ids=[self.document_ids[rank] for rank in ranks] if self.document_ids else (),
            embeddings=embeddings and replace(embeddings, retrieved=embeddings.retrieved[rows]),
            spans=spans and replace(spans, retrieved=spans.retrieved.take(rows)),
        )


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """What a request asks for: a kind, and whatever it overrides. Unset means the default."""

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, ParameterScalar] = field(default_factory=dict)
    members: tuple[PanelMember, ...] = ()


@dataclass(frozen=True, slots=True)
class PanelMember:
    """A judge of a panel, as a request asks for it; `weight` None stands for 1."""

    judge: JudgeSpec
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """Which judge ran, precisely enough to repeat it.

    `scoring_key` is a SHA-256 in hex over all that can change a score; `fingerprint` covers
    min_score too; `signature` is the same for people, in one stable line.
    """

    kind: str
    profile: str
    min_score: float
    signature: str
    scoring_key: str
    fingerprint: str

    def __hash__(self) -> int:
        """Return the hash of the fingerprint, which covers the rest; a string keeps its own."""
        return hash(self.fingerprint)

    @classmethod
    def build(
        cls,
        kind: str,
        profile: str,
        min_score: float,
        parts: Sequence[tuple[str, str]],
        version: int,
        secret_parts: Sequence[tuple[str, str]] = (),
    ) -> JudgeIdentity:
        """Return the identity of a judge from its printable parts, in the order they print.

        `secret_parts` enter the key but are too long to print (full file hashes, say). Fields are
        length-prefixed, so that no two different lists of parts share a key.
        """
        digest = hashlib.sha256()
        head = [("kind", kind), ("profile", profile), ("version", str(version))]
        for name, value in [*head, *parts, *secret_parts]:
            for text in (name, value):
                raw = text.encode()
                digest.update(len(raw).to_bytes(8, "big"))
                digest.update(raw)
        scoring_key = digest.hexdigest()
        threshold = format(min_score, ".12g")
        fingerprint = hashlib.sha256(f"{scoring_key}|{min_score!r}".encode()).hexdigest()
        printed = [kind]
        if profile:
            printed.append(f"profile:{profile}")
        printed += [f"{name}:{value}" for name, value in parts]
        printed += [f"min_score:{threshold}", f"v{version}"]
        return cls(kind, profile, min_score, "|".join(printed), scoring_key, fingerprint)


@dataclass(frozen=True, slots=True)
class VerdictFault:
    """Why one verdict is missing: a reason of ErrorReason, the fitting gRPC code, a message."""

    index: int
    code: int
    reason: str
    message: str
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What calls to language models took; `calls` were answered, `attempts` were made.

    `cost` is None when the price of a call is not known. `latency_s` is summed over the calls.
    `cached` samples came from the verdict cache, `shared` ones from a question of another caller.
    """

    calls: int = 0
    attempts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    latency_s: float = 0.0
    cached: int = 0
    shared: int = 0

    def __add__(self, other: Usage) -> Usage:
        """Return both together."""
        if self._is_nothing and (self.cost is not None or other.cost is None):
            return other  # most sums begin so
        known = self.cost is not None and other.cost is not None
        return Usage(
            self.calls + other.calls,
            self.attempts + other.attempts,
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            (self.cost or 0.0) + (other.cost or 0.0) if known else None,
            self.latency_s + other.latency_s,
            self.cached + other.cached,
            self.shared + other.shared,
        )

    @property
    def _is_nothing(self) -> bool:
        tokens = self.input_tokens or self.output_tokens
        asked = self.calls or self.attempts or tokens or self.latency_s or self.cost
        return not (asked or self.cached or self.shared)


@dataclass(frozen=True, slots=True)
class VerdictSample:
    """One answer of a language model, or what `judge`, a panel's member by its signature, says.

    Only OK samples are votes. `fallback` names the model that answered in place of another.
    """

    status: Status
    relevant: bool
    score: float
    reason: str
    reasoning: str
    raw_reply: str
    judge: str = ""
    fallback: str = ""


@dataclass(frozen=True, slots=True)
class VerdictDetail:
    """How a language model came to the verdict at `index`."""

    index: int
    rationale: str
    samples: tuple[VerdictSample, ...]
    usage: Usage
    model: str
    system_fingerprint: str


@dataclass(slots=True)
class ScoreColumns:
    """What a judge returns: one score a context, the groups in order, each retrieved-major.

    `scores` is float64 in [0, 1] where the status is OK and 0 elsewhere. `statuses` (uint8 of
    Status) and `flags` (uint8 of Flag) are None when every entry is OK, or unflagged. A judge that
    votes also gives `majorities`, whether most votes said yes, and `agreements`, float64 in [0, 1];
    one that asks a language model `usage`, `sources` (uint8 of Source, None when all were computed)
    and, if asked for, `details` in ascending index.
    """

    scores: FloatArray
    statuses: ByteArray | None = None
    flags: ByteArray | None = None
    faults: tuple[VerdictFault, ...] = ()
    majorities: BoolArray | None = None
    agreements: FloatArray | None = None
    details: tuple[VerdictDetail, ...] = ()
    usage: Usage | None = None
    sources: ByteArray | None = None


@lru_cache(maxsize=1024)
def min_passing_score(min_score: float) -> FloatArray:
    """Return the smallest score that with TIE_TOLERANCE is not below a threshold, as float64[].

    One comparison then says of each score what a sum and a comparison would, rounding included:
    in a small request each operation of NumPy takes ten microseconds. As an array it saves the
    conversion of a number.
    """
    fails, passes = min_score - 1, min_score
    while fails < (middle := (fails + passes) / 2) < passes:  # until they are neighbours
        if middle + TIE_TOLERANCE >= min_score:
            passes = middle
        else:
            fails = middle
    return np.array(passes)


@dataclass(slots=True)
class Verdicts:
    """Scores with the threshold applied, as a reply carries them.

    `offsets` has a place more than there are groups; `sources` is None when all were computed.
    """

    relevant: BoolArray
    columns: ScoreColumns
    offsets: Sequence[int]
    sources: ByteArray | None = None

    @classmethod
    def decide(cls, columns: ScoreColumns, offsets: Sequence[int], min_score: float) -> Verdicts:
        """Return the verdicts of `columns` under a threshold; only OK scores can be relevant.

        Where there was a vote, most votes must have said yes as well.
        """
        relevant = columns.scores >= min_passing_score(min_score)
        if columns.majorities is not None:
            relevant &= columns.majorities
        if columns.statuses is not None:
            relevant &= columns.statuses == Status.OK
        return cls(relevant, columns, offsets, columns.sources)

    def of_groups(self, begin: int, end: int) -> Verdicts:
        """Return the verdicts of the groups from `begin` up to, not including, `end`.

        What the whole took is not told of a part.
        """
        first, last = self.offsets[begin], self.offsets[end]
        columns, part = self.columns, slice(first, last)
        faults = (fault for fault in columns.faults if first <= fault.index < last)
        details = (detail for detail in columns.details if first <= detail.index < last)
        return Verdicts(
            self.relevant[part],
            ScoreColumns(
                columns.scores[part],
                None if columns.statuses is None else columns.statuses[part],
                None if columns.flags is None else columns.flags[part],
                tuple(replace(fault, index=fault.index - first) for fault in faults),
                None if columns.majorities is None else columns.majorities[part],
                None if columns.agreements is None else columns.agreements[part],
                tuple(replace(detail, index=detail.index - first) for detail in details),
            ),
            [offset - first for offset in self.offsets[begin : end + 1]],
            None if self.sources is None else self.sources[part],
        )
