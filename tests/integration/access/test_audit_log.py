"""The audit log of a real server: who, which judge, how much, and never a text."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from judged import AnswerItem, Client, Judge, QueryGroup
from judged.credentials import Token
from judged.errors import JudgedError

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked
from tests.integration.access.test_tls import refusal
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server, until
from tests.integration.tenant_files import new_token

CANARY = "sk-canary-text"
GROUPS = [QueryGroup(CANARY, [CANARY], [CANARY, "x"], CANARY)]


def lines(path: Path, number: int) -> list[dict[str, Any]]:
    """Return the lines of a log once there are so many."""
    until(lambda: path.exists() and path.read_text().count("\n") >= number)
    return [json.loads(line) for line in path.read_text().splitlines()]


def yes(asked: Asked) -> dict[str, str]:
    return {"reasoning": CANARY, "verdict": "yes"}


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[tuple[ServerProcess, Client, Path]]:
    path, log = tmp_path / "t.toml", tmp_path / "audit.jsonl"
    path.write_text("[tenants.search]\n")
    token = new_token(path, "search")
    with provider_on_a_thread(yes) as provider:
        config = llm_config(tmp_path, provider)
        flags = ["--tenants", str(path), "--audit-log", str(log), "--llm-config", config]
        with (
            running_server(*flags, "--llm-cache", "off") as server,
            Client(server.address, credentials=Token(token)) as client,
        ):
            yield server, client, log


def test_who_asked_which_judge_and_how_much(audited: tuple[ServerProcess, Client, Path]):
    _, client, log = audited
    client.judge(GROUPS, "exact")
    client.judge(GROUPS, "llm")
    client.evaluate(GROUPS, ["mrr"], "exact")
    client.score_answers([AnswerItem(CANARY, "q", CANARY, ["a"])], ["answer_match"])
    with pytest.raises(JudgedError):
        client.judge(GROUPS, Judge(CANARY))
    exact, llm, stream, scored, failed = lines(log, 5)
    assert {line["tenant"] for line in (exact, llm, stream, scored, failed)} == {"search"}
    assert len({line["request_id"] for line in (exact, llm, stream, scored, failed)}) == 5
    assert exact["method"] == "/judged.v1.JudgeService/BatchJudge"
    assert exact["credential"].startswith("token ")
    assert (exact["code"], list(exact["judged"].values())) == ("OK", [2])
    assert next(iter(exact["judged"])).startswith("exact|")
    assert exact["request_bytes"] > len(CANARY) * 4
    assert (llm["model_calls"], list(llm["judged"].values())) == (2, [2])
    assert llm["input_tokens"] > 0
    assert stream["method"] == "/judged.v1.JudgeService/StreamEvaluate"
    assert list(stream["judged"].values()) == [2]
    assert list(scored["judged"].values()) == [1]
    assert (failed["code"], failed["judged"]) == ("NOT_FOUND", {})
    assert CANARY not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_a_log_that_was_moved_away_is_begun_anew(audited: tuple[ServerProcess, Client, Path]):
    server, client, log = audited
    client.judge(GROUPS, "exact")
    lines(log, 1)
    log.rename(f"{log}.1")
    server.process.send_signal(signal.SIGHUP)
    until(log.exists)
    client.judge(GROUPS, "exact")
    assert len(lines(log, 1)) == 1
    assert len(lines(Path(f"{log}.1"), 1)) == 1


def test_a_server_does_not_start_without_its_log(tmp_path: Path):
    said = refusal("--audit-log", str(tmp_path / "no" / "such"))
    assert "can't be written: No such file" in said
    assert "make its folder" in said
