"""Mixes of requests: how they are written down, and how their texts are made.

Texts are new in each request, but for a share of requests that repeat an earlier one of their kind
word for word.
"""

from __future__ import annotations

import argparse
import random
import re
from dataclasses import dataclass

from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb

from benchmarks.load.open_loop import Request
from tests.conformance.prose import words

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
    """Return the kinds of a mix. Raises argparse.ArgumentTypeError, naming the part that is off."""
    kinds = []
    for part in text.split(","):
        found = _ITEM.fullmatch(part.strip())
        if found is None:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not KIND:EXPECTEDxRETRIEVED[xGROUPS][@WORDS][=WEIGHT], such as "
                "semantic:1x10=3"
            )
        numbers = {
            name: int(found[name])
            for name in ("expected", "retrieved", "groups", "words")
            if found[name] is not None
        }
        weight = float(found["weight"] or 1)
        if not all(numbers.values()) or not weight:
            raise argparse.ArgumentTypeError(f"{part!r}: numbers must be above 0")
        kinds.append(RequestKind(found["kind"], weight=weight, **numbers))
    return kinds


class RequestMaker:
    """Makes requests of a mix, the same for a seed."""

    def __init__(self, mix: list[RequestKind], seed: int, repeat: float = 0.0) -> None:
        """Repeat that share of requests word for word."""
        self._mix = mix
        self._weights = [kind.weight for kind in mix]
        self._random = random.Random(seed)
        self._repeat = repeat
        self._made: dict[RequestKind, list[Request]] = {kind: [] for kind in mix}
        self._words = words()

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
