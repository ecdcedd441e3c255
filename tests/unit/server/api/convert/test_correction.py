"""Human labels on the wire: corrected means and bounds of queries in the reply, rules in errors."""

import numpy as np
import pytest
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2, verdicts_pb2
from judged_server.api.convert.metrics import compute, read_options
from judged_server.metrics.measures.names import parse_metrics

METRICS = ["precision@2", "ndcg"]


def run(request):
    return compute(request, parse_metrics(request.metrics), read_options(request.options))


def judged(n=300, labelled=range(250), *, scores=True, **options):
    """A request of n queries with 3 results by 1 expected text, and people's view of some."""
    rng = np.random.Generator(np.random.PCG64(9))
    truth = rng.random((n, 3)) < 0.4
    score = np.clip(np.where(truth, 0.65, 0.4) + rng.normal(0, 0.12, (n, 3)), 0, 1)
    rankings = [
        metrics_pb2.JudgedRanking(query_id=f"q{i}", expected=1, retrieved=3) for i in range(n)
    ]
    verdicts = verdicts_pb2.VerdictColumns(relevant=(score >= 0.5).ravel().tolist())
    if scores:
        verdicts.score.extend(score.ravel().tolist())
    labels = metrics_pb2.HumanLabels(
        query_ids=[f"q{i}" for i in labelled],
        relevant=truth[list(labelled)].ravel().tolist(),
    )
    return pb.ComputeMetricsRequest(
        metrics=METRICS,
        options=metrics_pb2.MetricOptions(**options),
        judged=metrics_pb2.JudgedRankings(
            rankings=rankings, verdicts=verdicts, human_labels=labels
        ),
    )


def test_labels_correct_every_mean():
    table = run(judged())
    for metric in table.metrics:
        found = metric.corrected
        assert (found.n_labelled, found.n) == (250, 300)
        assert found.naive.value == metric.mean
        assert found.corrected.interval.lower < found.corrected.value
        assert found.corrected.interval.signature.startswith("prediction_powered|")
        assert not found.warnings
        assert not metric.per_query_lower


@pytest.mark.parametrize("kind", ["values", "gains", "trec"])
def test_human_values_correct_any_relevance(kind):
    request = pb.ComputeMetricsRequest(
        metrics=["ap"], options=metrics_pb2.MetricOptions(per_query=True)
    )
    ids = [f"q{i}" for i in range(50)]
    for i, query_id in enumerate(ids):
        hit = i % 3 > 0
        if kind == "gains":
            request.gains.rankings.add(
                query_id=query_id, gains=[hit, not hit], relevant_gains=[1.0]
            )
        elif kind == "trec":
            request.trec.qrels.add(query_id=query_id, document_ids=["a"], grades=[1])
            request.trec.run.add(query_id=query_id, document_ids=["a" if hit else "b"])
    if kind == "values":
        values = [float(i % 3 > 0) for i in range(50)]
        request.values.MergeFrom(
            metrics_pb2.PerQueryValues(
                query_ids=ids, columns=[metrics_pb2.ValueColumn(values=values)]
            )
        )
    human = [float(i % 2) for i in range(40)]
    request.human_values.MergeFrom(
        metrics_pb2.PerQueryValues(
            query_ids=ids[:40], columns=[metrics_pb2.ValueColumn(values=human)]
        )
    )
    (metric,) = run(request).metrics
    assert (metric.corrected.n_labelled, metric.corrected.n) == (40, 50)
    assert metric.corrected.labels_only.value == 0.5
    assert len(metric.per_query_upper) == 50


def test_equal_probabilities_are_none_and_unequal_ones_weigh():
    plain, equal, unequal = (
        judged(labelled=range(60)),
        judged(labelled=range(60)),
        judged(labelled=range(60)),
    )
    equal.judged.human_labels.inclusion_probabilities.extend([0.25] * 60)
    unequal.judged.human_labels.inclusion_probabilities.extend([0.2, 0.8] * 30)
    before, same, other = (run(each).metrics[0].corrected for each in (plain, equal, unequal))
    assert same.corrected.value == pytest.approx(before.corrected.value, abs=1e-12)
    assert other.labels_only.value != pytest.approx(before.labels_only.value, abs=1e-6)
    assert "|weights:hajek|" in other.corrected.interval.signature
