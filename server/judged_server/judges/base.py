"""What a judge is: one Protocol for all kinds, and bases for those that ask no language model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from judged_server.domain import (
    CacheMode,
    JudgeIdentity,
    JudgeSpec,
    ParameterScalar,
    QueryGroup,
    ScoreColumns,
)
from judged_server.judges.slices import score_in_slices
from judged_server.llm.question import PlannedCall
from judged_server.spending import CostTracker


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


@dataclass(frozen=True, slots=True)
class Caller:
    """What a judge should know of whoever waits for it.

    `deadline` is when the caller stops waiting, on the event loop's clock; None: never. With
    `wants_details` it also asks how each verdict came about. `cache` is what the verdict cache is
    for, `max_cost` the most that models may cost, in the currency of their prices; None: no limit.
    `cost_tracker` keeps to that: callers made of one by `replace` spend from the same.
    """

    deadline: float | None = None
    wants_details: bool = False
    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None
    cost_tracker: CostTracker = field(default=None, compare=False)  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.cost_tracker is None:
            object.__setattr__(self, "cost_tracker", CostTracker(self.max_cost))


ANONYMOUS = Caller()
"""Whom judges serve that ask no models."""


class Judge(Protocol):
    """A judge with its parameters settled."""

    @property
    def identity(self) -> JudgeIdentity:
        """Which judge this is: all that can change a score is in it."""
        ...

    @property
    def wants_embeddings(self) -> bool:
        """Whether groups must bring the caller's vectors; otherwise they must not."""
        ...

    @property
    def wants_spans(self) -> bool:
        """Whether groups must bring spans; otherwise they must not."""
        ...

    @property
    def priced(self) -> bool:
        """Whether the prices of all models that it may ask are known; true where it asks none."""
        ...

    @property
    def unavailable(self) -> str:
        """Why it can't judge here now, "" when it can."""
        ...

    def check_api_keys(self, cache: CacheMode) -> None:
        """Raise ModelNotConfigured when it may have to ask a model whose key is missing."""
        ...

    def planned_calls(self, groups: Sequence[QueryGroup]) -> Iterable[PlannedCall]:
        """Return all that `judge` would ask language models about the groups, cache aside."""
        ...

    async def judge(self, groups: Sequence[QueryGroup], caller: Caller) -> ScoreColumns:
        """Return one score for each context of the groups, in order.

        A judge that asks language models does so in time for the caller: what failed, or could not
        be had in time, is the fault of its context only. Cancelling it ends what is under way.
        """
        ...


class LocalJudge:
    """The members of a judge that asks no language model."""

    wants_embeddings = False
    wants_spans = False
    priced = True
    unavailable = ""

    def check_api_keys(self, cache: CacheMode) -> None:
        """Return at once: no key is needed."""

    def planned_calls(self, groups: Sequence[QueryGroup]) -> Iterable[PlannedCall]:  # noqa: ARG002
        """Return nothing: no model is asked."""
        return ()


class PureJudge(LocalJudge, ABC):
    """A judge that is a pure function of what the groups bring."""

    identity: JudgeIdentity

    @abstractmethod
    def score(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return one score for each context. Runs on any thread; keeps no state between calls."""

    async def judge(
        self,
        groups: Sequence[QueryGroup],
        caller: Caller = ANONYMOUS,  # noqa: ARG002
    ) -> ScoreColumns:
        """Return the scores, computed in slices off the event loop where there are many."""
        return await score_in_slices(self.score, groups)


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

    @property
    def asks_models(self) -> bool:
        """Whether its judges may ask language models, and so take long and cost money."""
        ...

    def build(self, spec: JudgeSpec) -> Judge:
        """Return the judge.

        Raises `errors.ModelNotInstalled` or `errors.ModelNotConfigured` when it can't run here.
        """
        ...
