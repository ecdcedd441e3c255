"""Rankings for the server, and the table of parts put together."""

import pytest
from judged import JudgedRanking, MetricOptions, MetricTable, QueryGroup, Verdicts
from judged.evaluation._steps import measuring
from judged.evaluation._steps.measuring import count_verdicts, measure
from judged.types import JudgeIdentity, MetricCounts, MetricResult, VerdictCounts

IDENTITY = JudgeIdentity("fake", "", 0.5, "fake|v1", "", "")
GROUPS = [
    QueryGroup("q", ["a", "b"], ["x", "y"], "q0"),
    QueryGroup("q", (), ["", "", ""], "q1", ["d1", "d2", "d3"], ["d3", "d1", "d3"]),
    QueryGroup("q", ["a"], ["x"], "q2"),
]
VERDICTS = Verdicts(
    [True, False, False, False, False],
    [1.0, 0, 0, 0, 0],
    [1, 1, 3, 1, 2],
    [1] * 5,
    [0, 1, 2, 3, 8],
    [0, 4, 4, 5],
    {},
    IDENTITY,
)


class FakeServer:
    """Gives each query the share of its pairs that are relevant; those with gaps are left out."""

    def __init__(self):
        self.asked = []

    def __call__(self, rankings, options):
        self.asked.append((rankings, options))
        values, ids, low, high, start = [], [], [], [], 0
        for ranking in rankings.rankings:
            pairs = slice(start, start := start + ranking.expected * ranking.retrieved)
            relevant, status = rankings.relevant[pairs], rankings.status[pairs]
            gaps = sum(1 for value in status if value != 1)
            low.append(sum(relevant) / len(relevant))
            high.append((sum(relevant) + gaps) / len(relevant))
            if not gaps:
                values.append(low[-1])
                ids.append(ranking.query_id)
        told = bool(rankings.status)
        metric = MetricResult(
            "share",
            sum(values) / len(values) if values else None,
            len(values),
            sum(low) / len(low) if told else None,
            sum(high) / len(high) if told else None,
            "share|v1",
            values if options.per_query else [],
        )
        counts = MetricCounts(
            queries=len(rankings.rankings),
            evaluated=len(values),
            skipped_unsettled=len(rankings.rankings) - len(values),
            verdicts=VerdictCounts(ok=99),
        )
        return MetricTable([metric], ids if options.per_query else [], counts)


class TestMeasure:
    def test_sends_verdicts_and_matches_by_id(self):
        server = FakeServer()
        measure(server, GROUPS, VERDICTS, MetricOptions(), 1000)
        ((sent, _),) = server.asked
        assert sent.rankings == [
            JudgedRanking("q0", 2, 2),
            JudgedRanking("q1", 2, 3),
            JudgedRanking("q2", 1, 1),
        ]
        by_id = [False, True, False, False, True, False]
        assert sent.relevant == [True, False, False, False, *by_id, False]
        assert sent.status == [1, 1, 3, 1, *[1] * 6, 2]

    def test_leaves_the_status_out_when_it_is_ok_throughout(self):
        server = FakeServer()
        measure(server, [GROUPS[1]], None, MetricOptions(), 1000)
        assert server.asked[0][0].status == ()

    def test_names_results_without_an_id_by_rank(self):
        server = FakeServer()
        group = QueryGroup("q", (), ["x", "y"], "q", (), ["retrieved_1"])
        measure(server, [group], None, MetricOptions(), 1000)
        assert server.asked[0][0].relevant == [False, True]

    def test_counts_verdicts_without_those_matched_by_id(self):
        table = measure(FakeServer(), GROUPS, VERDICTS, MetricOptions(), 1000)
        assert table.counts.verdicts == VerdictCounts(3, 1, 1, 0, 1, 2, 2, 1)

    @pytest.mark.parametrize("per_query", [True, False])
    def test_gives_the_same_table_in_parts(self, monkeypatch, per_query):
        options = MetricOptions(per_query=per_query)
        whole = measure(FakeServer(), GROUPS, VERDICTS, options, 1000)
        monkeypatch.setattr(measuring, "PART_BYTES", 1)
        server = FakeServer()
        assert measure(server, GROUPS, VERDICTS, options, 1000) == whole
        assert len(server.asked) == 3
        assert whole.metrics[0].lower_bound is not None

    def test_cuts_parts_at_the_contexts_a_server_takes(self):
        server = FakeServer()
        measure(server, GROUPS, VERDICTS, MetricOptions(), 7)
        assert [len(sent.relevant) for sent, _ in server.asked] == [4, 7]

    def test_has_no_mean_where_no_part_has_a_value(self, monkeypatch):
        monkeypatch.setattr(measuring, "PART_BYTES", 1)
        missing = Verdicts([False] * 2, [0] * 2, [2, 2], [1] * 2, [0] * 2, [0, 1, 2], {}, IDENTITY)
        groups = [QueryGroup("q", ["a"], ["x"], name) for name in ("q0", "q1")]
        (metric,) = measure(FakeServer(), groups, missing, MetricOptions(), 1000).metrics
        assert (metric.mean, metric.n) == (None, 0)
        assert (metric.lower_bound, metric.upper_bound) == (0.0, 1.0)


class TestCountVerdicts:
    def test_counts_nothing_when_nobody_judged(self):
        assert count_verdicts(None) == VerdictCounts()
