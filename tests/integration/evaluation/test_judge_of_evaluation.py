"""Which judge an evaluation is by: one alone, also when it goes on from a file; and what it takes.

Two servers whose default judges differ stand for one that was started again with other settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from judged import Client, Judge, Span
from judged._batching import judging as chunks
from judged.evaluation import (
    Dataset,
    EvaluationResult,
    Evaluator,
    FileError,
    Query,
    Retrieved,
)

from tests.integration.server_process import running_server

QUERIES = 6
DATASET = Dataset([Query(f"q{i}", f"question {i}", [f"answer {i}"]) for i in range(QUERIES)])
RESULTS = {f"q{i}": [f"answer {i} in other words", f"answer {i}"] for i in range(QUERIES)}
METRICS = ["mrr@2"]

Evaluate = Callable[..., EvaluationResult]


@pytest.fixture(scope="module")
def exact_address() -> Iterator[str]:
    with running_server("--default-judge", "exact") as ready:
        yield ready.address


@pytest.fixture
def evaluate(monkeypatch: pytest.MonkeyPatch) -> Evaluate:
    """Evaluate on the server at an address, two queries a call."""
    monkeypatch.setattr(chunks, "CHUNK_CONTEXTS", 4)

    def evaluated(address: str, *given: Any, **named: Any) -> EvaluationResult:
        with Client(address) as client:
            return Evaluator(client).evaluate(*given, **named)

    return evaluated


def cut(file: Path) -> bytes:
    """Take the last call's verdicts from a file, as an interruption does; return what is left."""
    lines = file.read_bytes().splitlines(keepends=True)
    assert len(lines) > 2
    file.write_bytes(b"".join(lines[:-1]))
    return file.read_bytes()


@pytest.mark.parametrize("judge", [None, Judge()])
def test_a_file_of_what_was_the_default_judge_is_refused_once_that_is_another(
    evaluate: Evaluate, server_address: str, exact_address: str, tmp_path: Path, judge
):
    file = tmp_path / "run.resume"
    whole = evaluate(server_address, RESULTS, DATASET, METRICS, judge, resume=file)
    left = cut(file)
    with pytest.raises(FileError) as caught:
        evaluate(exact_address, RESULTS, DATASET, METRICS, judge, resume=file)
    assert re.fullmatch(
        rf"{re.escape(str(file))}: has verdicts of the judge token_overlap\|\S+ \(fingerprint \w+\)"
        r", and others are of exact\|\S+ \(fingerprint \w+\); go back to the first, .*",
        str(caught.value),
    )
    assert file.read_bytes() == left
    again = evaluate(server_address, RESULTS, DATASET, METRICS, judge, resume=file)
    assert again.to_json() == whole.to_json()
    file.unlink()
    anew = evaluate(exact_address, RESULTS, DATASET, METRICS, judge, resume=file)
    assert anew.judge.kind == "exact"


def test_a_file_with_verdicts_of_two_judges_is_refused(
    evaluate: Evaluate, server_address: str, exact_address: str, tmp_path: Path
):
    one, other = tmp_path / "one.resume", tmp_path / "other.resume"
    evaluate(server_address, RESULTS, DATASET, METRICS, resume=one)
    evaluate(exact_address, RESULTS, DATASET, METRICS, resume=other)
    last = other.read_bytes().splitlines(keepends=True)[-1]
    one.write_bytes(cut(one) + last)
    rule = r"verdicts of the judge token_overlap\|.*, and others are of exact\|.*remove this one"
    with pytest.raises(FileError, match=rf"one\.resume: has {rule}"):
        evaluate(server_address, RESULTS, DATASET, METRICS, resume=one)


SPAN = Span("a.md", 0, 10)


@pytest.mark.parametrize("judge", ["span", Judge("span"), Judge("span", min_score=0.6)])
def test_the_judge_span_is_given_spans_where_a_data_set_has_answers_too(
    evaluate: Evaluate, server_address: str, judge
):
    both = Dataset([Query("q0", "question", ["answer"], (), [SPAN])])
    results = {"q0": [Retrieved("d", 1.0, "text", SPAN)]}
    found = evaluate(server_address, results, both, METRICS, judge)
    assert found["mrr@2"].mean == 1
    assert found.judge.kind == "span"
