from __future__ import annotations

import pytest
from judged_server.domain import Group, JudgeSpec
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.lexical import ExactKind, SpanKind
from judged_server.metrics.compute import SettledOptions
from judged_server.metrics.measures import parse_metrics
from judged_server.usecases.evaluate import PartedEvaluation


@pytest.fixture
def catalog():
    return JudgeCatalog([ExactKind(), SpanKind()], "exact")


async def run(catalog, groups, metrics=("recall",), judge="exact", **how):
    measures = parse_metrics(list(metrics))
    run = PartedEvaluation(catalog, JudgeSpec(judge), measures, SettledOptions(), **how)
    return await run.whole(groups)


def group(query_id, expected, retrieved, **more):
    return Group(query_id, "", expected, retrieved, **more)


async def test_matches_come_by_group_rank_and_reference(catalog):
    groups = [
        group("1", ["e"], ["bad", "e", "worse", "bad"], negatives=["worse", "bad"]),
        group("2", ["e"], ["e"]),
        group("3", ["e"], ["e"], negatives=["bad"]),
    ]
    done, judged = await run(catalog, groups)
    assert (done.negatives.queries, done.negatives.queries_hit) == (2, 1)
    assert [(m.query_id, m.retrieved, m.negative) for m in judged.matches] == [
        ("1", 0, 1),
        ("1", 2, 0),
        ("1", 3, 1),
    ]
    assert {m.score for m in judged.matches} == {1.0}
    assert done.negatives.matches == judged.matches
    assert [m.document_id for m in judged.matches] == ["retrieved_0", "retrieved_2", "retrieved_3"]
    assert done.negatives.counts.total == 4 * 2 + 1


async def test_ranks_are_those_of_the_request_when_repeats_are_dropped(catalog):
    sent = group("1", ["e"], ["e", "e", "n"], document_ids=["a", "a", "b"], negatives=["n"])
    _, judged = await run(catalog, [sent])
    (match,) = judged.matches
    assert (match.retrieved, match.document_id) == (2, "b")


async def test_a_group_matched_by_id_has_its_texts_judged_for_negatives_only(catalog):
    sent = group("1", [], ["n"], document_ids=["a"], relevant_document_ids=["a"], negatives=["n"])
    done, judged = await run(catalog, [sent])
    assert done.table.columns[0].mean == 1.0
    assert len(judged.matches) == 1
    assert done.identity is not None
    assert len(judged.verdicts.relevant) == 0


GROUPS = [group("1", ["e", "f"], ["e", "e", "x"])]


class TestWhichJudgeRuns:
    async def test_none_of_the_request_when_no_metric_needs_it(self, catalog):
        asked = ["precision_exact"]
        done, judged = await run(catalog, GROUPS, asked, judge="span", keep_verdicts=False)
        assert done.table.columns[0].values.tolist() == [2 / 3]
        assert (judged.verdicts, done.identity) == (None, None)
        assert done.counts.total == 6
