"""The judge `llm` from the client to the provider and back: a real server, a scripted provider."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import grpc
import pytest
from judged import Client, FailedPrecondition, InvalidArgument, Judge, QueryGroup, Status, Verdicts
from judged_server.llm.rubrics.rubric import load_builtin

from tests.fakes.providers.scripted_provider import Answer, Asked, Said, ScriptedProvider
from tests.integration.server_process import ServerProcess, running_server, until

_RETRIEVED = re.compile(r'name="retrieved_text">\n(.*)\n<')
KEY = "sk-canary-0123456789"


def says(answer: str) -> dict[str, str]:
    return {"reasoning": f"it is a {answer}", "verdict": answer}


def script(asked: Asked) -> Said:
    """Do what the retrieved text says; "split" is a no in one sample of three."""
    text = json.loads(_RETRIEVED.findall(asked.user)[0])
    if text == "refuse":
        return Answer("", refusal="I can't help with that.")
    if text == "slow":
        return Answer(json.dumps(says("yes")), delay_s=600)
    if text == "broken":
        return '{"verdict": "maybe"}'
    if text == "split":
        return says("no" if asked.body["seed"] == 1 else "yes")
    return says("yes" if text.startswith(("yes", "rag")) else "no")


@pytest.fixture(scope="module")
def llm_server(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    config = tmp_path_factory.mktemp("llm") / "llm.toml"
    config.write_text(
        f"""
        [[providers]]
        name = "scripted"
        base_url = "{provider.base_url}"
        key_env = "SCRIPTED_KEY"

        [[providers]]
        name = "locked"
        base_url = "{provider.base_url}"
        key_env = "A_VARIABLE_THAT_IS_NOT_SET"

        [[models]]
        name = "small"
        provider = "scripted"
        model = "scripted-1"
        input_per_million = 1.0
        output_per_million = 2.0

        [[models]]
        name = "locked"
        provider = "locked"
        model = "scripted-1"
        """
    )
    # Every test counts its own calls.
    flags = ("--llm-config", str(config), "--llm-cache", "off")
    with running_server(*flags, env={"SCRIPTED_KEY": KEY}) as ready:
        yield ready


@pytest.fixture
def llm(llm_server: ServerProcess) -> Iterator[Client]:
    with Client(llm_server.address) as client:
        yield client


def group(*retrieved: str, query_id: str = "1") -> QueryGroup:
    return QueryGroup("q", ["e"], retrieved, query_id)


def judge(**parameters: object) -> Judge:
    return Judge("llm", parameters=parameters)


def outcome(verdicts: Verdicts) -> list[tuple[str, bool | None, str | None]]:
    return [(v.status.name, v.relevant, v.error.reason if v.error else None) for v in verdicts]


class TestVerdicts:
    def test_come_back_with_agreement_and_usage(self, llm: Client):
        found = llm.judge([group("yes", "no", "split")], judge(samples=3))
        assert found.relevant == [True, False, True]
        assert found.score == pytest.approx([1, 0, 2 / 3])
        assert found.agreement == pytest.approx([1, 1, 2 / 3])
        assert found[1].agreement == 1
        assert found.details == {}
        usage = found.usage
        assert (usage.calls, usage.attempts) == (9, 9)
        assert usage.cost == pytest.approx((usage.input_tokens + 2 * usage.output_tokens) / 1e6)
        assert found.judge.signature.startswith("llm|rubric:retrieval_match@1|")

    def test_details_when_asked_for(self, llm: Client):
        found = llm.judge([group("no", "refuse")], judge(samples=2), include_details=True)
        assert set(found.details) == {0, 1}
        no, refused = found[0].detail, found[1].detail
        assert no.rationale == "it is a no"
        assert [sample.relevant for sample in no.samples] == [False, False]
        assert json.loads(no.samples[0].raw_reply) == says("no")
        assert no.model == "scripted-1-2024-07-18"
        assert no.system_fingerprint == "fp_scripted"
        assert no.usage.calls == 2
        assert refused.samples[0].status is Status.ABSTAINED
        assert refused.samples[0].score is None

    def test_one_bad_context_changes_nothing_for_the_others(self, llm: Client):
        expected = {
            "yes": ("OK", True, None),
            "refuse": ("ABSTAINED", None, "REFUSED"),
            "broken": ("ERROR", None, "SCHEMA"),
            "no": ("OK", False, None),
        }
        assert outcome(llm.judge([group(*expected)], judge())) == list(expected.values())
        for text, alone in expected.items():
            assert outcome(llm.judge([group(text)], judge())) == [alone]


class TestDeadline:
    def test_the_reply_arrives_with_what_was_answered_in_time(self, llm: Client):
        # A call that outlasts its deadline raises.
        found = llm.judge([group("slow", "yes")], judge(), timeout=4)
        assert outcome(found) == [("ERROR", None, "TIMEOUT"), ("OK", True, None)]
        error = found[0].error
        assert error.retryable
        assert error.code == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]


class TestModels:
    def test_the_server_lists_rubrics_and_models(self, llm: Client):
        info = llm.server_info()
        assert [rubric.rubric for rubric in info.rubrics] == [*load_builtin()]
        assert {len(rubric.sha256) for rubric in info.rubrics} == {64}
        with pytest.raises(InvalidArgument, match="retrieval_match"):
            llm.judge([group("yes")], judge(rubric="faithfulness"))
        small, locked = info.chat_models
        assert (small.name, small.provider, small.model) == ("small", "scripted", "scripted-1")
        assert (small.is_default, small.unavailable) == (True, "")
        assert "A_VARIABLE_THAT_IS_NOT_SET" in locked.unavailable

    @pytest.mark.parametrize(
        ("name", "says"), [("gpt", "this server knows small, locked"), ("locked", "not set")]
    )
    def test_a_model_that_cant_be_asked_is_refused_with_the_next_step(
        self, llm: Client, name: str, says: str
    ):
        with pytest.raises(FailedPrecondition, match=says) as caught:
            llm.judge([group("yes")], judge(model=name))
        assert caught.value.reason == "PROVIDER_NOT_CONFIGURED"

    def test_neither_key_nor_texts_are_logged(self, llm: Client, llm_server: ServerProcess):
        llm.judge([group("yes, and this is a canary text", "broken")], judge())
        with pytest.raises(InvalidArgument):
            llm.judge([group("yes")], judge(samples=99))
        # Lines are written together, some time after their calls.
        until(lambda: "INVALID_ARGUMENT" in llm_server.log_text())
        log = llm_server.log_text()
        assert "BatchJudge" in log
        assert "canary" not in log
