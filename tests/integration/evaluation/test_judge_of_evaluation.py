"""Which judge an evaluation is by: one alone, also when it goes on from a file; and what it takes.

Two servers whose default judges differ stand for one that was started again with other settings.
"""

from __future__ import annotations

import inspect
import linecache
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from judged import Client, InvalidArgument, Judge, Span
from judged._batching import judging as chunks
from judged.evaluation import (
    Dataset,
    EvaluationResult,
    Evaluator,
    FileError,
    LocalJudge,
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


def test_a_function_whose_file_is_edited_while_it_judges_stays_the_same_judge(
    evaluate: Evaluate, server_address: str, tmp_path: Path
):
    source = tmp_path / "own_judge.py"
    text = "def judge(context):\n    told()\n    return len(context.retrieved_text) < 9\n"

    def edit() -> None:
        source.write_text(f"{text[:-2]}10\n")
        linecache.clearcache()

    source.write_text(text)
    names: dict[str, Any] = {"told": edit}
    exec(compile(text, str(source), "exec"), names)  # noqa: S102 - the text above
    judge = LocalJudge(names["judge"], "own")
    assert inspect.getsource(names["judge"]) == text
    file = tmp_path / "run.resume"
    before = judge.identity
    found = evaluate(server_address, RESULTS, DATASET, METRICS, judge, resume=file)
    assert found.judge == before
    judge = LocalJudge(names["judge"], "own")
    assert judge.identity != before
    with pytest.raises(FileError, match="is of an evaluation with judge"):
        evaluate(server_address, RESULTS, DATASET, METRICS, judge, resume=file)
    source.write_text(text)
    linecache.clearcache()
    judge = LocalJudge(names["judge"], "own")
    again = evaluate(server_address, RESULTS, DATASET, METRICS, judge, resume=file)
    assert again.to_json() == found.to_json()


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


def test_a_function_is_refused_where_spans_are_expected(
    evaluate: Evaluate, server_address: str, tmp_path: Path
):
    def never(query: str, k: int) -> list[str]:
        raise AssertionError("nothing is retrieved")

    spans = Dataset([Query("q0", "question", expected_spans=[SPAN]), Query("q1", "another")])
    file = tmp_path / "run.resume"
    for judge in (bool, LocalJudge(bool)):
        with pytest.raises(InvalidArgument, match="judge: a function judges texts") as caught:
            evaluate(server_address, never, spans, METRICS, judge, resume=file)
        assert caught.value.field == "judge"


class Overlap:
    """A judge as Evret has them: an object with a method."""

    def __init__(self, ratio: float) -> None:
        self.ratio = ratio

    def judge(self, context: Any) -> bool:
        expected = set(context.expected_text.split())
        return len(expected & set(context.retrieved_text.split())) >= self.ratio * len(expected)


def test_an_object_with_a_method_judge_is_a_judge(evaluate: Evaluate, server_address: str):
    found = {
        ratio: evaluate(server_address, RESULTS, DATASET, METRICS, Overlap(ratio))
        for ratio in (0.5, 1.1)
    }
    assert [one.table["mrr@2"].mean for one in found.values()] == [1.0, 0.0]
    # What the object holds is part of its name: numbers of one are not those of the other.
    signatures = {one.judge.signature for one in found.values()}
    assert len(signatures) == 2
    assert all("Overlap|sha:" in signature for signature in signatures)
    again = evaluate(server_address, RESULTS, DATASET, METRICS, Overlap(0.5))
    assert again.judge == found[0.5].judge


def test_grades_of_a_judge_of_ones_own_are_gains(evaluate: Evaluate, server_address: str):
    def grade(context: Any) -> int:
        return 3 if context.retrieved_text == context.expected_text else 1

    metrics = ["ndcg@2", "precision@2"]
    graded = evaluate(
        server_address, RESULTS, DATASET, metrics, LocalJudge(grade, name="grade", max_grade=3)
    )
    best = 3 + 1 / math.log2(3)
    assert graded.table["ndcg@2"].mean == pytest.approx((1 + 3 / math.log2(3)) / best)
    assert graded.table["precision@2"].mean == 0.5  # a third is below the threshold of one half
    assert graded.judge.max_grade == 3
    # Without the top of the scale nothing is guessed.
    unknown = evaluate(server_address, RESULTS, DATASET, metrics, LocalJudge(grade, name="grade"))
    said = {r.error for q in unknown.queries for r in q.retrieved if r.status == "ERROR"}
    assert any("max_grade=3" in str(one) for one in said), unknown.queries[0].retrieved
