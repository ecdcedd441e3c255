"""Limits on cost through a real server: what is asked, and what an estimate promised."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from judged import AnswerItem, Asking, Client, InvalidArgument, Judge, QueryGroup
from judged._convert import read_reason
from judged.evaluation import Evaluator
from judged.v1 import groups_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.cli_process import Commands, fill
from tests.integration.llm.budgeted_server import answers, budgeted_server, reasons, say, work
from tests.integration.server_process import ServerProcess

script = say


@pytest.fixture(scope="module")
def free(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    """A server without a budget, but with an unpriced model."""
    more = '[[models]]\nname = "unpriced"\nprovider = "scripted"\nmodel = "scripted-1"\n'
    with budgeted_server(provider, tmp_path_factory.mktemp("free"), more) as ready:
        yield ready


@pytest.fixture(scope="module")
def target(free: ServerProcess) -> str:
    return free.address


def estimate(stub: JudgeServiceStub, **work: Any) -> pb.EstimateBatchResponse:
    return stub.EstimateBatch(pb.EstimateBatchRequest(**work), timeout=60)


class TestEstimate:
    def test_is_above_what_judging_then_takes(self, stub: JudgeServiceStub):
        asked = work("above", 20)
        asked.groups[0].retrieved.append(asked.groups[0].retrieved[0])
        asked.judge.parameters["samples"].int_value = 3
        found = estimate(stub, judge=asked)
        usage = stub.BatchJudge(asked, timeout=60).usage
        assert (found.contexts, found.distinct_texts, found.cache_hits) == (21, 22, 0)
        assert found.calls == usage.calls == 60
        assert usage.input_tokens <= found.input_tokens < 4 * usage.input_tokens
        assert usage.output_tokens <= found.output_tokens == 60 * 256
        assert 0 < usage.cost <= found.cost
        assert found.currency == "EUR"

    def test_the_cache_is_counted_and_nothing_is_asked(
        self, provider: ScriptedProvider, stub: JudgeServiceStub
    ):
        asked = work("known", 4)
        before = provider.requests
        assert estimate(stub, judge=asked).calls == 4
        assert provider.requests == before
        stub.BatchJudge(asked, timeout=60)
        asked.groups[0].retrieved.append("one that is new")
        found = estimate(stub, judge=asked)
        assert (found.cache_hits, found.calls) == (4, 1)
        asked.asking.cache = groups_pb2.CACHE_MODE_REFRESH
        assert estimate(stub, judge=asked).calls == 5
        asked.asking.cache = groups_pb2.CACHE_MODE_ONLY
        found = estimate(stub, judge=asked)
        assert (found.cache_hits, found.calls, found.cost) == (4, 0, 0)

    def test_a_max_cost_of_the_estimate_lets_all_be_asked(self, stub: JudgeServiceStub):
        asked = work("enough", 30)
        asked.asking.max_cost = estimate(stub, judge=asked).cost
        assert not stub.BatchJudge(asked, timeout=60).verdicts.errors

    @pytest.mark.parametrize(
        "rubric",
        ["answer_match", "answer_quality", "answer_relevance", "context_recall", "faithfulness"],
    )
    def test_is_above_what_scoring_then_takes(self, stub: JudgeServiceStub, rubric: str):
        asked = answers(f"above {rubric}", 3, rubric)
        found = estimate(stub, score=asked)
        _, *scores, last = stub.ScoreAnswers(asked, timeout=60)
        assert {item.score.status for item in scores} == {verdicts_pb2.VERDICT_STATUS_OK}
        usage = last.summary.usage
        assert found.contexts == 3
        assert usage.calls <= found.calls
        assert usage.input_tokens <= found.input_tokens
        assert usage.output_tokens <= found.output_tokens
        assert 0 < usage.cost <= found.cost


class TestMaxCost:
    def test_what_could_exceed_it_is_not_asked(
        self, provider: ScriptedProvider, stub: JudgeServiceStub
    ):
        asked = work("some", 40)
        asked.asking.max_cost = estimate(stub, judge=asked).cost / 4
        before = provider.requests
        reply = stub.BatchJudge(asked, timeout=60)
        assert reasons(reply) == {"BUDGET"}
        error = reply.verdicts.errors[0]
        assert error.code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert not error.retryable
        assert re.match(r"max_cost of \S+ EUR does not cover the most that", error.message)
        assert error.message.endswith("raise max_cost, or send less")
        assert 10 <= reply.usage.calls == provider.requests - before < 40
        assert reply.usage.cost <= asked.asking.max_cost

    def test_what_is_cached_is_free(self, stub: JudgeServiceStub):
        asked = work("again", 3)
        stub.BatchJudge(asked, timeout=60)
        asked.asking.max_cost = 1e-9
        assert not stub.BatchJudge(asked, timeout=60).verdicts.errors

    def test_is_for_the_whole_stream(self, stub: JudgeServiceStub):
        asked = work("stream", 40)
        most = estimate(stub, judge=asked).cost / 4
        start = pb.StreamJudgeStart(judge=asked.judge, asking={"max_cost": most})
        messages = [pb.StreamJudgeRequest(start=start)]
        for number, text in enumerate(asked.groups[0].retrieved):
            one = groups_pb2.QueryGroup(query="q?", expected=["an expected text"], retrieved=[text])
            chunk = pb.JudgeChunk(chunk_id=number, groups=[one])
            messages.append(pb.StreamJudgeRequest(chunk=chunk))
        _, *replies = stub.StreamJudge(iter(messages), timeout=60)
        spent = sum(reply.chunk.usage.cost for reply in replies)
        refused = [reply for reply in replies if reply.chunk.verdicts.errors]
        assert 0 < spent <= most
        assert 0 < len(refused) <= 30

    def test_scores_are_held_to_it_too(self, stub: JudgeServiceStub):
        asked = answers("held", 8, "answer_match")
        asked.asking.max_cost = estimate(stub, score=asked).cost / 7
        _, *scores, last = stub.ScoreAnswers(asked, timeout=60)
        assert {read_reason(item.score.error.reason) for item in scores} == {"", "BUDGET"}
        assert 0 < last.summary.usage.cost <= asked.asking.max_cost


class TestClients:
    GROUP = QueryGroup("q", ["e"], ["one of the client's texts", "another"])

    def test_estimate_and_max_cost(self, free: ServerProcess):
        with Client(free.address) as client:
            found = client.estimate([self.GROUP], "llm")
            assert (found.contexts, found.calls, found.currency) == (2, 2, "EUR")
            assert found.cost is not None
            item = AnswerItem("1", "q?", "an answer of the client's")
            assert client.estimate_scores([item], ["helpfulness"]).calls == 1
            with pytest.raises(InvalidArgument) as caught:
                client.estimate([self.GROUP], Judge("llm", min_score=7))
            assert caught.value.field == "judge.min_score"
            unpriced = Judge("llm", parameters={"model": "unpriced"})
            with pytest.raises(InvalidArgument, match="set input_per_million") as caught:
                client.judge([self.GROUP], unpriced, asking=Asking(max_cost=1))
            assert caught.value.field == "asking.max_cost"

    def test_many_messages_keep_one_limit(self, free: ServerProcess):
        texts = [f"many: {n}" for n in range(1200)]
        with Client(free.address) as client:
            work = [QueryGroup("q", ["e"], texts)]
            whole = client.estimate(work, "llm")
            assert (whole.contexts, whole.calls) == (1200, 1200)
            most = (whole.cost or 0) / 60
            found = client.judge(work, "llm", asking=Asking(max_cost=most))
            assert 0 < (found.usage.cost or 0) <= most
            assert {error.reason for error in found.errors.values()} == {"BUDGET"}
            streamed = Evaluator(client).evaluate_groups(
                [QueryGroup("q", ["f"], texts, "1")], ["mrr"], "llm", asking=Asking(max_cost=most)
            )
            assert 0 < (streamed.usage.cost or 0) <= most


class TestCommandLine:
    def test_estimates(self, judged: Commands, provider: ScriptedProvider, tmp_path: Path):
        line = {"query": "q", "expected_text": "e", "retrieved_text": "of the command line"}
        (tmp_path / "c.jsonl").write_text(json.dumps(line))
        answer = {"item_id": "1", "query": "q", "answer": "of the command line"}
        (tmp_path / "a.jsonl").write_text(json.dumps(answer))
        fill(tmp_path)
        before = provider.requests
        evaluate = ("evaluate", "dataset.json", "--results", "results.jsonl", "-m", "mrr")
        for command, calls in (
            (("judge", "c.jsonl", "--judge", "llm"), 1),
            (("judge", "c.jsonl"), 0),
            ((*evaluate, "--judge", "llm"), 2),
            (("score", "a.jsonl", "--rubric", "helpfulness"), 1),
        ):
            flags = ("--estimate", "--json", "-")
            done = judged.fine(*command, *flags)
            found = json.loads(done.stdout)["estimate"]
            assert (found["calls"], found["currency"]) == (calls, "EUR")
        done = judged("judge", "c.jsonl", "--judge", "llm", "--estimate")
        assert re.search(r"calls +1\n", done.stdout)
        assert re.search(r"cost +0\.\d+ EUR\n", done.stdout)
        assert provider.requests == before
