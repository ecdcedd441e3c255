"""The judge `panel` through a real server: lexical judges beside language models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from judged import Client, InvalidArgument, Judge, PanelMember, QueryGroup, Status

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Answer, Asked, Said, ScriptedProvider
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server

_RETRIEVED = re.compile(r'name="retrieved_text">\n(.*)\n<')


def script(asked: Asked) -> Said:
    """The model "sure" says yes; "contrary" says no, and refuses what is called so."""
    text = json.loads(_RETRIEVED.findall(asked.user)[0])
    if text == "refused" or (text == "half refused" and asked.body["model"] == "contrary"):
        return Answer("", refusal="I can't help with that.")
    answer = "yes" if asked.body["model"] == "sure" else "no"
    return {"reasoning": f"{asked.body['model']} says {answer}", "verdict": answer}


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script) as running:
        running.models = ("sure", "contrary")
        yield running


@pytest.fixture(scope="module")
def panel_server(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    models = dict.fromkeys(provider.models, "")
    config = llm_config(tmp_path_factory.mktemp("llm"), provider, models)
    with running_server("--llm-config", config) as ready:
        yield ready


@pytest.fixture
def server(panel_server: ServerProcess) -> Iterator[Client]:
    with Client(panel_server.address) as client:
        yield client


def model(name: str) -> Judge:
    return Judge("llm", parameters={"model": name})


def group(*retrieved: str) -> QueryGroup:
    return QueryGroup("q", ["e"], retrieved, "1")


MODELS = (model("sure"), model("contrary"))


class TestVerdicts:
    def test_most_members_decide(self, server: Client):
        found = server.judge([group("e", "x")], Judge("panel", members=[*MODELS, "exact"]))
        assert found.relevant == [True, False]
        assert found.score == pytest.approx([2 / 3, 1 / 3])
        assert found.agreement == pytest.approx([2 / 3, 2 / 3])
        assert found.usage is not None
        assert found.usage.calls + found.usage.cached == 4
        assert re.fullmatch(
            r"panel\|profile:majority"
            r"\|members:llm/[0-9a-f]{8},llm/[0-9a-f]{8},exact/[0-9a-f]{8}\|min_score:0.5\|v1",
            found.judge.signature,
        )

    def test_a_tie_and_missing_votes_are_no_verdict(self, server: Client):
        found = server.judge(
            [group("tie", "half refused", "refused")], Judge("panel", members=MODELS)
        )
        assert found.status == [Status.ABSTAINED, Status.OK, Status.ABSTAINED]
        assert found.relevant == [False, True, False]
        reasons = {index: error.reason for index, error in found.errors.items()}
        assert reasons == {0: "NO_QUORUM", 2: "REFUSED"}

    def test_means_and_weights(self, server: Client):
        mean = server.judge([group("e w")], Judge("panel", "mean", members=[*MODELS, "exact"]))
        assert mean.score == pytest.approx([1 / 3])
        assert mean.relevant == [False]
        members = [PanelMember(model("sure"), 3.0), PanelMember(model("contrary")), "exact"]
        weighted = server.judge([group("e w")], Judge("panel", "weighted", members=members))
        assert weighted.score == pytest.approx([3 / 5])
        assert weighted.agreement == pytest.approx([3 / 5])
        assert weighted.relevant == [True]
        assert weighted.judge.scoring_key != mean.judge.scoring_key

    def test_details_hold_a_sample_for_each_member(self, server: Client):
        found = server.judge(
            [group("half refused")],
            Judge("panel", members=[*MODELS, "exact"]),
            include_details=True,
        )
        # One yes, one refusal, one no: a tie.
        assert found.status == [Status.ABSTAINED]
        detail = found[0].detail
        assert detail is not None
        assert detail.rationale == ""
        assert [sample.status.name for sample in detail.samples] == ["OK", "ABSTAINED", "OK"]
        assert [sample.relevant for sample in detail.samples] == [True, None, False]
        assert [sample.judge.partition("|")[0] for sample in detail.samples] == [
            *("llm", "llm", "exact")
        ]
        assert detail.samples[0].reasoning == "sure says yes"
        assert detail.samples[1].reason == "REFUSED"
        assert detail.model == "sure-2024-07-18"


def test_the_client_names_the_member_that_is_wrong(server: Client):
    with pytest.raises(InvalidArgument, match=re.escape("judge.members[1].judge.kind")):
        server.judge([group("e")], Judge("panel", members=["exact", "panel"]))
