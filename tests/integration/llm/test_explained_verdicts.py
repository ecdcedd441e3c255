"""A model without schemas that ends with its verdict in another word, through a real server."""

from __future__ import annotations

# ruff: noqa: RUF001 - other scripts are what it is about
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import Client, Judge, QueryGroup, Status

from tests.integration.cli_process import run_in
from tests.integration.llm_config import fake_llm_config
from tests.integration.server_process import ServerProcess, running_server

TOPIC = "The retrieved text matches the topic of the query."
REPLIES = [
    f"{TOPIC}\n\nVerdict: ❌",
    f"{TOPIC}\n\nVerdict: False",
    f"{TOPIC}\nFinal verdict: FAIL",
    "The subject matches. Result: INCORRECT",
    "The subject matches. Therefore the verdict is negative.",
    f"{TOPIC} 答案：否",
    "The retrieved text is relevant to the query. But it contradicts the expected text.",
    "The names match. The dates conflict.",
    "YES\n\nCorrection: NO, since the year differs.",
    "YES. Wait, on reflection the year differs, so NO.",
    "Yes. However, it contradicts the expected text, so the answer is no.",
    "Yes, the retrieved text is irrelevant to the query.",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    lines: list[object] = [
        {"contains": f"({number})", "reply": reply} for number, reply in enumerate(REPLIES)
    ]
    lines.append({"contains": "(good)", "reply": "Both say 1991.\nVERDICT: YES"})
    lines.append({"reply": REPLIES[1]})
    folder = tmp_path_factory.mktemp("plain")
    config = fake_llm_config(folder, {"m": lines}, 'structured = "none"')
    with running_server("--llm-config", config) as ready:
        yield ready


def test_none_is_a_verdict_and_each_is_asked_for_once_more(server: ServerProcess):
    texts = [f"It came out in 1989 ({number})." for number in range(len(REPLIES))]
    group = QueryGroup("when did it appear", ["It appeared in 1991."], [*texts, "In 1991 (good)."])
    with Client(server.address) as client:
        found = client.judge([group], Judge("llm"))
    *unclear, good = found
    assert {(each.status, each.error and each.error.reason) for each in unclear} == {
        (Status.ABSTAINED, "UNPARSABLE")
    }
    assert (good.status, good.relevant) == (Status.OK, True)
    assert found.usage is not None
    assert found.usage.calls == 2 * len(REPLIES) + 1


def test_no_gate_passes_for_it(server: ServerProcess, tmp_path: Path):
    item = {"item_id": "a", "query": "when", "answer": "In 1989.", "references": ["In 1991."]}
    (tmp_path / "answers.jsonl").write_text(json.dumps(item) + "\n")
    asked = ("answers.jsonl", "--rubric", "answer_match", "--target", server.address)
    done = run_in(tmp_path, "score", *asked, "--min-score", "answer_match=0.9")
    assert done.returncode == 2
    assert "UNPARSABLE" in done.stderr
    assert "fell short: coverage of answer_match is 0" in done.stderr
