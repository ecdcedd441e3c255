"""Base classes of judges and of their kinds, slices of groups, and calibrated judges."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from judged.errors import InvalidArgument
from judged.values.calibrators import Calibrator
from judged.values.choices import CacheMode, Status
from judged.values.groups import VerdictDetail
from judged.values.judges import JudgeIdentity
from numpy.typing import NDArray

from judged_server.domain import (
    ByteArray,
    CostTracker,
    FloatArray,
    Group,
    JudgeSpec,
    Parameter,
    ParameterScalar,
    ScoreColumns,
    VerdictFault,
)
from judged_server.errors import InvalidField
from judged_server.llm.question import PlannedCall
from judged_server.scheduling.concurrency import IN_PYTHON, INLINE_BYTES, ITEM_BYTES
from judged_server.scheduling.fairness import checkpoint
from judged_server.settings import SettingsError
from judged_server.statistics.calibration.reliability import Platt

CONTEXT_COST = 40
"""The cost of one context in addition to its texts, in characters of text."""
SLICE_COST = 400_000
"""The most cost in a slice, in characters of text: 5 to 9 ms of a lexical judge, as measured;
larger slices do not fit a core's cache."""


def group_cost(group: Group) -> int:
    """Return the cost of judging a group, in characters of text."""
    if not group.cost:
        texts = sum(map(len, group.expected)) + sum(map(len, group.retrieved)) + len(group.query)
        group.cost = texts + CONTEXT_COST * (1 + group.n_contexts)
    return group.cost


def size_of(groups: Sequence[Group]) -> int:
    """Return the size of groups for `run_by_size`; for many groups it only counts them."""
    size = ITEM_BYTES * len(groups)
    return size if size >= INLINE_BYTES else sum(map(group_cost, groups))


def cut_slices(groups: Sequence[Group], limit: int = SLICE_COST) -> Iterator[list[Group]]:
    """Yield the groups in order, in lists of at most `limit` cost.

    A group above the limit is cut along `retrieved`; a single retrieved text is never cut.
    """
    pending: list[Group] = []
    pending_cost = 0
    for group in groups:
        for part in _cut_group(group, limit):
            cost = group_cost(part)
            if pending and pending_cost + cost > limit:
                yield pending
                pending, pending_cost = [], 0
            pending.append(part)
            pending_cost += cost
    if pending:
        yield pending


def _cut_group(group: Group, limit: int) -> Iterator[Group]:
    """Yield a group, halved along `retrieved` until each part is within the limit."""
    n_retrieved = group.n_retrieved
    if n_retrieved <= 1 or group_cost(group) <= limit:
        yield group
        return
    middle = n_retrieved // 2
    for ranks in (range(middle), range(middle, n_retrieved)):
        yield from _cut_group(group.at_ranks(ranks), limit)


def join_columns(parts: Sequence[ScoreColumns]) -> ScoreColumns:
    """Return the joined columns of consecutive slices or groups; usage is not joined."""
    if not parts:
        return ScoreColumns(np.zeros(0))
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {
        each.name: _joined(parts, each.name) for each in fields(ScoreColumns)
    }
    faults: list[VerdictFault] = []
    details: dict[int, VerdictDetail] = {}
    begin = 0
    for part in parts:
        faults += [replace(fault, index=begin + fault.index) for fault in part.faults]
        details |= {begin + index: detail for index, detail in part.details.items()}
        begin += len(part.scores)
    return ScoreColumns(**columns | {"faults": tuple(faults), "details": details})


def _joined(parts: Sequence[ScoreColumns], name: str) -> NDArray[Any] | None:
    """Return a column of all parts; None if no part has it, or if it is not an array."""
    if not any(isinstance(getattr(part, name), np.ndarray) for part in parts):
        return None
    return np.concatenate([part.filled(name) for part in parts])


Missing = tuple[Status, VerdictFault]
"""The status of a missing verdict, and the reason."""


def with_missing(
    scores: FloatArray,
    missing: Mapping[int, Missing],
    flags: ByteArray | None = None,
    probabilities: FloatArray | None = None,
) -> ScoreColumns:
    """Return scores as columns, with score 0 and a fault at each index in `missing`."""
    if not missing:
        return ScoreColumns(scores, flags=flags, probabilities=probabilities)
    scores[list(missing)] = 0.0
    statuses = np.full(len(scores), Status.OK, np.uint8)
    statuses[list(missing)] = [status for status, _ in missing.values()]
    faults = [replace(fault, index=index) for index, (_, fault) in sorted(missing.items())]
    return ScoreColumns(scores, statuses, flags, tuple(faults), probabilities=probabilities)


@dataclass(frozen=True, slots=True)
class Profile:
    """A named variant of a judge with its own defaults."""

    name: str
    description: str
    min_score: float
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Caller:
    """What a judge needs to know about its caller.

    `deadline` is when the caller stops waiting, on the event loop's clock; None for never. With
    `wants_details` each verdict gets a VerdictDetail. `cache` is how the verdict cache is used.
    `cost_tracker` enforces the limit on the cost of models; copies by `replace` share it.
    """

    deadline: float | None = None
    wants_details: bool = False
    cache: CacheMode = CacheMode.USE
    cost_tracker: CostTracker = field(default_factory=CostTracker, compare=False)


ANONYMOUS = Caller()
"""Caller for judges that ask no model."""


Wants = Literal["texts", "embeddings", "spans"]
"""What groups must bring for a judge: texts, the caller's vectors or spans."""


class Judge(ABC):
    """A judge with all parameters set; the defaults here suit judges that ask no model.

    identity        identifies the judge; includes everything that can change a score.
    wants           what groups must bring; anything else is refused.
    needs_expected  whether it compares with an expected text; otherwise it judges a result alone.
    priced          whether the prices of all models that it may ask are known.
    unavailable     why it can't judge on this server; "" if it can.
    """

    identity: JudgeIdentity
    wants: Wants = "texts"
    needs_expected = True
    priced = True
    unavailable = ""

    def check_api_keys(self, cache: CacheMode) -> None:  # noqa: B027 - most need none
        """Raise ModelNotConfigured if it may have to ask a model whose key is missing."""

    def planned_calls(self, groups: Sequence[Group]) -> Iterable[PlannedCall]:  # noqa: ARG002
        """Return the model calls that `judge` would make for the groups without a cache."""
        return ()

    @abstractmethod
    async def judge(self, groups: Sequence[Group], caller: Caller) -> ScoreColumns:
        """Return one score for each context of the groups, in order.

        A judge that asks language models returns by the caller's deadline: a call that fails or is
        late is a fault of its context only. Cancelling it ends the calls in flight.
        """


class PureJudge(Judge):
    """A judge that is a pure function of the groups.

    slice_cost  the most that it judges without a break, in units of `group_cost`: about 10 ms.
    """

    slice_cost = SLICE_COST

    @abstractmethod
    def score(self, groups: Sequence[Group]) -> ScoreColumns:
        """Return one score for each context. Runs on any thread; keeps no state between calls."""

    async def judge(
        self,
        groups: Sequence[Group],
        caller: Caller = ANONYMOUS,
    ) -> ScoreColumns:
        """Return the scores of all groups: small input inline, larger on a thread, in slices.

        A cancel takes effect after the current slice. Raises Overloaded, and DeadlineTooShort if
        the work can't be done by the caller's deadline.
        """
        scale = SLICE_COST / self.slice_cost
        size = size_of(groups)
        if size * scale < INLINE_BYTES:
            return self.score(groups)
        cost = int(sum(map(group_cost, groups)) * scale)
        return await IN_PYTHON.run(partial(self._score_slices, groups), cost, caller.deadline)

    def _score_slices(self, groups: Sequence[Group]) -> ScoreColumns:
        parts = []
        for part in cut_slices(groups, self.slice_cost):
            checkpoint()
            parts.append(self.score(part))
        return join_columns(parts)


class ComposedJudge(Judge):
    """A judge that is made of others, and makes their model calls."""

    def __init__(self, judges: Sequence[Judge]) -> None:
        self.judges = tuple(judges)
        self.wants = judges[0].wants
        self.needs_expected = any(judge.needs_expected for judge in judges)
        self.priced = all(judge.priced for judge in judges)
        self.unavailable = next((judge.unavailable for judge in judges if judge.unavailable), "")
        self.fingerprints = [judge.identity.fingerprint for judge in judges]
        self.names = [f"{judge.identity.kind}/{judge.identity.fingerprint[:8]}" for judge in judges]

    def check_api_keys(self, cache: CacheMode) -> None:
        """Raise ModelNotConfigured if one may have to ask a model whose key is missing."""
        for judge in self.judges:
            judge.check_api_keys(cache)

    def planned_calls(self, groups: Sequence[Group]) -> Iterable[PlannedCall]:
        """Yield the planned calls of all its judges."""
        for judge in self.judges:
            yield from judge.planned_calls(groups)


class Kind(ABC):
    """A kind of judge, as requests name it.

    kind            the name in requests.
    profiles        the default first. A kind without variants has one, named "".
    for_embeddings  the parameters that make a judge take the caller's vectors; None if none do.
    asks_models     whether its judges may ask language models, and so take long and cost money.
    """

    kind: str
    profiles: tuple[Profile, ...]
    for_embeddings: Mapping[str, ParameterScalar] | None = None
    asks_models = False


class JudgeKind(Kind):
    """Builds judges of one kind."""

    @abstractmethod
    def build(self, spec: JudgeSpec) -> Judge:
        """Return the judge for a spec with checked parameters and all defaults filled in.

        Raises `errors.ModelNotInstalled` or `errors.ModelNotConfigured` if it can't run here.
        """


class ComposedKind(Kind):
    """Builds judges that are made of `least` to `most` others, which requests name.

    All of them want the same: `wants`, or if it is None what the first one wants.
    """

    asks_models = True
    least: int
    most: int
    wants: Wants | None = None

    @abstractmethod
    def compose(self, spec: JudgeSpec, judges: Sequence[Judge], field: str) -> Judge:
        """Return the judge for a spec with these members; `field` is the spec's path.

        Raises InvalidField.
        """


AnyKind = JudgeKind | ComposedKind


def find_calibrator(
    wanted: Calibrator | str, known: Mapping[str, Calibrator], field: str
) -> Calibrator:
    """Return the calibration that a request contains or names. Raises InvalidField."""
    if not isinstance(wanted, str):
        return wanted
    found = known.get(wanted)
    if found is None:
        names = ", ".join(known) or "none; its operator sets calibrations_dir"
        rule = f"no calibration is called {wanted[:80]!r}; this server has {names}"
        raise InvalidField(f"{field}.name", rule)
    return found


def check_fits(calibrator: Calibrator, identity: JudgeIdentity, field: str) -> None:
    """Raise InvalidField for a calibration of another judge."""
    if calibrator.scoring_key != identity.scoring_key:
        rule = (
            f"was made for another judge than {identity.signature}, or for another version of it; "
            "ask for the judge and parameters that it was made with, or calibrate this one"
        )
        raise InvalidField(field, rule)


class CalibratedJudge(ComposedJudge):
    """Adds the probabilities of a calibration to the verdicts of another judge."""

    def __init__(self, inner: Judge, calibrator: Calibrator, field: str) -> None:
        """Raise InvalidField, at `field` of the request, for a calibration of another judge."""
        check_fits(calibrator, inner.identity, field)
        super().__init__([inner])
        self.inner = inner
        self.calibrator = calibrator
        self.identity = inner.identity.calibrated(calibrator)

    async def judge(self, groups: Sequence[Group], caller: Caller) -> ScoreColumns:
        """Return the other judge's scores, with probabilities; 0 where there is no score."""
        columns = await self.inner.judge(groups, caller)
        platt = Platt(self.calibrator.slope, self.calibrator.intercept)
        probabilities = np.where(columns.ok, platt.probabilities(columns.scores), 0.0)
        return replace(columns, probabilities=probabilities)


SUFFIX = ".calibration.json"


def load_calibrations(folder: Path) -> Mapping[str, Calibrator]:
    """Return the calibrations in files NAME.calibration.json by name. Raises SettingsError."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise SettingsError(
            f"calibrations_dir: {folder} has no file NAME{SUFFIX}; make one with "
            f"`judged calibrate LABELS.jsonl --judge KIND -o NAME{SUFFIX}`"
        )
    try:
        return {path.name.removesuffix(SUFFIX): Calibrator.load(path) for path in paths}
    except (OSError, InvalidArgument) as error:
        raise SettingsError(f"calibrations_dir: {error}") from None
