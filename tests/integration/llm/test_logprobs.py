"""Scores by log-probabilities through a real server: P(yes) of one reply."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator

import pytest
from judged import Client, InvalidArgument, Judge, QueryGroup, Status

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Answer, Asked, ScriptedProvider
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server

_RETRIEVED = re.compile(r'name="retrieved_text">\n(.*)\n<')


def script(asked: Asked) -> Answer:
    """Say YES with the probability that the retrieved text names; "none" tells no alternatives."""
    text = json.loads(_RETRIEVED.findall(asked.user)[0])
    if text == "none":
        return Answer("YES", logprobs={"content": None, "refusal": None})
    if text == "unclear":
        return Answer("Perhaps.")
    yes = float(text)
    top = [
        {"token": token, "logprob": math.log(share), "bytes": None}
        for token, share in (("YES", 0.9 * yes), ("NO", 0.9 * (1 - yes)), ("Well", 0.1))
    ]
    place = {"token": "YES", "logprob": -1.0, "bytes": None, "top_logprobs": top}
    return Answer("YES", logprobs={"content": [place], "refusal": None})


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script) as running:
        yield running


@pytest.fixture(scope="module")
def server(
    provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    models = {"open": 'structured = "none"\nlogprobs = true', "closed": ""}
    config = llm_config(tmp_path_factory.mktemp("llm"), provider, models)
    with running_server("--llm-config", config) as ready:
        yield ready


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Client]:
    with Client(server.address) as connected:
        yield connected


def judge(min_score: float | None = None, **parameters: bool | float | str) -> Judge:
    return Judge("llm", "", min_score, {"scoring": "logprobs", **parameters})


def test_the_score_is_the_probability_of_a_yes(client: Client):
    texts = ["0.75", "0.2", "none", "unclear"]
    found = client.judge([QueryGroup("q", ["e"], texts)], judge())
    assert found.score == pytest.approx([0.75, 0.2, 0, 0])
    assert found.relevant == [True, False, False, False]
    ok, abstained = Status.OK, Status.ABSTAINED
    assert found.status == [ok, ok, abstained, abstained]
    assert {error.reason for error in found.errors.values()} == {"UNPARSABLE"}
    assert list(found.agreement) == []
    assert found.judge.signature.endswith(
        "|samples:1|temperature:0|max_tokens:256|scoring:logprobs|min_score:0.5|v1"
    )


def test_another_bar_costs_nothing(client: Client, provider: ScriptedProvider):
    group = QueryGroup("q", ["e"], ["0.41"])
    first = client.judge([group], judge())
    asked = provider.requests
    again = client.judge([group], judge(0.4))
    assert provider.requests == asked
    assert again.score == first.score
    assert again.relevant == [True]


@pytest.mark.parametrize(
    ("parameters", "field", "rule"),
    [
        ({"model": "closed"}, "scoring", "logprobs = true"),
        ({"samples": 3}, "samples", "must be 1, or unset"),
        ({"scoring": "guess"}, "scoring", "one of vote, logprobs"),
    ],
)
def test_what_cant_be_scored_so_is_refused(
    client: Client, parameters: dict[str, object], field: str, rule: str
):
    with pytest.raises(InvalidArgument, match=rule) as caught:
        client.judge([QueryGroup("q", ["e"], ["0.5"])], judge(**parameters))
    assert f'judge.parameters["{field}"]' in str(caught.value)
