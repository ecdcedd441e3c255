"""Fields whose names are nearly right are told, instead of being passed over in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judged.evaluation import Dataset

from tests.integration.cli_process import DATASET, LINES, RESULTS, Commands, run_in


def write(path: Path, *lines: Any) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("strict", [False, True])
def test_evaluate_tells_a_misspelt_answer(tmp_path: Path, judged: Commands, strict: bool):
    _, second = DATASET["queries"]
    misspelt = {"query_id": "q1", "query_text": "what", "expected_answer": "rag", "grades": {}}
    write(tmp_path / "d.json", {**DATASET, "queries": [misspelt, second]})
    write(tmp_path / "r.jsonl", *RESULTS)
    flags = ["--metric", "mrr", *(["--strict"] if strict else [])]
    done = judged("evaluate", "d.json", "--results", "r.jsonl", *flags)
    assert "did you mean 'expected_answers'?" in done.stderr
    assert "has 'grades', which is no known field; did you mean 'doc_grades'?" in done.stderr
    assert done.returncode == int(strict)


def test_judge_tells_it_once_a_name_and_lets_metadata_pass(tmp_path: Path, judged: Commands):
    lines = [{**line, "retrieved_texts": "x", "source": "wiki"} for line in LINES]
    write(tmp_path / "c.jsonl", *lines)
    done = judged.fine("judge", "c.jsonl")
    assert done.stderr.count("did you mean") == 1
    assert "c.jsonl:1: has 'retrieved_texts'" in done.stderr


@pytest.mark.parametrize("strict", [False, True])
def test_convert_tells_of_metadata_that_it_leaves_out(tmp_path: Path, strict: bool):
    queries = [
        {"query_id": name, "query_text": name, "metadata": {"tags": ["a"], "kind": 1, "by": None}}
        for name in ("q1", "q2")
    ]
    write(tmp_path / "d.jsonl", *queries)
    done = run_in(tmp_path, "convert", "d.jsonl", "o.jsonl", *(["--strict"] if strict else []))
    assert done.stderr.count("warning: d.jsonl: lists and objects in metadata are left out") == 1
    assert done.returncode == int(strict)
    assert [query.metadata for query in Dataset.load(tmp_path / "o.jsonl").queries] == [
        {"kind": "1"}
    ] * 2


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("expected_answer", "did you mean 'expected_answers'?"),
        ("answers", "give queries 'expected_answers', 'expected_doc_ids' or 'expected_spans'\n"),
        ("topic", "give queries 'expected_answers', 'expected_doc_ids' or 'expected_spans'\n"),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--estimate"]])
def test_evaluate_refuses_a_file_in_which_no_query_expects_anything(
    tmp_path: Path, judged: Commands, name: str, hint: str, flags: list[str]
):
    queries = [{"query_id": f"q{n}", "query_text": "what", name: ["rag"]} for n in (1, 2)]
    write(tmp_path / "d.json", {"queries": queries})
    write(tmp_path / "r.jsonl", *RESULTS)
    said = judged.refused("evaluate", "d.json", "--results", "r.jsonl", "--metric", "mrr", *flags)
    assert "judged: d.json: no query says what it should find" in said
    assert hint in said


@pytest.mark.parametrize("flags", [[], ["--output", "o.jsonl"]])
def test_judge_tells_of_lines_that_expect_a_blank_text(
    tmp_path: Path, judged: Commands, flags: list[str]
):
    blank = {**LINES[0], "expected_text": " "}
    write(tmp_path / "c.jsonl", blank, LINES[1])
    done = judged.fine("judge", "c.jsonl", *flags)
    assert "warning: 1 of 2 lines of c.jsonl has a blank 'expected_text'" in done.stderr
    write(tmp_path / "c.jsonl", blank)
    assert "1 of 1 line of c.jsonl has a blank" in judged.refused("judge", "c.jsonl", *flags)
