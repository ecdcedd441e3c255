"""Human labels on their way out, corrected means on their way in."""

from judged import HumanLabels, JudgedRanking, JudgedRankings, MetricOptions, PerQueryValues
from judged._codec import read_fields
from judged._convert.metrics import read_table, write_metrics
from judged.v1 import metrics_pb2
from judged.values import CorrectedEstimate


def test_labels_travel_beside_the_verdicts():
    relevance = JudgedRankings(
        [JudgedRanking("q1", 1, 2), JudgedRanking("q2", 1, 1)],
        [True, False, True],
        score=[0.9, 0.1, 0.8],
        human_labels=HumanLabels(["q2"], [False]),
    )
    request = write_metrics(["ap"], relevance, MetricOptions())
    assert list(request.judged.verdicts.score) == [0.9, 0.1, 0.8]
    assert list(request.judged.human_labels.query_ids) == ["q2"]
    assert list(request.judged.human_labels.relevant) == [False]
    assert not request.HasField("human_values")


def test_without_labels_nothing_asks_for_a_correction():
    relevance = JudgedRankings([JudgedRanking("q1", 1, 1)], [True])
    request = write_metrics(["ap"], relevance, MetricOptions())
    assert not request.judged.HasField("human_labels")


def test_no_labels_yet_still_ask_for_a_correction():
    relevance = JudgedRankings(
        [JudgedRanking("q1", 1, 1)], [True], human_labels=HumanLabels([], [])
    )
    assert write_metrics(["ap"], relevance, MetricOptions()).judged.HasField("human_labels")


def test_human_values_travel_with_any_relevance():
    machine = PerQueryValues(["q1", "q2"], [[0.5, 0.25]])
    human = PerQueryValues(["q2"], [[1.0]])
    request = write_metrics(["ap"], machine, MetricOptions(), human_values=human)
    assert list(request.human_values.query_ids) == ["q2"]
    assert [list(column.values) for column in request.human_values.columns] == [[1.0]]


def test_a_corrected_mean_is_read_with_all_that_is_set():
    interval = metrics_pb2.Interval(lower=0.25, upper=0.75, confidence=0.95, standard_error=0.125)
    message = metrics_pb2.CorrectedEstimate(
        naive=metrics_pb2.Estimate(value=0.5, interval=interval),
        labels_only=metrics_pb2.Estimate(value=0.0),
        n_labelled=1,
        n=7,
        power=0.5,
        warnings=["few"],
    )
    found = read_fields(CorrectedEstimate, message)
    assert found.corrected is None
    assert (found.naive.value, found.naive.interval.upper) == (0.5, 0.75)
    assert (found.labels_only.value, found.labels_only.interval) == (0.0, None)
    assert (found.n_labelled, found.n, found.power, found.warnings) == (1, 7, 0.5, ("few",))


def test_a_table_has_corrections_and_bounds_only_when_sent():
    bare = metrics_pb2.MetricResult(name="ap", mean=0.5, n=2)
    full = metrics_pb2.MetricResult(
        name="ap",
        corrected=metrics_pb2.CorrectedEstimate(n=2),
        per_query_lower=[0.0, 0.25],
        per_query_upper=[1.0, 0.75],
    )
    first, second = read_table(metrics_pb2.MetricTable(metrics=[bare, full])).metrics
    assert (first.corrected, first.per_query_lower, first.per_query_upper) == (None, [], [])
    assert second.corrected.n == 2
    assert (second.per_query_lower, second.per_query_upper) == ([0.0, 0.25], [1.0, 0.75])


def test_inclusion_probabilities_travel_with_labels_and_values():
    labels = HumanLabels(["q1"], [True], [0.25])
    relevance = JudgedRankings([JudgedRanking("q1", 1, 1)], [True], human_labels=labels)
    request = write_metrics(["ap"], relevance, MetricOptions())
    assert list(request.judged.human_labels.inclusion_probabilities) == [0.25]
    machine, human = PerQueryValues(["q1"], [[0.5]]), PerQueryValues(["q1"], [[1.0]], [0.5])
    request = write_metrics(["ap"], machine, MetricOptions(), human_values=human)
    assert list(request.human_values.inclusion_probabilities) == [0.5]
    assert not request.values.inclusion_probabilities
