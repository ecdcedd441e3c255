"""What comes back of judging: verdicts in columns, why some are missing, and which judge ran.

Owns the values. How they travel is up to `_messages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from judged.details import Usage, VerdictDetail
from judged.statuses import Flag, Source, Status


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
