"""Spellings of a metric's name, and the metric of a table that they mean."""

from __future__ import annotations

import pytest
from judged import MetricTable
from judged.values import MetricCounts, MetricResult

SIGNATURES = {
    "rbp@2": "rbp@2|p:0.8|matching:greedy_first|no_gold:skip|v1",
    "rbp(p=0.5)@2": "rbp@2|p:0.5|matching:greedy_first|no_gold:skip|v1",
    "ndcg": "ndcg|gain:linear|b:2|source:trec|relevance_level:2|v1",
    "recall_exact@2": "recall_exact@2|judge:exact profile:verbatim v1|matching:any|v1",
    "faithfulness": "",
}
TABLE = MetricTable(
    [
        MetricResult(name, 0.5, 1, None, None, signature, [])
        for name, signature in SIGNATURES.items()
    ],
    [],
    MetricCounts(),
)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        *((name, name) for name in SIGNATURES),
        ("rbp(p=0.8)@2", "rbp@2"),
        ("ndcg(b=2,gain=linear)", "ndcg"),
        ("ndcg(gain=linear)", "ndcg"),
    ],
)
def test_a_spelling_that_means_the_metric_finds_it(asked, name):
    assert TABLE[asked].name == name
    assert asked in TABLE


@pytest.mark.parametrize(
    "asked",
    [
        "rbp", "rbp@3", "rbp(p=0.9)@2", "rbp(q=0.8)@2", "rbp()@2", "rbp(p)@2", "rbp(p=0.80)@2",
        "ndcg(gain=exponential)", "ndcg@10", "", "faithfulness(x=1)", "ndcg(gain=nan)",
    ],
)  # fmt: skip
def test_any_other_is_not_there(asked):
    assert asked not in TABLE
    with pytest.raises(KeyError, match=r"this table has rbp@2, rbp\(p=0.5\)@2"):
        TABLE[asked]
