"""What calls do, for whoever watches: spans, events of verdicts, and figures that are counted.

`active` is None unless somebody does (`monitoring.opentelemetry`), and those who work then do
nothing more than look at it. They say what they did once it is done; who asked for it is known by
the task that they are in.

`active` is None unless somebody asked for them at the start, and nothing is done then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from judged.values.judges import JudgeIdentity
from judged.values.scores import AnswerScore

from judged_server.domain import QueryGroup, Verdicts


@dataclass(frozen=True, slots=True)
class StageRun:
    """A step that worked for a call: it ended at `ended_ns` since 1970, after so many seconds."""

    stage: Stage
    ended_ns: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A question to a language model, and what came of it; `error` is its reason, "" for none.

    `model` and `provider` are the operator's names, `requested` and `answered` the provider's.
    """

    model: str
    provider: str
    dialect: str
    requested: str
    rubric: str
    max_tokens: int
    temperature: float | None
    seconds: float
    attempts: int
    error: str = ""
    answered: str = ""
    input_tokens: int = 0
    output_tokens: int = 0


EndCall = Callable[[str, str, str, str], None]
"""Ends the span of a call with its gRPC status, the reason of the contract ("" for none), its
request id and its tenant."""


class Tracer(Protocol):
    """Hears what calls did. It must be quick, and raise nothing."""

    wants_results: bool
    """Whether verdicts and scores are to be told."""

    def call(self, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> EndCall:
        """Begin a call; the rest of its task, and all that this starts, belongs to it."""
        ...

    def stages(self, runs: Sequence[StageRun]) -> None:
        """Tell what was done for the call in work; runs of one stage are one span."""
        ...

    def question(self, call: ModelCall) -> None:
        """Tell of a question that has just ended."""
        ...

    def verdicts(
        self, judge: JudgeIdentity, groups: Sequence[QueryGroup], verdicts: Verdicts
    ) -> None:
        """Tell every verdict of some groups. Takes some 20 µs for each; may run on any thread."""
        ...

    def score(self, score: AnswerScore) -> None:
        """Tell one score of an answer."""
        ...


active: Tracer | None = None
"""Hears all, from when a server sets it."""


Stage = Literal["queue", "tokenize", "infer", "provider", "store"]
"""Where a call's time goes: waiting for an embedding model, reading texts, running the model,
waiting for a language model, reading stored replies."""


class Recorder(Protocol):
    """Hears what happens, on any thread. It must be quick, and raise nothing."""

    def note(self, figure: str, value: float, *labels: str) -> None:
        """Add to a counter, or to the distribution of a time."""
        ...


recorder: Recorder | None = None


def note(figure: str, value: float, *labels: str) -> None:
    """Add to a counter of FIGURES, or to the distribution of a time."""
    if recorder is not None:
        recorder.note(figure, value, *labels)


def note_lookups(cache: Literal["replies", "vectors"], hits: int, misses: int) -> None:
    """Note how often something was found in a cache, and how often not."""
    for result, times in (("hit", hits), ("miss", misses)):
        if times:
            note("cache_lookups", times, cache, result)
