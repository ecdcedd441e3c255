"""An evaluation in parts has the numbers of one whose groups come all at once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.domain import Group, JudgeSpec, Sides, VerdictFault
from judged_server.errors import ModelDamaged
from judged_server.judges.base import Caller, Judge, Profile
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.lexical import ExactKind, SpanKind
from judged_server.judges.semantic import SemanticKind
from judged_server.metrics.compute import SettledOptions
from judged_server.metrics.measures import parse_metrics
from judged_server.usecases.evaluate import PartedEvaluation

METRICS = ["mrr", "precision@2", "ndcg@10", "recall_exact", "f1"]
TEXTS = st.lists(st.sampled_from("abcde"), max_size=5)


class BrokenKind:
    """A judge that can't judge the text "broken"."""

    kind = "broken"
    profiles = (Profile("", "", 0.5),)
    for_embeddings = None
    asks_models = False

    def build(self, spec):
        return BrokenJudge()


class BrokenJudge(Judge):
    """Fails for some texts, and is the judge `exact` for all others."""

    identity = ExactKind().build(JudgeSpec("exact", "verbatim", 0.5)).identity

    async def judge(self, groups, caller):
        if any("broken" in group.retrieved for group in groups):
            raise ModelDamaged("model.onnx", "is cut", "install it again")
        return await ExactKind().build(JudgeSpec("exact", "verbatim", 0.5)).judge(groups, caller)


CATALOG = JudgeCatalog([ExactKind(), SpanKind(), BrokenKind()], "exact")


def parted(kind="", metrics=METRICS, **options):
    keep_verdicts = options.pop("keep_verdicts", True)
    measures, how = parse_metrics(metrics), SettledOptions(**options)
    return PartedEvaluation(
        CATALOG, JudgeSpec(kind), measures, how, Caller(), keep_verdicts=keep_verdicts
    )


def fault_of(error):
    return error, VerdictFault(0, error.reason, error.message)


async def measured(run, parts, **how):
    """Judge the parts in reverse order: only the order in which they came matters."""
    received = [await run.receive(groups, continues=more) for groups, more in parts]
    judged = [await run.judge(part, **how) for part in reversed(received)]
    return await run.measure(), judged[::-1]


@st.composite
def groups(draw):
    found = []
    for number in range(draw(st.integers(1, 6))):
        retrieved = draw(TEXTS)
        ids = draw(
            st.lists(st.sampled_from("xyX"), min_size=len(retrieved), max_size=len(retrieved))
        )
        more = {"document_ids": ids} if draw(st.booleans()) else {}
        if more and draw(st.booleans()):
            more["relevant_document_ids"] = ["x"]
        expected = [] if "relevant_document_ids" in more else draw(TEXTS)
        negatives = draw(st.sampled_from([[], ["a"]]))
        slices = {"topic": draw(st.sampled_from("uv"))}
        found.append(
            Group(
                str(number), "", expected, retrieved, negatives=negatives, metadata=slices, **more
            )
        )
    return found


def cut_at(group, place):
    """Return the two parts of a group, cut at a rank."""
    ranks = range(group.n_retrieved)
    return group.at_ranks(ranks[:place]), group.at_ranks(ranks[place:])


@given(groups(), st.data())
async def test_parts_are_measured_as_the_whole(whole, data):
    options = SettledOptions(slice_by=("topic",))
    at_once = PartedEvaluation(
        CATALOG, JudgeSpec(), parse_metrics(METRICS), options, keep_verdicts=False
    )
    once, judged = await at_once.whole(whole)
    parts = []
    for group in whole:
        if data.draw(st.booleans()):
            first, second = cut_at(group, data.draw(st.integers(0, group.n_retrieved)))
            parts += [([first], False), ([second], True)]
        elif parts and data.draw(st.booleans()):
            parts[-1] = ([*parts[-1][0], group], parts[-1][1])
        else:
            parts.append(([group], False))
    run = parted(slice_by=("topic",), keep_verdicts=False)
    done, of_parts = await measured(run, parts)
    for ours, theirs in zip(done.table.columns, once.table.columns, strict=True):
        assert ours.values.tolist() == theirs.values.tolist()
        assert (ours.name, ours.mean, ours.signature) == (
            theirs.name,
            theirs.mean,
            theirs.signature,
        )
    assert done.table.counts == once.table.counts
    assert done.table.id_fit == once.table.id_fit
    assert [(s.key, s.value) for s in done.table.slices] == [
        (s.key, s.value) for s in once.table.slices
    ]
    assert (done.query_ids, done.counts) == (once.query_ids, once.counts)
    matches = [match for part in of_parts for match in part.matches]
    assert matches == list(judged.matches)
    assert (done.negatives and replace(done.negatives, matches=matches)) == once.negatives


def group(query_id, expected, retrieved, **more):
    return Group(query_id, "", expected, retrieved, **more)


class TestFailures:
    async def test_what_could_not_be_judged_widens_the_bounds(self):
        run = parted("broken", ["mrr"])
        parts = [([group("1", ["e"], ["e"])], False), ([group("2", ["e"], ["broken"])], False)]
        done, judged = await measured(run, parts, fault_of=fault_of)
        (column,) = done.table.columns
        assert (column.mean, column.lower, column.upper) == (1.0, 0.5, 1.0)
        assert (done.counts.ok, done.counts.error) == (1, 1)
        assert judged[1].verdicts.columns.statuses.tolist() == [Status.ERROR]
        assert [fault.reason for fault in judged[1].verdicts.columns.faults] == ["MODEL_DAMAGED"]

    async def test_the_failure_is_raised_where_nothing_could_be_judged(self):
        run = parted("broken", ["mrr"])
        with pytest.raises(ModelDamaged):
            await measured(run, [([group("1", ["e"], ["broken"])], False)], fault_of=fault_of)


class NoModels:
    """No embedding model is installed."""

    default = ""
    names = ()


async def test_vectors_choose_the_judge_that_compares_them_behind_groups_without_any():
    catalog = JudgeCatalog([ExactKind(), SemanticKind(NoModels())], "exact")
    run = PartedEvaluation(
        catalog, JudgeSpec("semantic"), parse_metrics(["mrr"]), SettledOptions(), Caller()
    )
    vectors = Sides(np.eye(2, dtype=np.float32)[:1], np.eye(2, dtype=np.float32))
    by_id = group("1", [], ["?"], document_ids=["a"], relevant_document_ids=["a"])
    brings = Group("2", "", (), (), embeddings=vectors)
    done, _ = await measured(run, [([by_id], False), ([brings], False)])
    assert done.table.columns[0].values.tolist() == [1.0, 1.0]
    assert "caller" in done.identity.signature


async def test_an_id_that_a_later_part_found_was_not_missed():
    whole = Group("1", "", (), ("", ""), ("X", "x"), ("x",))
    first, second = cut_at(whole, 1)
    done, _ = await measured(parted(metrics=["mrr"]), [([first], False), ([second], True)])
    once, _ = await measured(parted(metrics=["mrr"]), [([whole], False)])
    assert done.table.id_fit == once.table.id_fit
    assert once.table.id_fit.compared == 0
