"""The judge `panel` through a real server: lexical judges beside language models."""

from __future__ import annotations

import json
import re

import pytest
from judged import Client, InvalidArgument, Judge, QueryGroup, Status

from tests.fakes.providers.scripted_provider import Answer, Asked, Said

_RETRIEVED = re.compile(r'name="retrieved_text">\n(.*)\n<')


def script(asked: Asked) -> Said:
    """The model "sure" says yes; "contrary" says no, and refuses what is called so."""
    text = json.loads(_RETRIEVED.findall(asked.user)[0])
    if text == "refused" or (text == "half refused" and asked.body["model"] == "contrary"):
        return Answer("", refusal="I can't help with that.")
    answer = "yes" if asked.body["model"] == "sure" else "no"
    return {"reasoning": f"{asked.body['model']} says {answer}", "verdict": answer}


PROVIDED = ("sure", "contrary")
LLM_MODELS = dict.fromkeys(PROVIDED, "")


def model(name: str) -> Judge:
    return Judge("llm", parameters={"model": name})


def group(*retrieved: str) -> QueryGroup:
    return QueryGroup("q", ["e"], retrieved, "1")


MODELS = (model("sure"), model("contrary"))


class TestVerdicts:
    def test_most_members_decide(self, client: Client):
        found = client.judge([group("e", "x")], Judge("panel", members=[*MODELS, "exact"]))
        assert found.relevant == [True, False]
        assert found.score == pytest.approx([2 / 3, 1 / 3])
        assert found.agreement == pytest.approx([2 / 3, 2 / 3])
        assert found.usage.calls + found.usage.cached == 4
        assert re.fullmatch(
            r"panel\|profile:majority"
            r"\|members:llm/[0-9a-f]{8},llm/[0-9a-f]{8},exact/[0-9a-f]{8}\|min_score:0.5\|v1",
            found.judge.signature,
        )

    def test_details_hold_a_sample_for_each_member(self, client: Client):
        found = client.judge(
            [group("half refused")],
            Judge("panel", members=[*MODELS, "exact"]),
            include_details=True,
        )
        # One yes, one refusal, one no: a tie.
        assert found.status == [Status.ABSTAINED]
        detail = found[0].detail
        assert detail.rationale == ""
        assert [sample.status.name for sample in detail.samples] == ["OK", "ABSTAINED", "OK"]
        assert [sample.relevant for sample in detail.samples] == [True, None, False]
        assert [sample.judge.partition("|")[0] for sample in detail.samples] == [
            "llm",
            "llm",
            "exact",
        ]
        assert detail.samples[0].reasoning == "sure says yes"
        assert detail.samples[1].reason == "REFUSED"
        assert detail.model == "sure-2024-07-18"


def test_the_client_names_the_member_that_is_wrong(client: Client):
    with pytest.raises(InvalidArgument, match=re.escape("judge.members[1].judge.kind")):
        client.judge([group("e")], Judge("panel", members=["exact", "panel"]))
