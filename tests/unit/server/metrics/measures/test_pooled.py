"""Bpref, judged and infap against scalar readings of trec_eval's loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.metrics.input.rankings import rank_gains
from judged_server.metrics.input.trec import rank_run
from judged_server.metrics.measures.names import parse_measure

from tests.trec import Topic, qrels_of, run_of

NAMES = ["bpref", "bpref@3", "judged", "judged@3", "judged@20", "infap", "infap@3"]
GRADES = st.sampled_from([-1, 0, 0, 1, 2])


def scalar(name, grades, judged):
    """One query's value: `grades` by rank, None for the unjudged; all that `judged` holds."""
    measure = parse_measure(name)
    top = grades[: measure.k]
    if measure.metric.name == "judged":
        return sum(grade is not None for grade in top) / len(top) if top else 0.0
    n_relevant = sum(grade > 0 for grade in judged)
    n_nonrelevant = sum(grade == 0 for grade in judged)
    total, relevant, nonrelevant, unsampled = 0.0, 0, 0, 0
    for above, grade in enumerate(top):
        if grade is None:
            continue
        if grade < 0:
            unsampled += 1
        elif grade == 0:
            nonrelevant += 1
        elif measure.metric.name == "bpref":
            if nonrelevant:
                most = min(n_nonrelevant, n_relevant)
                total -= min(nonrelevant, n_relevant) / most
            total += 1
        elif above == 0:
            total, relevant = total + 1, 1
        else:
            pooled = (relevant + nonrelevant + unsampled) / above
            precision = (relevant + 1e-5) / (relevant + nonrelevant + 2e-5)
            total += 1 / (above + 1) + above / (above + 1) * pooled * precision
            relevant += 1
    return total / n_relevant if n_relevant else 0.0


@given(
    st.lists(
        st.tuples(st.lists(st.none() | GRADES, max_size=9), st.lists(GRADES, max_size=5)),
        max_size=5,
    ),
    st.sampled_from(NAMES),
)
def test_values_follow_the_definition(some, name):
    qrels, run, expected = [], [], []
    for i, (grades, missed) in enumerate(some):
        known = {f"r{j}": grade for j, grade in enumerate(grades) if grade is not None}
        known |= {f"m{j}": grade for j, grade in enumerate(missed)}
        qrels.append(Topic(f"t{i}", list(known), list(known.values())))
        run.append(Topic(f"t{i}", [f"r{j}" for j in range(len(grades))]))
        expected.append(scalar(name, grades, list(known.values())))
    rankings = rank_run(qrels_of(qrels), run_of(run)).rankings
    values = parse_measure(name).values(rankings)
    assert values.dtype == np.float64
    assert values.tolist() == pytest.approx(expected, abs=1e-12)
    assert np.all((values >= 0) & (values <= 1))
    rows = np.arange(len(some))[::-1]
    assert parse_measure(name).values(rankings.take(rows)).tolist() == values[rows].tolist()


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
