"""The paths of CompareRuns; what is refused is in the integration tests of bad input."""

import pytest
from judged.v1 import metrics_pb2, statistics_service_pb2
from judged_server.api.convert.comparison import compare_runs, read_compare_options
from judged_server.errors import InvalidField
from judged_server.metrics.measures.names import parse_metrics


def test_unset_options_are_the_defaults():
    options = read_compare_options(statistics_service_pb2.CompareOptions())
    assert (options.permutations, options.seed, options.max_moved) == (100_000, 0, 10)
    assert options.difference is None
    assert read_compare_options(statistics_service_pb2.CompareOptions(max_moved=0)).max_moved == 0


def test_tables_come_without_the_values_of_queries():
    values = metrics_pb2.PerQueryValues(
        query_ids=["1", "2"], columns=[metrics_pb2.ValueColumn(values=[0.5, 1])]
    )
    request = statistics_service_pb2.CompareRunsRequest(
        metrics=["ap"],
        runs=[statistics_service_pb2.ComparedRun(name=name, values=values) for name in "ab"],
    )
    reply = compare_runs(request, parse_metrics(["ap"]))
    assert [table.metrics[0].mean for table in reply.tables] == [0.75, 0.75]
    assert not reply.tables[0].query_ids
    assert not reply.tables[0].metrics[0].per_query
    assert not request.options.per_query


def test_a_rule_names_other_places_of_the_run_as_its_path_does():
    twice = [metrics_pb2.TopicRun(query_id="1", document_ids=["a"], scores=[1])] * 2
    documents = statistics_service_pb2.DocumentRankings(topics=twice)
    request = statistics_service_pb2.CompareRunsRequest(
        metrics=["ap"],
        runs=[statistics_service_pb2.ComparedRun(name=name, documents=documents) for name in "ab"],
        qrels=[metrics_pb2.TopicQrels(query_id="1", document_ids=["a"], grades=[1])],
    )
    with pytest.raises(InvalidField) as caught:
        compare_runs(request, parse_metrics(["ap"]))
    assert caught.value.field == "runs[0].documents.topics[1].query_id"
    assert "runs[0].documents.topics[0]" in caught.value.rule


def test_too_much_work_names_the_permutations():
    values = metrics_pb2.PerQueryValues(
        query_ids=map(str, range(30_000)), columns=[metrics_pb2.ValueColumn(values=[0.5] * 30_000)]
    )
    request = statistics_service_pb2.CompareRunsRequest(
        metrics=["ap"],
        runs=[statistics_service_pb2.ComparedRun(name=name, values=values) for name in "ab"],
    )
    with pytest.raises(InvalidField) as caught:
        compare_runs(request, parse_metrics(["ap"]))
    assert caught.value.field == "comparison.permutations"
