"""The Protocols between layers: what the engine asks of a judge and a judge of an embedder.

Owns the shapes of collaboration only; implementations live in the layers and are put together
in `app`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from judged_server.domain import (
    ByteArray,
    CacheMode,
    Float32Array,
    JudgeIdentity,
    JudgeSpec,
    ParameterScalar,
    QueryGroup,
    ScoreColumns,
)
from judged_server.spending import Purse


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a judge: its default gives the type, the other fields the rule."""

    name: str
    default: ParameterScalar
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rule in words, for error messages and GetServerInfo."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        kind = {int: "a whole number", float: "a number", str: "a name"}[type(self.default)]
        if self.minimum is not None and self.maximum is not None:
            return f"{kind} from {self.minimum:.15g} to {self.maximum:.15g}"
        if self.minimum is not None:
            return f"{kind}, at least {self.minimum:g}"
        return kind


@dataclass(frozen=True, slots=True)
class Profile:
    """A named variant of a judge with its own defaults."""

    name: str
    description: str
    min_score: float
    parameters: tuple[Parameter, ...] = ()


class Judge(Protocol):
    """A judge with its parameters settled."""

    @property
    def identity(self) -> JudgeIdentity:
        """Which judge this is."""
        ...

    @property
    def wants_embeddings(self) -> bool:
        """Whether groups must bring the caller's vectors; otherwise they must not."""
        ...

    @property
    def wants_spans(self) -> bool:
        """Whether groups must bring spans; otherwise they must not."""
        ...


class LexicalJudge(Judge, Protocol):
    """A judge that is a pure function of the texts; the engine calls it in short slices."""

    def score(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return one score for each context. Runs on any thread; keeps no state between calls."""
        ...


class AsyncJudge(Judge, Protocol):
    """A judge that waits for something: a model, a provider."""

    async def score_async(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return one score for each context. Cancelling it drops the work that has not begun."""
        ...


@dataclass(frozen=True, slots=True)
class Caller:
    """What a judge should know of whoever waits for it.

    `leaves_at` is when the caller stops waiting, on the event loop's clock; None: never. With
    `wants_details` it also asks how each verdict came about. `cache` is what the verdict cache is
    for, `max_cost` the most that models may cost, in the currency of their prices; None: no limit.
    `purse` keeps to that: callers made of one by `replace` spend from the same.
    """

    leaves_at: float | None = None
    wants_details: bool = False
    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None
    purse: Purse = field(default=None, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.purse is None:
            object.__setattr__(self, "purse", Purse(self.max_cost))


class AskingJudge(Judge, Protocol):
    """A judge that asks others: it may take long, cost money, and fail for some of the contexts."""

    async def ask(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return one score for each context, in time for the caller.

        What failed, or could not be had in time, is the fault of its context only. Cancelling it
        ends what is under way.
        """
        ...


class JudgeKind(Protocol):
    """A kind of judge: says what may be asked of it and builds judges.

    `build` receives a spec whose profile and parameters have been checked against `profiles`
    and filled with their defaults.
    """

    @property
    def kind(self) -> str:
        """The name requests use."""
        ...

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles, the default first. A judge without variants has one, named ""."""
        ...

    @property
    def for_embeddings(self) -> Mapping[str, ParameterScalar] | None:
        """The parameters of a judge that wants the caller's vectors; None when there is none."""
        ...

    def build(self, spec: JudgeSpec) -> LexicalJudge | AsyncJudge | AskingJudge:
        """Return the judge.

        Raises `errors.ModelNotInstalled` or `errors.ModelNotConfigured` when it can't run here.
        """
        ...


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What an embedding model is: all of it enters the scoring key of a semantic judge.

    `prefix` is set before every text, as some models were trained.
    """

    name: str
    dimensions: int
    max_tokens: int
    model_sha256: str
    tokenizer_sha256: str
    pooling: str
    normalize: bool
    precision: str
    execution_provider: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of distinct texts.

    `vectors` is float32 (rows, dimensions), unit length or zero. Text i owns the rows
    `row_offsets[i]:row_offsets[i + 1]`: one, or one a window. `flags` is uint8 of Flag, one a
    text. `faults` maps a text's index to (reason, message) when it has no vector.
    """

    vectors: Float32Array
    row_offsets: Sequence[int]
    flags: ByteArray
    faults: Mapping[int, tuple[str, str]]


class Embedder(Protocol):
    """An embedding model that is loaded and ready."""

    @property
    def card(self) -> ModelCard:
        """Which model this is."""
        ...

    async def embed(self, texts: Sequence[str], long_text: str) -> Embedded:
        """Return the vectors of distinct texts; `long_text` is truncate, reject or window_max.

        A text's vectors are those of any other call, whatever runs beside it. Cancelling drops what
        has not begun and nobody else waits for. Raises `errors.Overloaded`.
        """
        ...


class Embedders(Protocol):
    """The embedding models of this server."""

    def get(self, name: str) -> Embedder:
        """Return a model by name, "" for the default. Raises `errors.ModelNotInstalled`."""
        ...

    def cards(self) -> tuple[ModelCard, ...]:
        """Return the models on offer, the default first; some may load on their first use."""
        ...
