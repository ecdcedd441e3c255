"""A server whose key is gone: what it was told before can be had, and nothing more is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from judged import (
    AnswerItem,
    Asking,
    CacheMode,
    Client,
    FailedPrecondition,
    Judge,
    QueryGroup,
    Source,
    Status,
)

from tests.fakes.providers.scripted_provider import Asked, Said, ScriptedProvider
from tests.integration.cli_process import Commands, fill
from tests.integration.llm_config import llm_config
from tests.integration.server_process import running_server

KEY = "JUDGED_TEST_A_KEY"
ONLY = Asking(CacheMode.ONLY)
SAYS = f"language model 'small' can't be asked: the environment variable {KEY} is not set"
GROUP = QueryGroup("q", ["e"], ["yes", "no"], "1")
ITEM = AnswerItem("1", "q", "an answer", references=["r"])
PANEL = Judge("panel", members=[Judge("llm"), Judge("llm", parameters={"max_tokens": 99})])


def script(asked: Asked) -> Said:
    schema = asked.body["response_format"]["json_schema"]["schema"]
    verdict = schema["properties"]["verdict"]["enum"][0]
    return {"reasoning": "so it is", "verdict": verdict}


@pytest.fixture(scope="module")
def target(provider: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without the key, over the replies that one with the key has kept."""
    folder = tmp_path_factory.mktemp("keyless")
    config = llm_config(folder, provider, {"small": ""}, provider_lines=f'key_env = "{KEY}"')
    cache = ("--llm-cache", "disk", "--llm-cache-dir", str(folder / "replies"))
    flags = ("--llm-config", config, *cache)
    with running_server(*flags, env={KEY: "k"}) as ready, Client(ready.address) as client:
        assert client.judge([GROUP], PANEL).relevant == [True, True]
        assert client.score_answers([ITEM], ["answer_match"]).scores[0].passed
        Commands(fill(folder), ready.address).fine("judge", "contexts.jsonl", "--judge", "llm")
    with running_server(*flags) as ready:
        yield ready.address


@pytest.mark.parametrize("judge", [Judge("llm"), PANEL])
def test_kept_verdicts_are_had_and_no_others(
    provider: ScriptedProvider, client: Client, judge: Judge
):
    before = provider.requests
    found = client.judge([GROUP], judge, asking=ONLY)
    assert (found.relevant, set(found.source)) == ([True, True], {Source.CACHE})
    (chunk,) = client.judge_stream([[GROUP]], judge, asking=ONLY)
    assert chunk.verdicts.relevant == [True, True]
    assert client.evaluate([GROUP], ["mrr"], judge, asking=ONLY).table["mrr"].mean == 1.0
    missing = client.judge([QueryGroup("q", ["e"], ["new"], "1")], judge, asking=ONLY)[0]
    assert missing.status is Status.ERROR
    assert missing.error.reason == "NOT_CACHED"
    for asking in (None, Asking(CacheMode.REFRESH)):
        with pytest.raises(FailedPrecondition, match=SAYS):
            client.judge([GROUP], judge, asking=asking)
        with pytest.raises(FailedPrecondition, match=SAYS):
            client.evaluate([GROUP], ["mrr"], judge, asking=asking)
        with pytest.raises(FailedPrecondition, match=SAYS):
            list(client.judge_stream([[GROUP]], judge, asking=asking))
    assert provider.requests == before


def test_kept_scores_are_had_and_no_others(provider: ScriptedProvider, client: Client):
    before = provider.requests
    (score,) = client.score_answers([ITEM], ["answer_match"], asking=ONLY)
    assert (score.passed, score.source) == (True, Source.CACHE)
    (missing,) = client.score_answers([ITEM], ["answer_relevance"], asking=ONLY)
    assert missing.error.reason == "NOT_CACHED"
    with pytest.raises(FailedPrecondition, match=SAYS):
        client.score_answers([ITEM], ["answer_match"])
    assert provider.requests == before


def test_the_server_still_says_that_it_can_not_ask(client: Client):
    info = client.server_info()
    unavailable = {judge.kind: judge.unavailable for judge in info.judges}
    assert SAYS in unavailable["llm"]
    assert SAYS in unavailable["answers"]
    assert [bool(model.unavailable) for model in info.chat_models] == [True]


def test_the_command_line_judges_from_the_cache(judged: Commands):
    fill(judged.folder)
    command = ("judge", "contexts.jsonl", "--judge", "llm")
    done = judged.fine(*command, "--cache-only", "--output", "judged.jsonl")
    assert done.stderr.count("2 samples from the cache") == 1
    line = {"query": "other", "expected_text": "e", "retrieved_text": "r"}
    judged.write("contexts.jsonl", [line])
    assert judged.refused(*command, "--cache-only").strip() == (
        "judged: --cache-only: 1 of 1 verdict not in the server's cache; run the same command "
        "without it to ask for them"
    )
    assert judged.refused(*command)
