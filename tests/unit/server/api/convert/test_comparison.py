"""The paths of CompareRuns; what is refused is in the integration tests of bad input."""

import pytest
from judged.v1 import judge_service_pb2 as pb
from judged_server.api.convert.comparison import _of_run, compare_runs, read_compare_options
from judged_server.errors import InvalidField
from judged_server.metrics import parse_metrics


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("trec.run[3].scores[1]", "runs[7].documents.topics[3].scores[1]"),
        ("is that of trec.run[0] again", "is that of runs[7].documents.topics[0] again"),
        ("qrels[2].document_ids[1]", "qrels[2].document_ids[1]"),
        ("values.columns[0].values[5]", "runs[7].values.columns[0].values[5]"),
        ("judged.verdicts.relevant", "runs[7].judged.verdicts.relevant"),
        ("gains.rankings[0].gains[1]", "runs[7].gains.rankings[0].gains[1]"),
        ("metrics[0]", "metrics[0]"),
        ("options.no_gold", "options.no_gold"),
        ("has 2 values for 3 gains", "has 2 values for 3 gains"),
    ],
)
def test_paths_are_those_of_the_runs(text, renamed):
    assert _of_run(text, 7) == renamed


def test_unset_options_are_the_defaults():
    options = read_compare_options(pb.CompareOptions())
    assert (options.permutations, options.seed, options.max_moved) == (100_000, 0, 10)
    assert options.difference is None
    assert read_compare_options(pb.CompareOptions(max_moved=0)).max_moved == 0


def test_tables_come_without_the_values_of_queries():
    values = pb.PerQueryValues(query_ids=["1", "2"], columns=[pb.ValueColumn(values=[0.5, 1])])
    request = pb.CompareRunsRequest(
        metrics=["ap"], runs=[pb.ComparedRun(name=name, values=values) for name in "ab"]
    )
    reply = compare_runs(request, parse_metrics(["ap"]))
    assert [table.metrics[0].mean for table in reply.tables] == [0.75, 0.75]
    assert not reply.tables[0].query_ids
    assert not reply.tables[0].metrics[0].per_query
    assert not request.options.per_query


def test_too_much_work_names_the_permutations():
    values = pb.PerQueryValues(
        query_ids=map(str, range(30_000)), columns=[pb.ValueColumn(values=[0.5] * 30_000)]
    )
    request = pb.CompareRunsRequest(
        metrics=["ap"], runs=[pb.ComparedRun(name=name, values=values) for name in "ab"]
    )
    with pytest.raises(InvalidField) as caught:
        compare_runs(request, parse_metrics(["ap"]))
    assert caught.value.field == "comparison.permutations"
