"""The messages of CompareRuns, without a server."""

from __future__ import annotations

import pytest
from judged import (
    CompareOptions,
    DocumentRankings,
    GainRanking,
    GainRankings,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
    PerQueryValues,
)
from judged._convert.statistics import write_compare


def write(runs, qrels=None, **options):
    return write_compare(["ap"], runs, qrels, MetricOptions(), CompareOptions(**options))


class TestWrite:
    @pytest.mark.parametrize(
        ("relevance", "kind"),
        [
            (JudgedRankings([JudgedRanking("1", 1, 1)], [True]), "judged"),
            (DocumentRankings({"1": {"a": 2.0}, "2": ["b"]}), "documents"),
            (DocumentRankings({}), "documents"),
            (GainRankings([GainRanking("1", [1.0], [1.0])]), "gains"),
            (PerQueryValues(["1"], [[0.5]]), "values"),
        ],
    )
    def test_every_kind_of_relevance(self, relevance, kind):
        run = write({"a": relevance}).runs[0]
        assert (run.name, run.WhichOneof("relevance")) == ("a", kind)

    def test_documents_that_can_not_be_joined(self):
        message = write({"a": DocumentRankings({"1": ["d\n"]})}, {"1": {"d\n": 3}})
        (topic,) = message.runs[0].documents.topics
        assert list(topic.document_ids) == ["d\n"]
        assert (message.qrels[0].query_id, list(message.qrels[0].grades)) == ("1", [3])
        assert not message.HasField("qrels_columns")

    def test_zeros_are_sent(self):
        options = write({}, permutations=0, seed=0, max_moved=0, difference=0.0).comparison
        assert all(options.HasField(name) for name in options.DESCRIPTOR.fields_by_name)
