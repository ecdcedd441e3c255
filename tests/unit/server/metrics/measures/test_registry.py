"""The list of metrics: complete, and described well enough to show to callers."""

import pytest
from judged_server.domain import Parameter
from judged_server.metrics.measures.formulas import METRICS
from judged_server.metrics.measures.names import write_value
from judged_server.metrics.table import MatchingMode

EVERY_MODE = {"precision", "recall", "f1", "hit_rate", "mrr", "hybrid_log_rank"}
NO_MODE = {"bpref", "judged", "infap"}
FAMILIES = [
    f"{name}_{family}"
    for family in ("exact", "similarity")
    for name in ("precision", "recall", "f1", "hybrid_log_rank")
]


def test_the_metrics_on_offer():
    assert list(METRICS) == [
        *("precision", "recall", "f1", "hit_rate", "mrr", "ap", "ndcg", "r_precision"),
        *("context_precision", "hybrid_log_rank", "err", "rbp", "rbp_residual"),
        *("bpref", "judged", "infap"),
        *FAMILIES,
    ]


@pytest.mark.parametrize("name", METRICS)
def test_a_declaration_is_complete(name):
    metric = METRICS[name]
    assert metric.name == name
    assert metric.description.endswith(".")
    assert metric.reference
    assert (MatchingMode.ANY in metric.modes) == (name in {*EVERY_MODE, *FAMILIES})
    assert (MatchingMode.GREEDY_FIRST in metric.modes) == (name not in {*NO_MODE, *FAMILIES})
    assert (MatchingMode.MAXIMUM in metric.modes) == (name not in {*NO_MODE, *FAMILIES})
    for parameter in metric.parameters:
        assert parameter.description.endswith(".")
        assert parameter.read(write_value(parameter.default)) == parameter.default


def test_parameters_say_their_rule():
    assert Parameter("p", 0.8, "P.", 0, 1).rule == "a number from 0 to 1"
    assert Parameter("c", "a", "C.", choices=("a", "b")).rule == "one of a, b"


@pytest.mark.parametrize(
    ("value", "text"), [(0.5, "0.5"), (1.0, "1"), (1e-7, "1e-07"), (0.1 + 0.2, repr(0.1 + 0.2))]
)
def test_a_number_prints_as_short_as_it_reads_back(value, text):
    number = Parameter("p", 0.8, "P.", 0, 1)
    assert write_value(value) == text
    assert number.read(text) == value
