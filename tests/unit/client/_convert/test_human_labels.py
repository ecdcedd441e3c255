"""Human labels on their way out, corrected means on their way in."""

from judged import HumanLabels, JudgedRanking, JudgedRankings, MetricOptions, PerQueryValues
from judged._convert.metrics import write_metrics


def test_no_labels_yet_still_ask_for_a_correction():
    relevance = JudgedRankings(
        [JudgedRanking("q1", 1, 1)], [True], human_labels=HumanLabels([], [])
    )
    assert write_metrics(["ap"], relevance, MetricOptions()).judged.HasField("human_labels")


def test_inclusion_probabilities_travel_with_labels_and_values():
    labels = HumanLabels(["q1"], [True], [0.25])
    relevance = JudgedRankings([JudgedRanking("q1", 1, 1)], [True], human_labels=labels)
    request = write_metrics(["ap"], relevance, MetricOptions())
    assert list(request.judged.human_labels.inclusion_probabilities) == [0.25]
    machine, human = PerQueryValues(["q1"], [[0.5]]), PerQueryValues(["q1"], [[1.0]], [0.5])
    request = write_metrics(["ap"], machine, MetricOptions(), human_values=human)
    assert list(request.human_values.inclusion_probabilities) == [0.5]
    assert not request.values.inclusion_probabilities
