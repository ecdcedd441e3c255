import pytest
from judged.cli.documents import read_report, run_names
from judged.evaluation import FileError


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "must be an object"),
        ("{}", "is no document of judged evaluate --json"),
        ('{"metrics": {"ap": 3}, "per_query": {}}', "metrics.ap must be an object"),
        ('{"metrics": {"ap": {"n": 1}}, "per_query": {}}', "has no 'signature'"),
        ('{"metrics": {}, "per_query": {"q": {"ap": "x"}}}', "per_query.q has 'ap' that is not"),
        ('{"metrics": {}, "per_query": {"q": {"ap": NaN}}}', "is not JSON"),
    ],
)
def test_what_is_no_report_is_refused(text, problem, tmp_path):
    path = tmp_path / "report.json"
    path.write_text(text)
    with pytest.raises(FileError) as caught:
        read_report(path)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["out/bm25.run", "dense.txt"], ["bm25", "dense"]),
        (["a/x.run", "b/x.run", "y.run"], ["a/x.run", "b/x.run", "y.run"]),
    ],
)
def test_runs_are_called_by_their_stems_and_each_once(paths, names):
    assert run_names(paths) == names
