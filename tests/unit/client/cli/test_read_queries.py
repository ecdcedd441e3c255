"""Queries with results that are read from their file as they are needed."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from judged.cli.inputs import ReadQueries
from judged.evaluation import Dataset, FileError, Results
from judged.evaluation.datasets.query import ResultFile, join_warnings

QUERY = {"query_id": "1", "query_text": "q", "expected_answers": ["a"]}
BY_ID = {"query_id": 2, "query_text": "ü", "expected_doc_ids": ["d1", 2], "metadata": {"k": "v"}}
LINE = {"query_id": "1", "results": [{"text": "t"}]}
SPAN = {"file": "f", "start": 0, "end": 2}
LINES = [
    {"query_id": "other", "results": [], "system_model": "m1"},
    {"query_id": 2, "results": [{"doc_id": "d1", "score": 1}, {"doc_id": 3, "score": 2}]},
    LINE | {"results": [{"doc_id": "d1"}, {"metadata": {"text": "ü"}, "span": SPAN}]},
]
DOCUMENTS = [{"doc_id": "d1", "text": "document"}]


def write(folder, queries, lines, documents=()):
    dataset, results = folder / "dataset.json", folder / "results.jsonl"
    dataset.write_text(json.dumps({"queries": queries, "documents": documents}), encoding="utf-8")
    results.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return str(dataset), str(results)


@pytest.mark.parametrize("by_spans", [None, True])
def test_groups_and_fit_are_those_of_results_in_memory(tmp_path, by_spans):
    spans = {"query_id": "3", "query_text": "s", "expected_spans": [SPAN]}
    queries = [BY_ID, *([spans] if by_spans else [QUERY])]
    dataset, results = write(tmp_path, queries, LINES, DOCUMENTS)
    whole, held = Dataset.load(dataset), Results.from_jsonl(results)
    assert dict(ResultFile(results)) == dict(held)
    found, groups = ReadQueries(dataset, results, by_spans=by_spans), whole.to_groups(held)
    for _ in range(2):
        assert list(found) == groups
    assert [list(ranked) for _, _, ranked in found.queries()] == [
        list(held.get(query.query_id, ())) for query in whole.queries
    ]
    warnings = list(found.warnings())
    assert warnings == list(join_warnings(whole.queries, held))
    assert warnings[-1].startswith("1 of 3 queries of the results has scores that rise with rank")
    assert found.n_contexts == sum(group.n_expected * group.n_retrieved for group in groups)
    assert (found.system_models, found.query_id(0)) == (["m1"], "2")


@pytest.mark.parametrize(
    ("queries", "lines", "problem"),
    [
        ([QUERY, QUERY], [LINE], "earlier query"),
        ([QUERY], [LINE, LINE], ":2: query '1' was on line 1 already"),
        ([], [LINE], "has no query"),
        ([{"query_id": "1", "query_text": "q"}], [LINE], "no query says what it should find"),
        ([QUERY], [{"query_id": "1"}], 'has no "results"'),
        ([QUERY], [{"query_id": "1", "results": [{}]}], "has no 'text'"),
        ([QUERY | {"expected_doc_ids": ["d"]}], [LINE], "has no 'doc_id'"),
    ],
)
def test_what_is_wrong_in_either_file_is_told_first(tmp_path, queries, lines, problem):
    with pytest.raises((FileError, ValueError), match=problem):
        ReadQueries(*write(tmp_path, queries, lines), by_spans=None)


def test_results_of_a_pipe_are_held(tmp_path):
    dataset, results = write(tmp_path, [QUERY], [LINE])
    content = Path(results).read_bytes()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as writer:
        writer.submit(pipe.write_bytes, content)
        for path in (results, pipe):
            found = ReadQueries(dataset, str(path), by_spans=None)
            assert [len(group.retrieved) for group in found] == [1]


def test_blank_lines_and_a_byte_order_mark_are_no_results(tmp_path):
    dataset, results = write(tmp_path, [QUERY, QUERY | {"query_id": "2"}], [])
    other = json.dumps(LINE | {"query_id": "2"})
    Path(results).write_bytes(f"\ufeff\n{other}\r\n\n \n{json.dumps(LINE)}".encode())
    found = ReadQueries(dataset, results, by_spans=None)
    assert [len(group.retrieved) for group in found] == [1, 1]


def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    other = {"query_id": "2"}
    dataset, results = write(tmp_path, [QUERY, QUERY | other], [LINE, LINE | other])
    found = ReadQueries(dataset, results, by_spans=None)
    Path(results).write_text(json.dumps(LINE | other))
    with pytest.raises(FileError, match="was changed while it was read"):
        list(found)
