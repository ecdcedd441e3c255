"""Condensed rankings, and bounds that no judgement of unjudged documents leaves."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judged.values.choices import Unjudged
from judged_server.metrics.compute import SettledOptions, compute_trec
from judged_server.metrics.measures import parse_metrics

from tests.trec import Topic, qrels_of, run_of

CONDENSED = SettledOptions(unjudged=Unjudged.CONDENSED)
BOUNDS = SettledOptions(unjudged=Unjudged.BOUNDS)
MONOTONE = [
    "precision@2",
    "precision@5",
    "recall@2",
    "recall",
    "f1@3",
    "hit_rate@1",
    "mrr",
    "mrr@2",
    "ap",
    "ap@2",
    "ndcg@2",
    "ndcg@5",
    "ndcg(gain=exponential)@3",
    "rbp",
    "err(max_grade=3)",
    "ap(divisor=min)@2",
]


def table(qrels, run, metrics, options):
    topics = qrels_of([Topic("q", list(qrels), list(qrels.values()))])
    return compute_trec(parse_metrics(metrics), topics, run_of([Topic("q", list(run))]), options)


def test_condensed_rankings_leave_unjudged_documents_out():
    qrels = {"a": 1, "b": 0, "c": 2, "pooled": -1}
    metrics = ["mrr", "precision@2", "ndcg", "judged", "bpref", "infap"]
    found = table(qrels, "xaybzcx", metrics, CONDENSED)
    without = table(qrels, "abc", metrics, SettledOptions())
    assert [c.values[0] for c in found.columns] == [c.values[0] for c in without.columns]
    assert found.counts.unjudged == 3
    assert found.counts.retrieved == 3
    assert found.columns[0].signature == "mrr|source:trec|unjudged:condensed|v1"
    assert found.columns[0].lower is None
    # A document with a grade below 0 was never judged either.
    assert table(qrels, ["pooled", "a"], ["mrr"], CONDENSED).columns[0].mean == 1.0
    bounded = table(qrels, ["pooled", "a"], ["precision@1"], BOUNDS)
    assert (bounded.columns[0].lower, bounded.columns[0].upper) == (0.0, 1.0)
    assert bounded.counts.unjudged == 1


def test_bounds_by_hand():
    found = table({"a": 1, "b": 1}, "xa", ["precision@2", "recall@1", "recall@2", "mrr"], BOUNDS)
    bounds = [(c.lower, c.values[0], c.upper) for c in found.columns]
    assert bounds[0] == (0.5, 0.5, 1.0)
    # Nothing found at rank 1, of two relevant documents or three; or x, of two.
    assert bounds[1] == (0.0, 0.0, 0.5)
    assert bounds[2] == (pytest.approx(1 / 3), 0.5, 1.0)
    assert bounds[3] == (0.5, 0.5, 1.0)
    assert found.columns[0].signature == "precision@2|source:trec|unjudged:bounds|v1"


def test_a_topic_without_relevant_documents_can_be_anything():
    columns = table({"a": 0}, "xa", ["recall@1", "ndcg", "ap"], BOUNDS).columns
    assert [(c.lower, c.upper) for c in columns] == [(0.0, 1.0)] * 3
    columns = table({"a": 0}, "a", ["recall@1", "ndcg", "ap"], BOUNDS).columns
    assert [(c.lower, c.upper) for c in columns] == [(0.0, 0.0)] * 3


documents = "abcdef"


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(documents), st.integers(0, 3), max_size=4),
    st.permutations(documents).flatmap(lambda ids: st.integers(0, 6).map(lambda n: ids[:n])),
)
def test_every_judgement_lies_within_the_bounds(qrels, run):
    found = table(qrels, run, MONOTONE, BOUNDS)
    unjudged = [document for document in run if document not in qrels]
    assert found.counts.unjudged == len(unjudged)
    largest = max(qrels.values(), default=0) or 1
    for decided in product(sorted({0, 1, largest}), repeat=len(unjudged)):
        if len(unjudged) > 4 and len(set(decided)) > 2:
            continue
        complete = {**qrels, **dict(zip(unjudged, decided, strict=True))}
        judged = table(complete, run, MONOTONE, SettledOptions())
        for bounded, sure in zip(found.columns, judged.columns, strict=True):
            value = sure.values[0]
            assert bounded.lower - 1e-9 <= value <= bounded.upper + 1e-9, bounded.name


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(documents), st.integers(-1, 3), max_size=5),
    st.permutations(documents),
)
def test_bounds_hold_the_value_and_stay_in_range(qrels, run):
    names = ["r_precision", "bpref", "infap", "judged", "context_precision", "hybrid_log_rank"]
    for column in table(qrels, run, [*MONOTONE, *names], BOUNDS).columns:
        assert 0 <= column.lower <= column.values[0] <= column.upper <= 1, column.name
        if all(document in qrels for document in run):
            assert column.lower == column.upper == pytest.approx(column.values[0])
