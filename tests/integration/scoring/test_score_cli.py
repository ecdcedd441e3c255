"""Answers scored by the clients and by `judged score`: a real server, a scripted provider."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from judged import (
    AnswerItem,
    Asking,
    AsyncClient,
    CacheMode,
    Client,
    FailedPrecondition,
    InvalidArgument,
    Judge,
    NotFound,
    QueryGroup,
    Rubric,
    ScoredAnswers,
    Status,
)
from judged.cli.app import run
from judged.evaluation import AnswerEvaluation, FileError, Question, evaluate_answers
from judged.traces import ScoreReplay, Trace, TraceFile

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Answer, Asked, Said, ScriptedProvider
from tests.integration.cli_process import lines_of, run_in
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server

ROOT = Path(__file__).resolve().parents[3]

Run = Callable[..., tuple[int, str]]
_BLOCK = re.compile(r'<data-\w+ name="(\w+)">\n(.*)\n</data-')
QUALITY = {
    "relevance": 0.9,
    "completeness": 0.8,
    "accuracy": 0.9,
    "source_attribution": 0.85,
    "coherence": 0.8,
}
ANSWERS = [
    {"item_id": "good", "query": "q", "answer": "one. two", "contexts": ["c"]},
    {"query": "q", "answer": "false. two", "contexts": ["c"]},
    {"item_id": "empty", "query": "q", "answer": "", "contexts": ["c"]},
]


def script(asked: Asked) -> Said:
    """Judge as the words of the answer say: "false" is refuted, "split" is a no once in three."""
    if "response_format" not in asked.body:  # a system under evaluation, not a judge
        return f"about {asked.user}"
    texts = {name: json.loads(text) for name, text in _BLOCK.findall(asked.user)}
    form = asked.body["response_format"]["json_schema"]["schema"]["properties"]
    if "claims" in form:
        return {"claims": str(texts["answer"]).split(". ")}
    if "evidence" in form:
        refuted = "false" in str(texts["claim"])
        return {"evidence": "e", "verdict": "CONTRADICTED" if refuted else "SUPPORTED"}
    if "relevance" in form:
        return dict.fromkeys(form, 0.5) | QUALITY | {"reasoning": "weighed", "overall": 0.1}
    answer = str(texts["answer"])
    if "refuse" in answer:
        return Answer("", refusal="no")
    bad = "false" in answer or ("split" in answer and asked.body["seed"] == 1)
    if "verdict" in form:
        return {"reasoning": "compared", "verdict": "no" if bad else "yes"}
    return {"reasoning": "because", "score": 0.2 if bad else 0.9}


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script) as running:
        yield running


@pytest.fixture(scope="module")
def llm_server(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    config = llm_config(tmp_path_factory.mktemp("llm"), provider, {"small": priced(1.0, 2.0)})
    with running_server("--llm-config", config, "--llm-cache", "memory") as ready:
        yield ready


@pytest.fixture
def llm(llm_server: ServerProcess) -> Iterator[Client]:
    with Client(llm_server.address) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, ANSWERS)
    return tmp_path


def write(folder: Path, answers: list[dict[str, object]]) -> None:
    lines = "".join(json.dumps(answer) + "\n" for answer in answers)
    (folder / "answers.jsonl").write_text(lines)


@pytest.fixture
def run_here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs `judged score` in this process, where there is much to try; standard output is empty."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run_command(*flags: str, folder: Path, server: ServerProcess) -> tuple[int, str]:
        monkeypatch.chdir(folder)
        status = run(["score", "answers.jsonl", "--target", server.address, *flags])
        captured = capsys.readouterr()
        assert captured.out == ""
        return status, captured.err

    yield run_command
    for number, handler in kept.items():
        signal.signal(number, handler)


def items(n: int, context: str = "c") -> list[AnswerItem]:
    """Answers of which every third is bad, every fifth refused and every seventh empty."""
    words = {0: "false", 1: "fine", 2: "good"}
    texts = [
        "" if i % 7 == 6 else "refuse" if i % 5 == 4 else f"{words[i % 3]} {i}" for i in range(n)
    ]
    return [AnswerItem(f"i{i}", "q", text, ["r"], [context]) for i, text in enumerate(texts)]


def values(found: ScoredAnswers) -> list[tuple[object, ...]]:
    return [(s.item_id, s.rubric, s.status, s.score, s.passed) for s in found]


class TestClients:
    RUBRICS = ("answer_relevance", "answer_match")

    async def test_parts_give_what_one_call_gives(self, llm_server: ServerProcess):
        many = items(40, "c" * 140_000)  # a message holds seven of them
        with Client(llm_server.address) as client:
            whole = client.score_answers(items(40), self.RUBRICS)
            seen: list[tuple[int, int]] = []
            parts = client.score_answers(many, self.RUBRICS, progress=lambda *now: seen.append(now))
            streamed = list(client.stream_scores(many, self.RUBRICS))
        async with AsyncClient(llm_server.address) as client:
            from_tasks = await client.score_answers(many, self.RUBRICS)
        assert values(whole) == values(parts) == values(from_tasks)
        assert sorted(values(whole)) == sorted((*v,) for v in values(streamed))
        assert whole.rubrics == parts.rubrics == from_tasks.rubrics
        assert seen == [(n, 80) for n in range(1, 81)]
        relevance = whole.summary("answer_relevance")
        counts = relevance.counts
        assert (counts.ok, counts.abstained, counts.not_assessable, counts.error) == (28, 7, 5, 0)
        good = [s.score for s in whole if s.rubric == "answer_relevance" and s.score is not None]
        assert relevance.mean == pytest.approx(sum(good) / 28)
        assert parts.usage.cached == 56  # what was refused is never kept

    def test_claims_dimensions_and_replies(self, llm: Client):
        found = llm.score_answers(
            [AnswerItem("x", "q", "one. false", contexts=["c"])],
            ["faithfulness", Rubric("answer_quality", weights={"accuracy": 3, "coherence": 1})],
            include_replies=True,
        )
        faithful, quality = found
        assert [c.verdict.name for c in faithful.claims] == ["SUPPORTED", "CONTRADICTED"]
        assert (faithful.score, faithful.passed) == (0.5, False)
        assert quality.score == pytest.approx((3 * 0.9 + 0.8) / 4)
        assert quality.reported_overall == 0.1
        weights = {d.name: d.weight for d in quality.dimensions}
        assert (weights["accuracy"], weights["coherence"]) == (0.75, 0.25)
        assert json.loads(quality.raw_replies[0])["reasoning"] == "weighed"
        assert quality.judge is not None
        assert quality.judge.kind == "answers"

    def test_an_error_names_the_item_of_the_whole(self, llm: Client):
        some = [*items(5, "c" * 500_000), AnswerItem("", "q", "a")]
        with pytest.raises(InvalidArgument, match=r"^items\[5\]\.item_id"):
            llm.score_answers(some, ["answer_relevance"])

    def test_unknown_rubrics_and_models_are_refused(self, llm: Client):
        with pytest.raises(NotFound) as caught:
            llm.score_answers(items(1), ["answer_relevanse"])
        assert caught.value.reason == "UNKNOWN_RUBRIC"
        with pytest.raises(FailedPrecondition, match="small"):
            llm.score_answers(items(1), [Rubric("answer_relevance", parameters={"model": "x"})])

    async def test_a_version_is_pinned(self, llm_server: ServerProcess, llm: Client):
        pinned, other = ["helpfulness@1", "answer_relevance"], ["helpfulness@2"]
        found = llm.score_answers(items(3), pinned)
        assert [summary.rubric for summary in found.rubrics] == ["helpfulness", "answer_relevance"]
        alone = llm.score_answers(items(3), ["helpfulness", "answer_relevance"])
        assert values(found) == values(alone)
        with pytest.raises(NotFound, match="it has helpfulness@1"):
            llm.score_answers(items(1), other)
        async with AsyncClient(llm_server.address) as client:
            assert values(await client.score_answers(items(3), pinned)) == values(found)
            with pytest.raises(NotFound, match="it has helpfulness@1"):
                await client.score_answers(items(1), other)
        group, by = [QueryGroup("q", ["e"], ["r"])], {"rubric": "retrieval_match@1"}
        assert llm.estimate(group, Judge("llm", parameters=by)).calls == 1
        with pytest.raises(InvalidArgument, match="retrieval_match@1"):
            llm.estimate(group, Judge("llm", parameters={"rubric": "retrieval_match@2"}))

    def test_cache_only(self, llm: Client, provider: ScriptedProvider):
        fresh = [AnswerItem("x", "never asked", "fine")]

        def asked() -> int:
            return sum("never asked" in each.user for each in provider.asked)

        only = Asking(CacheMode.ONLY)
        found = llm.score_answers(fresh, ["helpfulness"], asking=only)
        assert found.errors[0].reason == "NOT_CACHED"
        assert asked() == 0
        llm.score_answers(fresh, ["helpfulness"])
        assert llm.score_answers(fresh, ["helpfulness"], asking=only)[0].status is Status.OK
        assert asked() == 1


class TestEvaluateAnswers:
    def test_a_chat_server_is_asked_and_scored(
        self, llm: Client, provider: ScriptedProvider, tmp_path: Path
    ):
        questions = [
            Question("1", "what is RAG", ["r"], ["c"]),
            Question("2", "false friends", ["r"], ["c"]),
        ]
        page = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8")
        section = page.partition("## Systems that are chat servers")[2]
        names: dict[str, Any] = {}
        exec(section.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - the page
        system = names["ChatSystem"]("scripted-1", base_url=provider.base_url, api_key="none")
        for resumed in (False, True):
            found = evaluate_answers(
                questions,
                system,
                ["answer_match", "answer_relevance"],
                client=llm,
                resume=tmp_path / "answers.jsonl",
            )
            assert found.failures == []
            assert [item.resumed for item in found.items] == [resumed] * 2
            first, second = found.items
            assert first.answer is not None
            assert first.answer.text == "about [1] c\n\nQuestion: what is RAG"
            assert first.scores["answer_match"].passed
            assert second.scores["answer_relevance"].score == 0.2
            assert found.summary("answer_match").mean == 0.5
        asked = [a for a in provider.asked if "response_format" not in a.body]
        assert len(asked) == 2

    @pytest.mark.parametrize("hashed", [False, True])
    def test_its_trace_is_read_back_by_library_and_command(
        self, llm: Client, llm_server: ServerProcess, tmp_path: Path, hashed: bool
    ):
        questions = [Question("1", "q", ["r"], ["c"]), Question("2", "q", ["r"], ["c"])]
        path = tmp_path / "t.jsonl"

        def evaluated(rubric: str, trace: TraceFile | None) -> AnswerEvaluation:
            def system(query: str, contexts: Sequence[str] = ()) -> str:
                return "one. two"

            return evaluate_answers(questions, system, [rubric], client=llm, trace=trace)

        found = {
            rubric: evaluated(rubric, TraceFile(path, hashed=hashed))
            for rubric in ("faithfulness", "answer_match")
        }
        assert ("one. two" in path.read_text()) is not hashed
        items = [AnswerItem(q.item_id, "q", "one. two", ["r"], ["c"]) for q in questions]
        known = llm.server_info().rubrics
        for rubric, evaluation in found.items():
            replayed = ScoreReplay(Trace.read(path)).scores(items, [Rubric(rubric)], known)
            scored = [item.scores[rubric] for item in evaluation.items]
            assert [s.score for s in replayed] == [s.score for s in scored]
            assert [s.passed for s in replayed] == [s.passed for s in scored]
        lines = [
            {"item_id": i.item_id, "query": "q", "answer": i.answer}
            | {"references": ["r"], "contexts": ["c"]}
            for i in items
        ]
        (tmp_path / "answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = run_in(
            tmp_path,
            *("score", "answers.jsonl", "--rubric", "faithfulness", "--json", "out.json"),
            *("--judge", "none", "--trace", "t.jsonl"),
            JUDGED_TARGET=llm_server.address,
        )
        assert done.returncode == 0, done.stderr
        summaries = json.loads((tmp_path / "out.json").read_text())["rubrics"]
        (expected,) = found["faithfulness"].rubrics
        assert summaries["faithfulness"]["mean"] == expected.mean

    def test_a_trace_that_is_none_is_refused_before_anybody_is_asked(
        self, llm: Client, tmp_path: Path
    ):
        (tmp_path / "t.jsonl").write_text("{}\n")
        with pytest.raises(FileError, match="no header of a trace"):
            TraceFile(tmp_path / "t.jsonl")


class TestCommandLine:
    def test_a_row_a_rubric(self, llm_server: ServerProcess, folder: Path):
        done = run_in(
            folder,
            *("score", "answers.jsonl", "--rubric", "faithfulness@1"),
            *("--rubric", "answer_relevance", "--per-item", "--json", "out.json"),
            *("--judge-model", "small"),
            JUDGED_TARGET=llm_server.address,
        )
        assert done.returncode == 0, done.stderr
        rows = [re.split(r"\s{2,}", line) for line in done.stdout.splitlines()]
        assert ["2", "0.5000 (below)", "0.2000 (below)"] in rows  # by the number of its line
        assert ["empty", "not assessable", "not assessable"] in rows
        assert ["faithfulness", "0.7500", "1 of 2", "2", "0", "0", "1", "-"] in rows
        assert ["answer_relevance", "0.5500", "1 of 2", "2", "0", "0", "1", "-"] in rows
        assert "3 answers by 2 rubrics\njudge answers|" in done.stdout
        assert "2 of 6 scores are missing: 2 not assessable" in done.stderr
        document = json.loads((folder / "out.json").read_text())
        assert document["rubrics"]["faithfulness"]["mean"] == 0.75
        assert document["rubrics"]["faithfulness"]["counts"]["not_assessable"] == 1
        assert len(document["scores"]) == 6
        assert document["usage"]["calls"] + document["usage"]["cached"] > 0
        assert len(document["warnings"]) == 3

    def test_a_line_a_score(self, llm_server: ServerProcess, folder: Path):
        done = run_in(
            folder,
            *("score", "-", "--rubric", "answer_quality", "--output", "-", "--details"),
            stdin=json.dumps(ANSWERS[0]),
            JUDGED_TARGET=llm_server.address,
        )
        assert done.returncode == 0, done.stderr
        (line,) = lines_of(done.stdout)
        assert (line["item_id"], line["rubric"], line["status"]) == ("good", "answer_quality", "OK")
        assert line["score"] == pytest.approx(0.85)
        assert line["reported_overall"] == 0.1
        assert line["dimensions"] == {**QUALITY, "confidence": 0.5}
        assert line["detail"]["reasoning"] == "weighed"
        assert len(line["detail"]["raw_replies"]) == 1
        assert "1 answer by 1 rubric" in done.stderr

    def test_weights_bar_and_votes(self, llm_server: ServerProcess, tmp_path: Path):
        write(tmp_path, [{"query": "q", "answer": "split", "contexts": ["c"]}])
        done = run_in(
            tmp_path,
            *("score", "answers.jsonl", "--rubric", "answer_quality", "--rubric", "helpfulness"),
            *("--weights", "accuracy=1", "--min-score", "0.8", "--judge-samples", "3"),
            *("--judge-temperature", "0.5", "--judge-max-tokens", "99", "--output", "scores"),
            *("--strict", "--param", "max_context_tokens=512"),
            JUDGED_TARGET=llm_server.address,
        )
        assert done.returncode == 1  # a warning, and it is strict
        assert "votes on both sides" in done.stderr
        quality, helpful = lines_of((tmp_path / "scores").read_text())
        assert quality["score"] == pytest.approx(0.9)
        assert (quality["min_score"], quality["passed"], quality["samples"]) == (0.8, True, 3)
        assert helpful["agreement"] == pytest.approx(2 / 3)
        assert (helpful["score"], helpful["passed"]) == (pytest.approx(2 / 3), False)
        assert "temperature:0.5" in done.stdout

    @pytest.mark.parametrize(("threshold", "status"), [("0.55", 0), ("0.56", 1)])
    def test_gates(self, llm_server: ServerProcess, folder: Path, threshold: str, status: int):
        done = run_in(
            folder,
            *("score", "answers.jsonl", "--rubric", "answer_relevance", "--json", "-"),
            *("--min-score", f"answer_relevance={threshold}"),
            JUDGED_TARGET=llm_server.address,
        )
        assert done.returncode == status
        assert ("fell short: answer_relevance is 0.5500, 0.0100 below" in done.stderr) == status
        gate, coverage = json.loads(done.stdout)["gates"]
        assert (coverage["gate"], coverage["value"], coverage["passed"]) == (
            "min_coverage",
            1,
            True,
        )
        assert f"judged: {gate.pop('message')}\n" in done.stderr
        assert gate == {
            "gate": "min_score",
            "metric": "answer_relevance",
            "threshold": float(threshold),
            "value": pytest.approx(0.55),
            "worst_case": pytest.approx(0.55),
            "passed": not status,
        }

    def test_a_gate_on_nothing_ends_with_2(self, llm_server: ServerProcess, tmp_path: Path):
        write(tmp_path, [{"query": "q", "answer": ""}])
        done = run_in(
            tmp_path,
            *("score", "answers.jsonl", "--rubric", "helpfulness"),
            *("--min-score", "helpfulness=0"),
            JUDGED_TARGET=llm_server.address,
        )
        assert done.returncode == 2
        assert "helpfulness has no mean, since no answer has a score" in done.stderr

    def test_cache_only_refresh(
        self, llm_server: ServerProcess, provider: ScriptedProvider, tmp_path: Path
    ):
        write(tmp_path, [{"query": "of the cache", "answer": "fine"}])
        command = ("score", "answers.jsonl", "--rubric", "helpfulness")
        target = {"JUDGED_TARGET": llm_server.address}

        def asked() -> int:
            return sum("of the cache" in each.user for each in provider.asked)

        missed = run_in(tmp_path, *command, "--cache-only", **target)
        assert missed.returncode == 2
        assert "1 of 1" in missed.stderr
        assert "without --cache-only" in missed.stderr
        assert missed.stdout == ""
        assert asked() == 0
        assert run_in(tmp_path, *command, **target).returncode == 0
        assert run_in(tmp_path, *command, "--cache-only", **target).returncode == 0
        assert asked() == 1
        assert run_in(tmp_path, *command, "--judge-refresh", **target).returncode == 0
        assert asked() == 2

    @pytest.mark.parametrize(
        ("answers", "message"),
        [
            ('{"query": "q", "answer": "a"}\n{"query": "q"}', "answers.jsonl:2: has no 'answer'"),
            ('{"query": "q", "answer": 3}', "answers.jsonl:1: has 'answer' that is not text"),
            ('{"query": "q", "answer": "a", "contexts": "c"}', ":1: has 'contexts' that is not a"),
            ("{", "answers.jsonl:1: is not JSON"),
            ("", "answers.jsonl: holds nothing to score; write lines of {query, answer}"),
            (
                '{"id": 1, "query": "q", "answer": "a"}\n\n{"id": "1", "query": "", "answer": ""}',
                "answers.jsonl:3: item '1' was on line 1 already",
            ),
            (
                json.dumps({"query": "q", "answer": "a"})
                + "\n"
                + json.dumps({"query": "q", "answer": "x" * (1 << 21)}),
                "answers.jsonl:2: 'answer': ",
            ),
        ],
    )
    def test_names_the_line_that_is_wrong(
        self, run_here: Run, llm_server: ServerProcess, tmp_path: Path, answers: str, message: str
    ):
        (tmp_path / "answers.jsonl").write_text(answers)
        status, said = run_here("--rubric", "helpfulness", folder=tmp_path, server=llm_server)
        assert status == 2
        assert message in said
        assert len(said.splitlines()) == 1

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (
                ["--rubric", "helpfulnes"],
                "--rubric helpfulnes: no rubric has this id; this server scores",
            ),
            (["--rubric", "helpfulnes"], "did you mean helpfulness?"),
            (["--rubric", "helpfulness"] * 2, "--rubric helpfulness: is given twice"),
            (
                ["--rubric", "helpfulness", "--min-score", "faithfulness=1"],
                "--min-score faithfulness=1: faithfulness is not scored; add --rubric faithfulness",
            ),
            (
                ["--rubric", "helpfulness", "--min-score", "high"],
                "--min-score high: the threshold of",
            ),
            (["--rubric", "helpfulness", "--min-score", "7"], "--min-score: "),
            (["--rubric", "helpfulness", "--judge-samples", "99"], "--judge-samples: "),
            (["--rubric", "helpfulness", "--judge-temperature", "9"], "--judge-temperature: "),
            (["--rubric", "helpfulness", "--param", "temperature=9"], "--param temperature: must"),
            (["--rubric", "helpfulness", "--judge-model", "gpt"], "this server knows small"),
            (["--rubric", "helpfulness", "--param", "seed=1"], "--param seed: judge answers has"),
            (
                ["--rubric", "helpfulness", "--param", "samples=1", "--judge-samples", "1"],
                "--param samples: is given by --judge-samples already",
            ),
            (["--rubric", "helpfulness", "--weights", "a=1"], "--weights: no rubric of helpful"),
            (["--rubric", "answer_quality", "--weights", "a=1"], "--weights: no rubric has all of"),
            (["--rubric", "answer_quality", "--weights", "accuracy"], "--weights accuracy: write"),
            (["--rubric", "answer_quality", "--weights", "accuracy=0"], "--weights: "),
            (
                ["--rubric", "helpfulness", "--judge-refresh", "--cache-only"],
                "exclude each other",
            ),
        ],
    )
    def test_names_the_flag_that_is_wrong(
        self, run_here: Run, llm_server: ServerProcess, folder: Path, flags: list[str], message: str
    ):
        status, said = run_here(*flags, folder=folder, server=llm_server)
        assert status == 2
        assert message in said
        assert len(said.splitlines()) == 1

    def test_a_server_without_models_says_what_to_do(self, server_address: str, folder: Path):
        done = run_in(
            folder, "score", "answers.jsonl", "--rubric", "helpfulness", "--target", server_address
        )
        assert done.returncode == 2
        assert "--llm-config" in done.stderr
