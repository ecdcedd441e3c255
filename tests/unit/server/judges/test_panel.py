from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import numpy as np
import pytest
from judged.values.judges import JudgeIdentity, PanelMember, Usage
from judged_server import errors
from judged_server.domain import Group, JudgeSpec, ScoreColumns
from judged_server.judges.base import Caller, Judge, Profile
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.lexical import ExactKind, SpanKind, TokenOverlapKind
from judged_server.judges.panel import Panel, PanelKind

GROUPS = [Group("1", "q", ["a b c"], ["a b c", "a b d"])]


def spec(*members: JudgeSpec | str, profile: str = "", weights: Sequence[float] = ()) -> JudgeSpec:
    judges = [JudgeSpec(member) if isinstance(member, str) else member for member in members]
    given = [*weights, *[None] * len(judges)]
    seats = tuple(PanelMember(judge, weight) for judge, weight in zip(judges, given, strict=False))
    return JudgeSpec("panel", profile, members=seats)


Judging = Callable[[str, Sequence[Group]], Awaitable[ScoreColumns]]


class StubJudge(Judge):
    """Judges as it is told to, under the name of a kind."""

    def __init__(self, kind: str, judging: Judging) -> None:
        self.identity = JudgeIdentity.build(kind, "", 0.5, [], 1)
        self._judging = judging

    async def judge(self, groups: Sequence[Group], caller: Caller) -> ScoreColumns:
        return await self._judging(self.identity.kind, groups)


class StubKind:
    profiles = (Profile("", "a stub", 0.5),)
    for_embeddings = None
    asks_models = False

    def __init__(self, kind: str, judging: Judging) -> None:
        self.kind = kind
        self._judging = judging

    def build(self, spec: JudgeSpec) -> StubJudge:
        return StubJudge(self.kind, self._judging)


def catalog_of(judging: Judging) -> JudgeCatalog:
    """A panel over stubs that are called as real judges are."""
    stubs = [StubKind(kind, judging) for kind in ("token_overlap", "exact")]
    return JudgeCatalog([*stubs, PanelKind()], "token_overlap")


@pytest.fixture
def catalog() -> JudgeCatalog:
    kinds = [TokenOverlapKind(), ExactKind(), SpanKind(), PanelKind()]
    return JudgeCatalog(kinds, "token_overlap")


def key(catalog: JudgeCatalog, asked: JudgeSpec) -> str:
    return catalog.choose(asked).identity.scoring_key


def test_all_that_can_change_a_verdict_changes_the_key(catalog: JudgeCatalog):
    strict = JudgeSpec("token_overlap", min_score=0.9)
    unicode = JudgeSpec("token_overlap", "unicode")
    keys = [
        key(catalog, spec("exact", "token_overlap")),
        key(catalog, spec("token_overlap", "exact")),
        key(catalog, spec("exact", strict)),
        key(catalog, spec("exact", unicode)),
        key(catalog, spec("exact", "token_overlap", unicode)),
        key(catalog, spec("exact", "token_overlap", profile="mean")),
        key(catalog, spec("exact", "token_overlap", profile="weighted")),
        key(catalog, spec("exact", "token_overlap", profile="weighted", weights=[2])),
    ]
    assert len(set(keys)) == len(keys)
    assert key(catalog, spec("exact", "")) == keys[0], "the default judge is what it stands for"


async def test_members_judge_at_the_same_time_and_their_usage_is_summed():
    both = asyncio.Barrier(2)

    async def meet(kind: str, groups: Sequence[Group]) -> ScoreColumns:
        async with asyncio.timeout(5):
            await both.wait()
        return ScoreColumns(np.ones(2), usage=Usage(calls=1, cost=0.25))

    panel = catalog_of(meet).choose(spec("exact", "token_overlap"))
    assert isinstance(panel, Panel)
    columns = await panel.judge(GROUPS, Caller())
    assert columns.usage == Usage(calls=2, cost=0.5)


async def test_a_member_that_can_not_judge_ends_the_others():
    begun, ended = asyncio.Event(), asyncio.Event()

    async def fail(kind: str, groups: Sequence[Group]) -> ScoreColumns:
        if kind == "exact":
            await begun.wait()
            raise errors.Overloaded("full", 1.0)
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        raise AssertionError

    panel = catalog_of(fail).choose(spec("exact", "token_overlap"))
    assert isinstance(panel, Panel)
    with pytest.raises(errors.Overloaded):
        await panel.judge(GROUPS, Caller())
    assert ended.is_set()
