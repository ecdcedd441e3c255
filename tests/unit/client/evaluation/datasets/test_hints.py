"""What is said of files of other tools: each has the hint that leads on."""

from __future__ import annotations

import json

import pytest
from judged.evaluation import Dataset, FileError, Results, TrecQrels, TrecRun

QUERY = {"query_id": "q1", "query_text": "a", "expected_answers": ["b"]}
SET = json.dumps({"queries": [QUERY]})
MARK = "\ufeff"


@pytest.mark.parametrize(
    ("name", "text", "told", "untold"),
    [
        ("a.json", SET[:-2] + ",]}", "take out the comma before the ]", "JSON lines"),
        ("a.json", str({"queries": [QUERY]}), "this is Python's notation", "JSON lines"),
        ("a.json", f"{SET}\n{MARK}{SET}\n", "2: begins with a byte order mark: two files", "CSV"),
        ("a.jsonl", json.dumps(QUERY)[:-1] + ",}\n", "the comma before the }", "CSV"),
        ("a.jsonl", f"{QUERY}\n", "Python's notation", "CSV"),
        ("a.jsonl", f"{json.dumps(QUERY)}\n{MARK}{json.dumps(QUERY)}", "2: begins with a", "CSV"),
        ("a.csv", f"query,topic\na,b\n{MARK}query,topic\nc,d\n", "3: begins with a byte", "quote"),
        ("a.qrels", "query-id\tcorpus-id\tscore\n1\td1\t1\n", "a file of BEIR's", "CSV"),
        ("a.qrels", "1 0 d1 1 0.5\n", "this looks like prels", "CSV"),
        ("a.qrels", "1 Q0 d1 1 0.5 tag\n", "this looks like a run", "CSV"),
        ("a.qrels", '{"1": {"d1": 1}}\n', "this looks like JSON", "CSV"),
        ("a.run", "1 0 d1 1\n", "this looks like qrels", "CSV"),
        ("utf16.run", "1 Q0 d1 1 2.0 x\n", "is UTF-16; save it as UTF-8", "column"),
        ("utf16.qrels", "1 0 d1 1\n", "is UTF-16; save it as UTF-8", "column"),
        ("a.csv", "sep=;\nquestion;expected_answers\na;b\n", "called 'question' here?", "quote"),
        ("a.jsonl", '{"query_id": 1, "qury_text": "a"}\n', "called 'qury_text' here?", "CSV"),
        ("a.jsonl", '{"qid": 1, "query_text": "a"}\n', "1: has no 'query_id' or 'id'", "called"),
    ],
)
def test_a_file_of_another_form_is_told_what_it_is(tmp_path, name, text, told, untold):
    path = tmp_path / name
    path.write_text(text, encoding="utf-16" if name.startswith("utf16") else "utf-8")
    read = {".run": TrecRun.from_file, ".qrels": TrecQrels.from_file}.get(path.suffix, Dataset.load)
    read = Results.from_jsonl if name.startswith("results") else read
    with pytest.raises(FileError) as caught:
        read(path)
    assert told in str(caught.value)
    assert untold not in str(caught.value).partition(path.suffix)[2]
