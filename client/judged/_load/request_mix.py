"""Makes the requests of a load from a mix, and their due times.

Each request has new texts, except for a share of requests that repeat an earlier one of their kind
word for word.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import accumulate, count, takewhile
from typing import NamedTuple

from judged._files import FileError, Record, read_records
from judged._load.open_loop import METHOD, Request
from judged.errors import InvalidArgument
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb

_ITEM = re.compile(r"([a-z_]+(?:/[a-z_]+)?):(\d+)x(\d+)(?:x(\d+))?(?:@(\d+))?(?:=(\d+(?:\.\d+)?))?")
_GROUPS, _WORDS, _WEIGHT = 1, 60, 1
_MOST_WORDS = 40_000
"""A text has up to half as many words more, of the 65,000 that there are."""
_KEPT = 1_000


class RequestKind(NamedTuple):
    """One kind of request: its judge (KIND or KIND/PROFILE), its shape, its share of the mix.

    `label` is the notation without the share.
    """

    label: str
    judge: str
    expected: int
    retrieved: int
    groups: int
    words: int
    weight: float

    @property
    def contexts(self) -> int:
        """How many verdicts a request asks for."""
        return self.expected * self.retrieved * self.groups


def parse_mix(text: str) -> list[RequestKind]:
    """Return the kinds of a mix. Raises InvalidArgument, which names the invalid part."""
    kinds = []
    for part in text.split(","):
        found = _ITEM.fullmatch(part.strip())
        if found is None:
            raise InvalidArgument.of_field(
                "mix",
                f"{part!r} is not KIND[/PROFILE]:EXPECTEDxRETRIEVED[xGROUPS][@WORDS][=WEIGHT], "
                "such as semantic:1x10=3",
            )
        judge, expected, retrieved, groups, words, weight = found.groups()
        kind = RequestKind(
            found[0].partition("=")[0],
            judge,
            int(expected),
            int(retrieved),
            int(groups or _GROUPS),
            int(words or _WORDS),
            float(weight or _WEIGHT),
        )
        if 0 in kind or kind.words > _MOST_WORDS:
            rule = f"numbers must be above 0, and WORDS at most {_MOST_WORDS}"
            raise InvalidArgument.of_field("mix", f"{part!r}: {rule}")
        kinds.append(kind)
    return kinds


def requests(
    mix: list[RequestKind], seed: int, repeat: float = 0.0, words: Sequence[str] | None = None
) -> Iterator[Request]:
    """Yield requests of a mix without end; the same seed gives the same requests.

    The share `repeat` repeats an earlier request word for word. Texts are windows of `words`, by
    default the words of Python's reference.
    """
    rng = random.Random(seed)
    words = words or _words()
    weights = [kind.weight for kind in mix]
    made: dict[str, list[Request]] = {kind.label: [] for kind in mix}
    while True:
        (kind,) = rng.choices(mix, weights)
        earlier = made[kind.label]
        if earlier and rng.random() < repeat:
            yield rng.choice(earlier)
            continue
        request = _request(kind, rng, words)
        if len(earlier) < _KEPT:
            earlier.append(request)
        yield request


def _request(kind: RequestKind, rng: random.Random, words: Sequence[str]) -> Request:
    def text(size: int) -> str:
        length = max(1, round(size * rng.uniform(0.5, 1.5)))
        start = rng.randrange(len(words) - length)
        # The number makes the text unique even if two windows coincide.
        return f"{' '.join(words[start : start + length])} {rng.randrange(10**9)}"

    judge, _, profile = kind.judge.partition("/")
    message = pb.BatchJudgeRequest(judge=groups_pb2.JudgeSpec(kind=judge, profile=profile))
    for _ in range(kind.groups):
        texts = [text(kind.words) for _ in range(kind.expected + kind.retrieved)]
        message.groups.add(
            query=text(8), expected=texts[: kind.expected], retrieved=texts[kind.expected :]
        )
    return Request(kind.label, message.SerializeToString(), kind.contexts)


@cache
def _words() -> list[str]:
    """Return the words of Python's reference, in order and with punctuation."""
    import pydoc_data.topics  # noqa: PLC0415 - large, and only needed for a load

    return " ".join(text for _, text in sorted(pydoc_data.topics.topics.items())).split()


def arrivals(rate: float, seconds: float, *, poisson: bool, seed: int) -> Iterator[float]:
    """Return the due times of requests, in seconds from the start."""
    rng = random.Random(seed)
    gaps = (rng.expovariate(rate) if poisson else 1 / rate for _ in count())
    return takewhile(lambda due: due < seconds, accumulate(gaps))


@dataclass(frozen=True, slots=True)
class Replay:
    """Recorded start times of requests, in seconds from the first, repeated every `period`."""

    instants: Sequence[float]
    period: float

    @property
    def rate(self) -> float:
        """Recorded requests a second."""
        return len(self.instants) / self.period

    def arrivals(self, rate: float, seconds: float) -> Iterator[float]:
        """Return the recorded times as due times, scaled to a rate."""
        rounds = (again * self.period + at for again in count() for at in self.instants)
        scale = self.rate / rate
        return takewhile(lambda due: due < seconds, (at * scale for at in rounds))


def read_replay(path: str) -> Replay:
    """Return the start times of calls in a server's log, or in lines of {"at": seconds}.

    Raises FileError.
    """
    began = sorted(at for record in read_records(path) if (at := _began(record)) is not None)
    if len(began) < 2 or began[-1] == began[0]:
        raise FileError(
            path,
            None,
            "has fewer than two times; lines are those of a server's log, whose calls of "
            'BatchJudge count, or {"at": SECONDS}',
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
