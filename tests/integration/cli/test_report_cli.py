"""`judged report`, from a document that `judged evaluate` wrote to the files of a report."""

from __future__ import annotations

import json

import pytest

from tests.fakes.result_documents import result_document
from tests.integration.cli_process import Commands


def write(path, document):
    path.write_text(json.dumps(document), encoding="utf-8")


def test_what_evaluate_wrote_becomes_a_page(judged: Commands, folder):
    options = ("--results", "results.jsonl", "-m", "mrr", "--json", "result.json")
    judged.fine("evaluate", "dataset.json", *options)
    done = judged("report", "result.json", "-o", "report.html", "-o", "junit.xml")
    assert (done.returncode, done.stdout) == (0, "")
    assert "wrote report.html" in done.stderr
    assert "mrr" in (folder / "report.html").read_text()
    assert (folder / "junit.xml").read_text().startswith("<?xml")


def test_of_two_documents_the_first_is_the_baseline(judged: Commands, folder):
    write(folder / "main.json", result_document(60, 1))
    write(folder / "branch.json", result_document(60, 1, fails=True))
    done = judged.fine("report", "main.json", "branch.json", "-o", "-")
    row = [line for line in done.stdout.splitlines() if line.startswith("| `mrr` |")][-1]
    columns = [column.strip() for column in row.strip("|").split("|")]
    assert float(columns[1]) > float(columns[2]) == 0
    assert columns[5] == "<0.0001"
    assert columns[-1] == "**worse**"
    for shown in (done.stderr, done.stdout):
        assert "57 of 60 queries expect something else in branch than in main" in shown


def test_the_json_document_says_what_was_shown_and_written(judged: Commands, folder):
    write(folder / "main.json", result_document(60, 1))
    write(folder / "branch.json", result_document(60, 1))
    options = ("-o", "report.html", "-o", "-", "--json", "-")
    done = judged.fine("report", "main.json", "branch.json", *options)
    said = json.loads(done.stdout)
    assert said == {
        "read": ["main.json", "branch.json"],
        "written": ["report.html"],
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("result.json", "-o", "report.pdf"), "--output report.pdf: ends in none of .html"),
        (("dataset.json", "-o", "report.html"), 'dataset.json: document: has no "metrics"'),
        (("none.json", "-o", "report.html"), "none.json"),
        (("result.json", "-o", "no/report.html"), "can't be written"),
        (("result.json", "result.json", "result.json", "-o", "-"), "or two of which the first"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(judged: Commands, folder, arguments, said):
    write(folder / "result.json", result_document(2))
    told = judged.refused("report", *arguments)
    assert said in told
    assert told.count("\n") == 1
