from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from judged.values.calibrators import Calibrator, ErrorGuarantee, stages_sha256
from judged.values.choices import Flag, Status
from judged.values.judges import JudgeIdentity, PanelMember, Usage
from judged_server.domain import (
    NANO,
    CostTracker,
    Group,
    JudgeSpec,
    ScoreColumns,
    VerdictFault,
    Verdicts,
)
from judged_server.errors import InvalidField
from judged_server.judges.base import Caller, Judge, Profile
from judged_server.judges.cascade import Cascade, CascadeKind
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.equivalence.judge import EquivalenceKind
from judged_server.judges.lexical import ExactKind, SpanKind, TokenOverlapKind
from judged_server.judges.panel import PanelKind

Scores = Callable[[Sequence[Group]], ScoreColumns]


class ModelJudge(Judge):
    """Stands for a judge that asks a model one context after the other, while the money lasts."""

    def __init__(self, score: Scores) -> None:
        self.identity = JudgeIdentity.build("model", "", 0.5, [], 1)
        self.asked: list[str] = []
        self._score = score

    def planned_calls(self, groups: Sequence[Group]) -> Iterable[object]:  # type: ignore[override]
        for group in groups:
            for _ in range(group.n_contexts):
                question = SimpleNamespace(fields=object(), rubric=None)
                yield SimpleNamespace(times=1, model=None, question=question)

    async def judge(self, groups: Sequence[Group], caller: Caller) -> ScoreColumns:
        tracker, unpaid = caller.cost_tracker, []
        texts = [text for group in groups for text in group.retrieved for _ in group.expected]
        for index, text in enumerate(texts):
            if tracker.limit is not None and tracker.spent + NANO // 2 > tracker.limit:
                unpaid.append(index)
                continue
            self.asked.append(text)
            tracker.spent += NANO // 4  # half of the estimate
        columns = self._score(groups)
        if not unpaid:
            return columns
        statuses = np.full(len(texts), Status.OK, np.uint8)
        statuses[unpaid] = Status.ERROR
        faults = tuple(VerdictFault(index, "BUDGET", "too little") for index in unpaid)
        return replace(columns, statuses=statuses, faults=faults)


class ModelKind:
    kind = "model"
    profiles = (Profile("", "a model", 0.5),)
    for_embeddings = None
    asks_models = True

    def __init__(self, score: Scores) -> None:
        self.judge = ModelJudge(score)

    def build(self, spec: JudgeSpec) -> ModelJudge:
        return self.judge


def yes(groups: Sequence[Group]) -> ScoreColumns:
    n = sum(group.n_contexts for group in groups)
    return ScoreColumns(
        np.ones(n), majorities=np.ones(n, np.bool_), usage=Usage(calls=n, cost=n * 0.5)
    )


def catalog_of(model: ModelKind) -> JudgeCatalog:
    lexical = [TokenOverlapKind(), ExactKind(), SpanKind(), EquivalenceKind()]
    return JudgeCatalog([*lexical, model, PanelKind(), CascadeKind()], "token_overlap")


KEY = catalog_of(ModelKind(yes)).choose(JudgeSpec("token_overlap")).identity.scoring_key
BOUNDS = Calibrator(KEY, 1.0, 0.0, accept=0.75, reject=0.25)
OVERLAP = JudgeSpec("token_overlap", calibration=BOUNDS)
MODEL = JudgeSpec("model")
# Scores of token_overlap: 1, 0.5, 0, and 0.75 with 0.25 as its other context.
GROUPS = [
    Group("1", "", ["a b c d"], ["a b c d", "d a", "x"]),
    Group("2", "", [], ["y"]),
    Group("3", "", ["d e f g", "p q r s"], ["g e d", "p x y z"]),
]


def cascade(*stages: JudgeSpec, unsettled: str = "abstain") -> JudgeSpec:
    members = tuple(PanelMember(stage) for stage in stages)
    return JudgeSpec("cascade", parameters={"unsettled": unsettled}, members=members)


def judge(
    spec: JudgeSpec,
    model: ModelKind,
    groups: Sequence[Group] = GROUPS,
    max_cost: float | None = None,
) -> Verdicts:
    chosen = catalog_of(model).choose(spec)
    assert isinstance(chosen, Cascade)
    columns = asyncio.run(chosen.judge(groups, Caller(cost_tracker=CostTracker(max_cost))))
    return Verdicts.decide(columns, [], chosen.identity.min_score)


def test_what_a_stage_is_sure_of_goes_no_further() -> None:
    model = ModelKind(yes)
    found = judge(cascade(OVERLAP, MODEL), model)
    assert model.judge.asked == ["d a"]
    assert found.columns.stages.tolist() == [1, 2, 1, 1, 1, 1, 1]
    assert found.relevant.tolist() == [True, True, False, True, False, False, False]
    usage = found.columns.usage
    assert replace(usage, cascade=None) == Usage(calls=1, cost=0.5)
    told = [(s.judge.split("|")[0], s.asked, s.settled, s.cost) for s in usage.cascade.stages]
    assert told == [("token_overlap", 5, 4, 0.0), ("model", 1, 1, 0.5)]
    assert found.columns.statuses is None


def test_an_item_goes_on_with_all_its_expected_texts() -> None:
    narrow = replace(OVERLAP, calibration=replace(BOUNDS, accept=0.9))
    model = ModelKind(yes)
    found = judge(cascade(narrow, MODEL), model)
    assert model.judge.asked == ["d a", "g e d", "g e d"]
    assert found.columns.stages.tolist() == [1, 2, 1, 2, 2, 1, 1]


def test_what_a_stage_did_not_read_goes_on() -> None:
    """It is no doubt that a stage has of letters that it drops: it knows nothing of them."""
    groups = [
        Group("1", "", ["北京"], ["天津", "x y"]),
        Group("2", "", ["Deploy status: ✅"], ["Deploy status: ❌", "Deploy now"]),
    ]
    model = ModelKind(yes)
    found = judge(cascade(OVERLAP, MODEL), model, groups)
    assert model.judge.asked == ["天津", "x y", "Deploy status: ❌", "Deploy now"]
    assert found.columns.flags is None  # the model has read them
    alone = judge(cascade(OVERLAP), model, groups)
    assert alone.columns.flags.tolist() == [1, 1, 64, 64]


def test_what_no_stage_settles_abstains_or_is_flagged() -> None:
    found = judge(cascade(OVERLAP), ModelKind(yes))
    assert found.columns.statuses.tolist()[1] == Status.ABSTAINED
    assert [(f.index, f.reason) for f in found.columns.faults] == [(1, "UNSETTLED")]
    assert not found.relevant[1]
    flagged = judge(cascade(OVERLAP, unsettled="earlier"), ModelKind(yes))
    assert flagged.columns.statuses is None
    assert flagged.columns.flags.tolist()[:3] == [0, Flag.UNSETTLED, 0]
    assert flagged.columns.faults == ()
    assert flagged.columns.probabilities[1] == 0.5
    assert flagged.relevant[1]


def test_money_that_ends_leaves_no_verdict_or_that_of_the_stage_before() -> None:
    def broke(groups: Sequence[Group]) -> ScoreColumns:
        n = sum(group.n_contexts for group in groups)
        faults = tuple(VerdictFault(i, "BUDGET", "too little") for i in range(n))
        return ScoreColumns(np.zeros(n), np.full(n, Status.ERROR, np.uint8), faults=faults)

    found = judge(cascade(OVERLAP, MODEL), ModelKind(broke))
    assert found.columns.statuses.tolist()[1] == Status.ABSTAINED
    assert [(f.index, f.reason) for f in found.columns.faults] == [(1, "BUDGET")]
    kept = judge(cascade(OVERLAP, MODEL, unsettled="earlier"), ModelKind(broke))
    assert kept.columns.statuses is None
    assert kept.columns.flags[1] == Flag.UNSETTLED
    assert kept.columns.stages[1] == 1
    alone = judge(cascade(MODEL, unsettled="earlier"), ModelKind(broke))
    assert set(alone.columns.statuses.tolist()) == {Status.ERROR}


DOUBTS = [Group("4", "", ["a b c d e f g h"], ["a b c d x", "a b x", "a b c x"])]
"""Scores of token_overlap: 4, 2 and 3 of 8 words."""
WIDE = replace(OVERLAP, calibration=replace(BOUNDS, accept=1.0, reject=0.0))


def test_a_limit_on_money_asks_about_what_is_most_in_doubt() -> None:
    model = ModelKind(yes)
    found = judge(cascade(WIDE, MODEL), model, DOUBTS, max_cost=0.5)
    assert model.judge.asked == ["a b c d x"]
    assert found.columns.statuses.tolist() == [Status.OK, Status.ABSTAINED, Status.ABSTAINED]
    assert [fault.reason for fault in found.columns.faults] == ["BUDGET", "BUDGET"]
    kept = judge(cascade(WIDE, MODEL, unsettled="earlier"), ModelKind(yes), DOUBTS, max_cost=0.5)
    assert kept.columns.flags.tolist() == [0, Flag.UNSETTLED, Flag.UNSETTLED]


def test_what_replies_leave_of_the_money_is_spent_too() -> None:
    model = ModelKind(yes)
    found = judge(cascade(WIDE, MODEL), model, DOUBTS, max_cost=0.75)
    assert model.judge.asked == ["a b c d x", "a b c x"]
    usage = found.columns.usage
    assert [(stage.asked, stage.settled) for stage in usage.cascade.stages] == [(3, 0), (2, 2)]


def test_a_cascade_is_estimated() -> None:
    chosen = catalog_of(ModelKind(yes)).choose(cascade(WIDE, MODEL))
    assert isinstance(chosen, Cascade)
    whole = chosen.estimate([*GROUPS, *DOUBTS])
    assert [(stage.asked, stage.settled) for stage in whole.stages] == [(8, 3), (5, 0)]


def test_a_guarantee_is_of_these_stages_and_comes_back() -> None:
    catalog = catalog_of(ModelKind(yes))
    keys = [catalog.choose(spec).identity.scoring_key for spec in (OVERLAP, MODEL)]
    of = stages_sha256([(keys[0], BOUNDS), (keys[1], None)])
    promised = ErrorGuarantee(0.1, 0.9, 300, 20, 60, 120.0, of)
    found = judge(replace(cascade(OVERLAP, MODEL), guarantee=promised), ModelKind(yes))
    assert found.columns.usage.cascade.guarantee == promised
    for spec in (cascade(WIDE, MODEL), MODEL):
        with pytest.raises(InvalidField) as caught:
            catalog.choose(replace(spec, guarantee=promised))
        assert caught.value.field.startswith("judge.guarantee")


def test_an_abstaining_stage_hands_on() -> None:
    catalog = catalog_of(ModelKind(yes))
    key = catalog.choose(JudgeSpec("answer_equivalence")).identity.scoring_key
    sure = JudgeSpec(
        "answer_equivalence", calibration=Calibrator(key, 1.0, 0.0, accept=0.5, reject=0.5)
    )
    model = ModelKind(yes)
    groups = [Group("q", "who", ["Ann"], ["Ann", "Анна", "Bob"])]
    found = judge(cascade(sure, MODEL), model, groups)
    assert model.judge.asked == ["Анна"]
    assert found.relevant.tolist() == [True, True, False]
    assert found.columns.stages.tolist() == [1, 2, 1]
    assert found.columns.faults == ()


def test_a_missing_verdict_is_no_rejection() -> None:
    def half(groups: Sequence[Group]) -> ScoreColumns:
        return ScoreColumns(np.zeros(2), np.array([Status.OK, Status.ABSTAINED], np.uint8))

    model = ModelKind(half)
    bounds = replace(BOUNDS, scoring_key=model.judge.identity.scoring_key)
    spec = cascade(replace(MODEL, calibration=bounds), JudgeSpec("token_overlap", min_score=0.5))
    found = judge(spec, model, [Group("q", "", ["x y", "a b"], ["a b"])])
    assert (found.relevant.tolist(), found.columns.stages.tolist()) == ([False, True], [2, 2])


def test_a_stage_that_accepts_below_its_threshold_is_refused() -> None:
    low = replace(OVERLAP, calibration=replace(BOUNDS, accept=0.4))
    with pytest.raises(InvalidField, match="other side") as refused:
        catalog_of(ModelKind(yes)).choose(cascade(low, MODEL))
    assert refused.value.field == "judge.members[0].judge.calibration.calibrator.accept"
