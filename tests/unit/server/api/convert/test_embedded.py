from __future__ import annotations

import numpy as np
import pytest
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.values.choices import Matching, NoGold
from judged_server.api.convert.embedded import measure_embedded
from judged_server.errors import InvalidField
from judged_server.metrics.measures.names import parse_metrics
from judged_server.metrics.table import MetricOptions

from tests.fakes.limits import limits

LIMITS = limits(max_contexts=100, max_text_bytes=100, max_embedding_dimensions=16)


def ranking(query_id, expected, retrieved):
    sides = [np.array(side, "<f4").reshape(-1, 2).tobytes() for side in (expected, retrieved)]
    vectors = groups_pb2.GroupEmbeddings(dimensions=2, expected=sides[0], retrieved=sides[1])
    return pb.EmbeddedRanking(query_id=query_id, embeddings=vectors)


def measure(metrics, *rankings, options=MetricOptions(), **fields):  # noqa: B008 - frozen
    message = pb.EmbeddedRankings(rankings=rankings, **fields)
    table, _, _ = measure_embedded(message, parse_metrics(metrics), options, LIMITS)
    return table


# Both of the first two results are near the first expected vector; cosines 1, .96, 0 and 0, .28, 1.
NEAR = ranking("1", [[1, 0], [0, 1]], [[2, 0], [0.96, 0.28], [-1, 0]])


def test_the_family_is_in_mode_any_and_plain_metrics_in_that_of_the_request():
    names = ["precision_similarity", "precision", "recall_similarity", "hit_rate"]
    table = measure(names, NEAR)
    assert [c.mean for c in table.columns] == pytest.approx([2 / 3, 1 / 3, 0.5, 1.0])
    assert [c.name for c in table.columns] == names
    any_mode = measure(["precision"], NEAR, options=MetricOptions(Matching.ANY))
    assert any_mode.columns[0].mean == pytest.approx(2 / 3)


def test_the_bar_is_point_8_or_that_of_the_request_and_stands_in_the_signature():
    (column,) = measure(["precision_similarity"], NEAR).columns
    assert "|judge:semantic model:caller min_score:0.8 v1|matching:any|" in column.signature
    (column,) = measure(["precision_similarity"], NEAR, min_score=0.97).columns
    assert column.mean == pytest.approx(1 / 3)
    assert "min_score:0.97" in column.signature


def test_a_query_without_vectors_to_expect():
    nothing = ranking("2", [], [[1, 0]])
    assert measure(["recall"], NEAR, nothing).counts.skipped_no_gold == 1
    with pytest.raises(InvalidField) as caught:
        measure(["recall"], NEAR, nothing, options=MetricOptions(no_gold=NoGold.ERROR))
    assert caught.value.field == "embedded.rankings[1].embeddings.expected"
