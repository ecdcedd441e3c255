import json

import pytest
from judged import MetricTable
from judged.cli.documents import read_report, run_names
from judged.evaluation import FileError
from judged.values import MetricCounts, MetricResult


def test_reads_what_the_commands_write(tmp_path):
    table = MetricTable(
        [MetricResult("ap", 0.25, 2, None, None, "ap|v1", [0.0, 0.5])], ["q1", "q2"], MetricCounts()
    )
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**table.to_dict(), "signature": "exact|v1"}))
    report = read_report(path)
    assert (report.metric("ap").mean, report.metric("ap").n, report.signature) == (
        0.25,
        2,
        "exact|v1",
    )
    assert report.column("ap") == [0.0, 0.5]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "must be an object"),
        ("{}", "not a document of judged evaluate --json"),
        ('{"metrics": {"ap": 3}, "per_query": {}}', "metrics['ap'] must be an object"),
        ('{"metrics": {"ap": {"n": 1}}, "per_query": {}}', "has no 'signature'"),
        ('{"metrics": {}, "per_query": {"q": {"ap": "x"}}}', "per_query['q'] has 'ap' that is not"),
        (
            '{"metrics": {}, "per_query": {"q": {"ap": null}}}',
            "per_query['q'] has no value of 'ap'",
        ),
        ('{"metrics": {}, "per_query": {"q": {"ap": NaN}}}', "is not JSON"),
    ],
)
def test_what_is_no_report_is_refused(text, problem, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_report(path)
    assert problem in str(caught.value)


def test_a_query_without_the_metric_is_named(tmp_path):
    path = tmp_path / "report.json"
    metrics = {"ap": {"mean": None, "n": 0, "signature": "s"}}
    path.write_text(json.dumps({"metrics": metrics, "per_query": {"q7": {}}}))
    with pytest.raises(FileError, match="no ap for query 'q7'"):
        read_report(path).column("ap")


def test_runs_are_called_by_their_stems():
    assert run_names(["out/bm25.run", "dense.txt.gz"]) == ["bm25", "dense"]


def test_stems_that_repeat_give_way_to_paths():
    assert run_names(["a/x.run", "b/x.run", "y.run"]) == ["a/x.run", "b/x.run", "y"]


def test_a_file_named_twice_is_two_runs():
    assert run_names(["x.run", "x.run", "x.run"]) == ["x.run", "x.run#2", "x.run#3"]
