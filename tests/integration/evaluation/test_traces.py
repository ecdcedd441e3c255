"""Traces from the command line and from Python: written by a run with a model, read without any."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from judged import (
    AnswerItem,
    Client,
    QueryGroup,
    Rubric,
)
from judged.traces import OtherRubric, ScoreReplay, Trace, record_scores

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.integration.cli_process import DATASET, LINES, RESULTS, Commands, fill, lines_of
from tests.integration.server_process import running_server
from tests.integration.traced_world import (
    ANSWERS,
    EVALUATE,
    JUDGE,
    KEY,
    NAME,
    SCORE,
    World,
    configured,
    numbers,
    rewrite,
    script,
)


class TestWithoutProvider:
    def test_metrics_scores_and_verdicts_are_the_same_once_it_is_gone(self, tmp_path: Path):
        fill(tmp_path)
        (tmp_path / "answers.jsonl").write_text("".join(json.dumps(a) + "\n" for a in ANSWERS))
        with ExitStack() as stack:
            provider = stack.enter_context(provider_on_a_thread(script))
            flags = [*configured(provider, tmp_path)[:2], "--llm-cache", "off"]
            with running_server(*flags, env={"SCRIPTED_KEY": KEY}) as server:
                world = Commands(tmp_path, server.address)
                llm = ("--judge", "llm", "--judge-samples", "3", "--trace", "t.jsonl")
                first = world.document(*EVALUATE, *llm)
                judged = world.document(*JUDGE, *llm)
                scored = world.document(*SCORE, "--trace", "t.jsonl")
                stack.close()
                asked = provider.requests
                none = ("--judge", "none", "--trace", "t.jsonl")
                replay = ("--trace-judge", NAME)
                again = world.document(*EVALUATE, *none, *replay)
                rejudged = world.document(*JUDGE, *none, *replay)
                rescored = world.document(*SCORE, *none)
        assert asked > 0
        assert provider.requests == asked
        assert numbers(again) == numbers(first)
        assert json.dumps(again["metrics"]) == json.dumps(first["metrics"])
        assert first["usage"]["calls"] == 6
        assert "usage" not in again
        for line in (*judged["verdicts"], *rejudged["verdicts"]):
            line.pop("source")
        assert rejudged["verdicts"] == judged["verdicts"]
        assert rejudged["signature"] == judged["signature"]
        assert rescored["rubrics"] == scored["rubrics"]
        for line in (*scored["scores"], *rescored["scores"]):
            line.pop("source")
        assert rescored["scores"] == scored["scores"]


class TestFile:
    def test_tells_what_the_judge_said_and_no_secret(self, world: World):
        world.fine(*JUDGE, "--judge", "llm", "--judge-samples", "3", "--trace", "t.jsonl")
        text = (world.folder / "t.jsonl").read_text()
        assert KEY not in text
        header, line, _ = map(json.loads, text.splitlines())
        assert header == {"format": "judged-trace", "version": 1}
        assert line["query"] == LINES[0]["query"]
        judgement = line["judgements"][NAME]
        assert judgement["rationale"] == "read it"
        assert judgement["model"] == "scripted-1-2024-07-18"
        facts = ("status", "passed", "score", "samples", "agreement")
        assert [judgement[name] for name in facts] == ["OK", True, 1.0, 3, 1.0]
        assert judgement["source"] in {"COMPUTED", "CACHE"}

    def test_runs_add_to_it(self, world: World):
        world.fine(*JUDGE, "--judge", "exact", "--trace", "t.jsonl")
        world.fine(*EVALUATE, "--trace", "t.jsonl")
        text = (world.folder / "t.jsonl").read_text()
        assert len(text.splitlines()) == 1 + 2 + 2
        done = world.fine(
            *JUDGE, "--judge", "none", "--trace", "t.jsonl", "--trace-judge", "exact/verbatim"
        )
        assert [line["source"] for line in lines_of(done.stdout)] == ["REPLAY", "REPLAY"]

    def test_negatives_are_replayed_too(self, world: World):
        dataset = {**DATASET, "queries": [{**DATASET["queries"][0], "negative_answers": ["rag x"]}]}
        (world.folder / "dataset.json").write_text(json.dumps(dataset))
        (world.folder / "results.jsonl").write_text(json.dumps(RESULTS[0]))
        first = world.document(*EVALUATE, "--judge", "llm", "--trace", "t.jsonl")
        again = world.document(*EVALUATE, "--judge", "none", "--trace", "t.jsonl")
        assert first["negatives"]["queries_hit"] == 1
        assert again["negatives"] == first["negatives"]
        rewrite(world.folder / "t.jsonl", lambda lines: lines[:-1])
        assert "first that of query 'q1', result 2; " in world.fails(
            *EVALUATE, "--judge", "none", "--trace", "t.jsonl"
        )


class TestBar:
    def test_another_one_is_refused(self, world: World):
        world.fine(*JUDGE, "--trace", "t.jsonl")
        none = (*JUDGE, "--judge", "none", "--trace", "t.jsonl")
        assert "for another one judge again" in world.fails(*none, "--min-score", "0.9")


class TestPython:
    GROUPS = (
        QueryGroup("q", ["e"], ["rag", "x"], query_id="1"),
        QueryGroup("q", (), ["x"], "2", ["d"], ["d"]),
    )

    def test_scores_from_a_trace(self, world: World):
        items = [AnswerItem("a", "q", "one. two", contexts=["one"])]
        trace = Trace()
        with Client(world.server.address) as client:
            known = client.server_info().rubrics
            first = client.score_answers(items, ["faithfulness", "answer_quality"])
        record_scores(trace, items, first.scores)
        path = world.folder / "t.jsonl"
        trace.write(path)
        rubrics = [Rubric(name) for name in ("faithfulness", "answer_quality")]
        again = ScoreReplay(Trace.read(path)).scores(items, rubrics, known)
        assert again.rubrics == first.rubrics
        assert again[0].claims == first[0].claims
        assert again[1].dimensions == first[1].dimensions
        with pytest.raises(OtherRubric, match="which this server lacks"):
            ScoreReplay(trace).scores(items, rubrics, [])
