"""`Evaluator.evaluate` with real servers: sources, judges, interruptions, and what docs show."""

from __future__ import annotations

import math
import os
import random
import re
from pathlib import Path

import pytest
from judged import (
    Client,
    InvalidArgument,
    MetricOptions,
    NotFound,
)
from judged.evaluation import (
    Dataset,
    Evaluator,
    FileError,
    LocalJudge,
    Progress,
    Query,
    Retrieved,
)
from judged.testing import assert_metric

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "evaluator.md").read_text("utf-8")
PAGE = PAGE.partition("## Results of evaluations")[0]
ROUNDS = int(os.environ.get("JUDGED_INTERRUPTIONS", "8"))
METRICS = ["mrr@3", "recall@2", "ndcg@3"]
WORDS = ["books may be kept four weeks", "late books cost twenty cents", "rooms have forty seats"]


def dataset(n: int = 12) -> Dataset:
    return Dataset(
        [
            Query(
                f"q{i}",
                f"question {i}",
                [WORDS[i % 3], f"answer number {i} of many"],
                (),
                (),
                [WORDS[(i + 1) % 3]] if i % 2 else (),
                {"kind": str(i % 2)},
            )
            for i in range(n)
        ]
    )


def shelf(query: str, k: int) -> list[Retrieved]:
    shift = int(query.split()[1]) % 3
    texts = [WORDS[(shift + place) % 3] for place in (2, 0, 1)]
    return [Retrieved(f"d{rank}", 1.0 - rank, text) for rank, text in enumerate(texts)][:k]


def test_a_retriever_a_batch_and_given_results_give_the_same(client: Client):
    class Batch:
        def batch_retrieve(self, queries, k):
            return [[vars_of(result) for result in shelf(query, k)] for query in queries]

    def vars_of(result):
        return {"id": result.doc_id, "score": result.score, "metadata": {"text": result.text}}

    given = {query.query_id: shelf(query.text, 3) for query in dataset().queries}
    documents = [
        Evaluator(client).evaluate(source, dataset(), METRICS).to_dict() | {"k": None}
        for source in (shelf, Batch(), given)
    ]
    assert documents[0] == documents[1] == documents[2]
    assert documents[0]["metrics"]["mrr@3"]["mean"] == 0.5
    first = documents[0]["queries"][0]["retrieved"]
    assert [(r["rank"], r["document_id"], r["relevant"], r["matches"]) for r in first] == [
        (1, "d0", False, []),
        (2, "d1", True, [0]),
        (3, "d2", False, []),
    ]
    assert documents[0]["metrics"]["mrr@3"]["interval"]["lower"] == 0.5
    assert documents[0]["negatives"]["queries_hit"] == 6


def test_a_python_judge_gives_the_numbers_of_the_same_judge_of_the_server(client: Client):
    def exact(context):
        return float(context.expected_text == context.retrieved_text)

    options = MetricOptions(slice_by=["kind"])
    theirs = Evaluator(client).evaluate(shelf, dataset(), METRICS, "exact", None, options).to_dict()
    ours = Evaluator(client).evaluate(shelf, dataset(), METRICS, exact, None, options)
    assert re.fullmatch(r"local\|.*exact\|sha:\w{8}\|min_score:0.5", ours.judge.signature)
    named = {"judge": None, "signature": None}
    assert ours.to_dict() | named == theirs | named


def test_what_a_python_judge_can_not_say_is_a_missing_verdict(client: Client):
    def faulty(context):
        if context.query == "question 0":
            raise ValueError("no idea")
        return {"question 1": None, "question 2": 3}.get(context.query, True)

    found = Evaluator(client).evaluate(shelf, dataset(4), METRICS, faulty)
    statuses = [query.retrieved[0].status for query in found.queries]
    assert statuses == ["ERROR", "ABSTAINED", "ERROR", "OK"]
    assert found.queries[0].retrieved[0].error == "JUDGE_FAILED: ValueError: no idea"
    assert (found["mrr@3"].lower_bound, found["mrr@3"].upper_bound) == (0.25, 1.0)
    assert any("no idea" in warning for warning in found.warnings)


def test_failures_are_those_of_their_queries_and_threads_change_nothing(client: Client):
    def fails(query: str, k: int) -> list[Retrieved]:
        if query == "question 3":
            raise OSError("no shelf")
        return shelf(query, k)

    told: list[Progress] = []
    one = Evaluator(client).evaluate(fails, dataset(), METRICS)
    many = Evaluator(client).evaluate(
        fails, dataset(), METRICS, concurrency=5, progress=told.append
    )
    assert one.failures == {"q3": "OSError: no shelf"}
    mean, n = one["mrr@3"].mean, one["mrr@3"].n
    with pytest.raises(AssertionError, match="1 on which the retriever failed, counted as 0"):
        assert_metric(one, "mrr@3", min_score=mean * n / (n + 1) + 1e-6)
    assert_metric(one, "mrr@3", min_score=mean * n / (n + 1))
    assert one.to_json() == many.to_json()
    assert {step.stage for step in told} == {"retrieving", "judging"}
    assert (told[-1].done, told[-1].remaining_s) == (told[-1].total, 0)
    assert re.fullmatch(r"judging \d+/\d+, 0 s left", str(told[-1]))


def test_a_negative_that_was_retrieved_and_a_key_that_slices_nothing_are_warnings(client: Client):
    asked = Dataset([Query("q1", "what", ["new"], negative_answers=["old"])])
    options = MetricOptions(slice_by=["lang"])
    found = Evaluator(client).evaluate({"q1": ["old"]}, asked, ["mrr"], "exact", options=options)
    assert found.warnings == [
        "slices by lang: no query has this key in its metadata",
        "1 of 1 query with negative answers retrieved one, the first 'q1'",
    ]


class Interrupted(BaseException):
    """Ends a run at once, as the interrupt key does."""


def test_an_interrupted_evaluation_goes_on_where_it_ended(client: Client, tmp_path: Path):
    """At random moments, in retrieving as in judging; nothing that was finished is asked again."""
    rng = random.Random(19)
    wanted = Evaluator(client).evaluate(shelf, dataset(), METRICS, judge=LocalJudge(_same, "j"))
    for number in range(ROUNDS):
        calls: list[str] = []
        left = rng.randrange(1, 12 + 12 * 6 + 6 * 3)  # queries, contexts, and those of negatives

        def step(what: str, calls: list[str] = calls) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise Interrupted
            calls.append(what)

        def retrieve(query: str, k: int) -> list[Retrieved]:
            step(query)
            return shelf(query, k)

        def judge(context) -> bool:
            step(f"{context}")
            return _same(context)

        resume = tmp_path / f"{number}.resume"
        how = {"judge": LocalJudge(judge, "j"), "resume": resume}
        with pytest.raises(Interrupted):
            Evaluator(client).evaluate(retrieve, dataset(), METRICS, **how)
        if rng.random() < 0.5:  # half a line, as a kill leaves it
            resume.write_bytes(resume.read_bytes() + b'{"query_id": "q')
        again = Evaluator(client).evaluate(retrieve, dataset(), METRICS, **how)
        found = again.to_dict() | {"judge": None, "signature": None}
        assert found == wanted.to_dict() | {"judge": None, "signature": None}
        asked = [call for call in calls if call.startswith("question")]
        assert sorted(asked) == sorted(query.text for query in dataset().queries)
        once = Evaluator(client).evaluate(retrieve, dataset(), METRICS, **how)
        assert once.to_json() == again.to_json()
        assert len([call for call in calls if call.startswith("question")]) == 12


def _same(context) -> bool:
    return context.expected_text == context.retrieved_text


def test_a_servers_judge_is_resumed_too_and_gives_the_same_document(client: Client, tmp_path: Path):
    whole = Evaluator(client).evaluate(shelf, dataset(), METRICS, "token_overlap")
    how = {"resume": tmp_path / "run.resume"}
    first = Evaluator(client).evaluate(shelf, dataset(), METRICS, "token_overlap", **how)
    lines = (tmp_path / "run.resume").read_bytes().splitlines(keepends=True)
    (tmp_path / "run.resume").write_bytes(b"".join(lines[:-5]))
    again = Evaluator(client).evaluate(shelf, dataset(), METRICS, "token_overlap", **how)
    assert whole.to_json() == first.to_json() == again.to_json()
    with pytest.raises(FileError, match="judge 'token_overlap', and now it is 'exact'"):
        Evaluator(client).evaluate(shelf, dataset(), METRICS, "exact", **how)
    with pytest.raises(FileError, match="is of an evaluation with dataset"):
        Evaluator(client).evaluate(shelf, dataset(3), METRICS, "token_overlap", **how)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"metrics": ["recip_rank"]}, "metrics.0.: no metric is called .*; did you mean mrr"),
        ({"metrics": ["mrr@3", "mrr"]}, "k: name how many documents .* as in k=10 or mrr@10"),
        ({"source": {"q0": {"a", "b"}}}, r"results\['q0'\]: is a set, which has no order"),
        ({"source": {"q0": [{"id": 1, "score": math.nan}]}}, r"\['q0'\]\[0\].score: .* finite"),
        (
            {"source": {"q0": [{"page_content": "a"}]}},
            "doc_id, text and score, not one with page_con",
        ),
        ({"dataset": Dataset([])}, "dataset: holds no queries"),
        ({"source": {"x": ["a"]}}, "no query of the results is in the dataset"),
        ({"source": 3}, "retriever: must have a method retrieve"),
        ({"source": lambda query: []}, "takes 1 positional argument but 2"),
        ({"judge": 3}, "judge: must be"),
        ({"concurrency": 0}, "concurrency: must be 1 or more"),
    ],
)
def test_what_is_wrong_is_named(client: Client, given, problem):
    how = {"source": shelf, "dataset": dataset(), "metrics": METRICS} | given
    with pytest.raises((InvalidArgument, Exception), match=problem):
        Evaluator(client).evaluate(**how)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"metrics": ["mrr@3", "ncdg@3"]}, InvalidArgument),
        ({"judge": "nobody"}, NotFound),
        ({"options": MetricOptions(relevance_level=2)}, InvalidArgument),
        ({"judge": lambda context: True, "metrics": ["mrr@3", "ncdg@3"]}, InvalidArgument),
        ({"metrics": ["precision_exact@3"], "resume": "kept.jsonl"}, InvalidArgument),
    ],
)
def test_what_the_server_refuses_is_told_before_a_retriever_runs(
    client: Client, tmp_path: Path, given, error
):
    asked = []

    def find(query, k):
        asked.append(query)
        return []

    how = {"dataset": dataset(), "metrics": METRICS} | given
    if "resume" in how:
        how["resume"] = tmp_path / how["resume"]
    with pytest.raises(error):
        Evaluator(client).evaluate(find, **how)
    assert asked == []


def test_the_page_prints_what_it_shows(server_address: str, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    snippets = [
        code.replace("127.0.0.1:8470", server_address)
        for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    ]
    names: dict[str, object] = {}
    exec(snippets[0], names)  # noqa: S102 - our own page
    shown = re.search(r"```\n(metric .*?)```", PAGE, re.DOTALL)
    assert capsys.readouterr().out == shown[1]
    assert (tmp_path / "queries.csv").read_text().startswith("query_id,query,")
    with Client(server_address) as client:
        names["client"] = client
        for code in snippets[1:]:
            exec(code, names)  # noqa: S102 - our own page
    assert (tmp_path / "run.resume").exists()
