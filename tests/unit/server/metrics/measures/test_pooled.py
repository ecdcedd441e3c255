"""Bpref, judged and infap against scalar readings of trec_eval's loops."""

import pytest
from judged_server.metrics.input.rankings import rank_gains, rank_run
from judged_server.metrics.measures import parse_measure

from tests.trec import Topic, qrels_of, run_of

QRELS = [Topic("q", ["x", "n", "m", "z", "y", "w", "neg"], [1, 0, 0, 0, 1, 1, -1])]


def value(name, retrieved):
    rankings = rank_run(qrels_of(QRELS), run_of([Topic("q", retrieved)])).rankings
    return parse_measure(name).values(rankings)[0]


def test_worked_values():
    retrieved = ["n", "u", "neg", "y", "m", "x"]
    assert value("bpref", retrieved) == pytest.approx((1 - 1 / 3 + 1 - 2 / 3) / 3, abs=1e-12)
    assert value("infap", retrieved) == pytest.approx(0.21296487650823115, abs=1e-12)
    assert value("judged", retrieved) == pytest.approx(5 / 6)
    assert value("judged@2", retrieved) == 0.5
    assert value("judged@100", retrieved) == pytest.approx(5 / 6)


def test_of_gains_everything_retrieved_is_judged():
    rankings = rank_gains([[1, 0, 0, 1], [0], []], [[1, 1], [], [1]], "f")
    assert parse_measure("judged@9").values(rankings).tolist() == [1.0, 1.0, 0.0]
    assert parse_measure("bpref").values(rankings).tolist() == [0.5, 0.0, 0.0]
    infap = parse_measure("infap").values(rankings)
    assert infap == pytest.approx(parse_measure("ap").values(rankings), abs=1e-5)
