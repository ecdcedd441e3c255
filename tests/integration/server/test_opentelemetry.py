"""Spans of real servers, as a collector gets them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from judged import AnswerItem, Client, Judge, QueryGroup
from judged.errors import JudgedError

from tests.fakes.otlp_collector import Collector, attributes, running_collector
from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked
from tests.integration.llm_config import llm_config
from tests.integration.server_process import running_server

CANARY = "canary-text"
TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACED = {"traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01"}
GROUP = QueryGroup("q", [f"red green {CANARY}"], ["red green", "x"], "query-7")
PRICED = AnswerItem("chatcmpl-8", "q", CANARY, ["a"])


def reply(asked: Asked) -> dict[str, str]:
    return {"reasoning": f"it says {CANARY}", "verdict": "yes"}


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with provider_on_a_thread(reply) as provider:
        yield llm_config(tmp_path_factory.mktemp("traced"), provider)


@dataclass(frozen=True)
class Traced:
    """What a server has sent by its end, and its own log."""

    collector: Collector
    log: str

    def span(self, name: str, parent: bytes | None = None):
        """Return the only span of a name, or the only one beneath another."""
        found = [
            span
            for span in self.collector.spans
            if span.name == name and parent in {None, span.parent_span_id}
        ]
        assert len(found) == 1, (name, [span.name for span in self.collector.spans])
        return found[0]


@pytest.fixture(scope="module")
def traced(config: str) -> Iterator[Traced]:
    with running_collector() as collector:
        with running_server("--otlp-endpoint", collector.address, "--llm-config", config) as server:
            with Client(server.address) as client:
                client.judge([GROUP], "semantic")
                client.evaluate([GROUP], ["mrr"], Judge("exact"))
                with pytest.raises(JudgedError):
                    client.judge([GROUP], Judge("nobody"))
                client.score_answers([PRICED], ["answer_match"], include_replies=True)
            with Client(server.address, metadata=TRACED) as client:
                client.judge([GROUP], "llm", include_details=True)
            server.process.terminate()
            assert server.process.wait(40) == 0  # by then all is sent
            log = server.log_text()
        yield Traced(collector, log)


def test_a_call_is_a_span_of_the_trace_that_its_caller_is_in(traced: Traced):
    span = traced.span("judged.v1.JudgeService/BatchJudge", bytes.fromhex(PARENT_ID))
    assert span.trace_id.hex() == TRACE_ID
    assert span.kind == span.SPAN_KIND_SERVER
    told = attributes(span.attributes)
    assert told["rpc.system.name"] == "grpc"
    assert told["rpc.response.status_code"] == "OK"
    assert told["judged.request_id"]


def test_questions_to_models_have_the_names_of_the_conventions(traced: Traced):
    call = traced.span("judged.v1.JudgeService/BatchJudge", bytes.fromhex(PARENT_ID))
    found = [span for span in traced.collector.spans if span.parent_span_id == call.span_id]
    asked = [span for span in found if span.name == "chat scripted-1"]
    assert len(asked) == 2
    assert all(span.kind == span.SPAN_KIND_CLIENT for span in asked)
    told = attributes(asked[0].attributes)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "openai"
    assert told["gen_ai.request.model"] == "scripted-1"
    assert told["gen_ai.usage.input_tokens"] > 0
    assert told["gen_ai.usage.output_tokens"] > 0
    assert told["judged.rubric"] == "retrieval_match"
    assert any(span.name == "store" for span in found)
    assert all(span.start_time_unix_nano <= span.end_time_unix_nano for span in found)


def test_no_text_is_sent(traced: Traced):
    assert traced.collector.bodies
    assert not [body for body in traced.collector.bodies if CANARY.encode() in body]
    assert CANARY not in traced.log


def test_a_collector_that_is_gone_harms_no_call():
    with running_collector() as collector:
        gone = collector.address
    with running_server("--otlp-endpoint", gone) as server:
        with Client(server.address) as client:
            assert client.judge([GROUP], "exact").relevant == [False, False]
        server.process.terminate()
        assert server.process.wait(40) == 0


def test_nothing_of_it_is_loaded_unless_asked_for():
    program = (
        "import sys\nfrom judged_server.app import App\nfrom judged_server.settings import load\n"
        "App(load({'listen': '127.0.0.1:0'}, None))\n"
        "from judged_server import telemetry\n"
        "assert telemetry.tracer is None\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
