"""The words of the service as frozen values: groups, judge specs, identities, verdict columns.

Owns the shapes that travel between layers. Leaves protobuf to `rpc.codec`, behaviour to the
layers, and errors to `errors`. Arrays are NumPy arrays that nobody writes to after they are made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

ParameterScalar = bool | int | float | str

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
ByteArray = NDArray[np.uint8]

TIE_TOLERANCE = 1e-9
"""Added to a score before it is compared, so that a score printed equal to the bar passes it."""


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


class Flag(IntFlag):
    """Remarks on a verdict; the bits are those of VerdictFlag on the wire."""

    NONE = 0
    NO_TOKENS = 1
    TRUNCATED = 2
    WINDOWED = 4


@dataclass(frozen=True, slots=True)
class CallerEmbeddings:
    """Vectors the caller sent for one group: float32, shapes (expected, d) and (retrieved, d)."""

    expected: Float32Array
    retrieved: Float32Array


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """One query with expected and retrieved texts: all pairs are contexts, retrieved-major."""

    query_id: str
    query: str
    expected: Sequence[str]
    retrieved: Sequence[str]
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: CallerEmbeddings | None = None

    @property
    def n_expected(self) -> int:
        """The number of expected texts or vectors."""
        return len(self.expected) if self.embeddings is None else len(self.embeddings.expected)

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts or vectors."""
        return len(self.retrieved) if self.embeddings is None else len(self.embeddings.retrieved)

    @property
    def n_contexts(self) -> int:
        """The number of verdicts the group has."""
        if self.embeddings is None:
            return len(self.expected) * len(self.retrieved)
        return self.n_expected * self.n_retrieved


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """What a request asks for: a kind, and whatever it overrides. Unset means the default."""

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, ParameterScalar] = field(default_factory=dict)


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
        bar = format(min_score, ".12g")
        fingerprint = hashlib.sha256(f"{scoring_key}|{min_score!r}".encode()).hexdigest()
        printed = [kind]
        if profile:
            printed.append(f"profile:{profile}")
        printed += [f"{name}:{value}" for name, value in parts]
        printed += [f"min_score:{bar}", f"v{version}"]
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
class ScoreColumns:
    """What a judge returns: one score a context, the groups in order, each retrieved-major.

    `scores` is float64 in [0, 1] where the status is OK and 0 elsewhere. `statuses` (uint8 of
    Status) and `flags` (uint8 of Flag) are None when every entry is OK, or unflagged.
    """

    scores: FloatArray
    statuses: ByteArray | None = None
    flags: ByteArray | None = None
    faults: tuple[VerdictFault, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Scores with the bar applied, as a reply carries them.

    `offsets` has a place more than there are groups; `sources` is None when all were computed.
    """

    relevant: BoolArray
    columns: ScoreColumns
    offsets: Sequence[int]
    sources: ByteArray | None = None

    @classmethod
    def decide(cls, columns: ScoreColumns, offsets: Sequence[int], min_score: float) -> Verdicts:
        """Return the verdicts of `columns` under a bar; only OK scores can be relevant."""
        relevant = columns.scores + TIE_TOLERANCE >= min_score
        if columns.statuses is not None:
            relevant &= columns.statuses == Status.OK
        return cls(relevant, columns, offsets)
