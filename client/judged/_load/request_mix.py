"""What a load sends and when: mixes of requests, how their texts are made, and when they are due.

Texts are new in each request, but for a share of requests that repeat an earlier one of their kind
word for word.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import count

from judged._files import FileError, Record, read_records
from judged._load.open_loop import METHOD, Request
from judged.errors import InvalidArgument
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb

_ITEM = re.compile(
    r"(?P<kind>[a-z_]+(/[a-z_]+)?):(?P<expected>\d+)x(?P<retrieved>\d+)(x(?P<groups>\d+))?"
    r"(@(?P<words>\d+))?(=(?P<weight>\d+(\.\d+)?))?"
)
_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class RequestKind:
    """One kind of request: its judge (KIND or KIND/PROFILE), its shape, its share of the mix."""

    judge: str
    expected: int
    retrieved: int
    groups: int = 1
    words: int = 60
    weight: float = 1.0

    @property
    def label(self) -> str:
        """The notation, without what is at its default."""
        shape = f"{self.judge}:{self.expected}x{self.retrieved}"
        shape += f"x{self.groups}" if self.groups != 1 else ""
        return shape + (f"@{self.words}" if self.words != 60 else "")

    @property
    def contexts(self) -> int:
        """How many verdicts a request asks for."""
        return self.expected * self.retrieved * self.groups


def parse_mix(text: str) -> list[RequestKind]:
    """Return the kinds of a mix. Raises InvalidArgument, naming the part that is off."""
    kinds = []
    for part in text.split(","):
        found = _ITEM.fullmatch(part.strip())
        if found is None:
            raise InvalidArgument.of_field(
                "mix",
                f"{part!r} is not KIND[/PROFILE]:EXPECTEDxRETRIEVED[xGROUPS][@WORDS][=WEIGHT], "
                "such as semantic:1x10=3",
            )
        numbers = {
            name: int(found[name])
            for name in ("expected", "retrieved", "groups", "words")
            if found[name] is not None
        }
        weight = float(found["weight"] or 1)
        if not all(numbers.values()) or not weight:
            raise InvalidArgument.of_field("mix", f"{part!r}: numbers must be above 0")
        kinds.append(RequestKind(found["kind"], weight=weight, **numbers))
    return kinds


class RequestMaker:
    """Makes requests of a mix, the same for a seed."""

    def __init__(
        self,
        mix: list[RequestKind],
        seed: int,
        repeat: float = 0.0,
        words: Sequence[str] | None = None,
    ) -> None:
        """Repeat that share of requests word for word; texts are windows of `words`."""
        self._mix = mix
        self._weights = [kind.weight for kind in mix]
        self._random = random.Random(seed)
        self._repeat = repeat
        self._made: dict[RequestKind, list[Request]] = {kind: [] for kind in mix}
        self._words = _words() if words is None else words

    def make(self) -> Request:
        """Return the next request."""
        kind = self._random.choices(self._mix, self._weights)[0]
        made = self._made[kind]
        if made and self._random.random() < self._repeat:
            return self._random.choice(made)
        request = self._new(kind)
        if len(made) < _KEPT:
            made.append(request)
        return request

    def _new(self, kind: RequestKind) -> Request:
        judge, _, profile = kind.judge.partition("/")
        message = pb.BatchJudgeRequest(judge=groups_pb2.JudgeSpec(kind=judge, profile=profile))
        for _ in range(kind.groups):
            texts = [self._text(kind.words) for _ in range(kind.expected + kind.retrieved)]
            message.groups.append(
                groups_pb2.QueryGroup(
                    query=self._text(8),
                    expected=texts[: kind.expected],
                    retrieved=texts[kind.expected :],
                )
            )
        return Request(kind.label, message.SerializeToString(), kind.contexts)

    def _text(self, size: int) -> str:
        length = max(1, round(size * self._random.uniform(0.5, 1.5)))
        start = self._random.randrange(len(self._words) - length)
        # A number makes it new, wherever the window lies.
        return f"{' '.join(self._words[start : start + length])} {self._random.randrange(10**9)}"


@cache
def _words() -> list[str]:
    """Return the words of Python's reference, as they are written there."""
    import pydoc_data.topics  # noqa: PLC0415 - large, and only needed to put a load on

    return " ".join(text for _, text in sorted(pydoc_data.topics.topics.items())).split()


def arrivals(rate: float, seconds: float, *, poisson: bool, seed: int) -> Iterator[float]:
    """Yield the instants, in seconds from the start, at which requests are due."""
    rng = random.Random(seed)
    due = 0.0
    while True:
        due += rng.expovariate(rate) if poisson else 1 / rate
        if due >= seconds:
            return
        yield due


@dataclass(frozen=True, slots=True)
class Replay:
    """Instants of requests, in seconds from the first; they come again each `period`."""

    instants: Sequence[float]
    period: float

    @property
    def rate(self) -> float:
        """How many a second there were."""
        return len(self.instants) / self.period

    def arrivals(self, rate: float, seconds: float) -> Iterator[float]:
        """Yield when requests are due: as they were, so much faster that they come at a rate."""
        slower = self.rate / rate
        for again in count():
            for instant in self.instants:
                due = (again * self.period + instant) * slower
                if due >= seconds:
                    return
                yield due


def read_replay(path: str) -> Replay:
    """Return when requests began, by the log of a server, or by lines of {"at": seconds}.

    Raises FileError.
    """
    began = sorted(at for record in read_records(path) if (at := _began(record)) is not None)
    if len(began) < 2 or began[-1] == began[0]:
        raise FileError(
            path,
            None,
            "has no two instants; lines are those of a server's log, whose calls of BatchJudge "
            'count, or {"at": SECONDS}',
        )
    span = began[-1] - began[0]
    return Replay([at - began[0] for at in began], span * len(began) / (len(began) - 1))


def _began(record: Record) -> float | None:
    if (record.get("part"), record.get("method")) != ("call", METHOD):
        return record.optional_number("at")
    try:
        ended = datetime.fromisoformat(record.text("timestamp"))
    except ValueError:
        raise record.error("has a 'timestamp' that is no time") from None
    return ended.timestamp() - (record.optional_number("ms") or 0.0) / 1e3
