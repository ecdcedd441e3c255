"""GPT-4's published verdicts on NQ301, replayed through the system, agree with humans as ever.

A scripted provider says what GPT-4 said of each item, in its words or as JSON; client, gRPC, the
judge, prompts, parsing and votes are real. What comes out must have exactly the agreement with the
human labels that the file implies, which is counted here without the system.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from judged import Client, Judge, QueryGroup, RatingTable

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked
from tests.integration.llm_config import llm_config
from tests.integration.server_process import running_server

_FILE = Path(__file__).parents[1] / "data" / "nq301" / "items.jsonl"
ITEMS = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").split("\n") if line]
SHOWN = re.compile(r'name="(\w+)">\n(.*)\n<')


def published() -> dict[tuple[str, str, str], str]:
    """What GPT-4 said of each context: its yes goes to the item's first alternative alone."""
    said = {}
    for item in ITEMS:
        for place, expected in enumerate(item["expected"]):
            answer = item["gpt4"] if place == 0 else "No"
            said[item["query"], expected, item["retrieved"]] = answer
    return said


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    said = published()

    def script(asked: Asked) -> Any:
        texts = {name: json.loads(text) for name, text in SHOWN.findall(asked.user)}
        answer = said[texts["query"], texts["expected_text"], texts["retrieved_text"]]
        if "response_format" in asked.body:
            return {"reasoning": "As published.", "verdict": answer.lower()}
        return answer

    with provider_on_a_thread(script) as provider:
        models = {name: f'structured = "{name}"' for name in ("json_schema", "none")}
        config = llm_config(tmp_path_factory.mktemp("llm"), provider, models)
        with running_server("--llm-config", config) as server, Client(server.address) as it:
            yield it


@pytest.mark.parametrize("model", ["json_schema", "none"])
def test_the_verdicts_agree_with_humans_exactly_as_published(client: Client, model: str):
    groups = [QueryGroup(item["query"], item["expected"], [item["retrieved"]]) for item in ITEMS]
    found = client.judge(groups, Judge("llm", parameters={"model": model}), timeout=100)
    assert found.n_ok == len(found) == sum(len(item["expected"]) for item in ITEMS)
    bounds = list(zip(found.offsets, found.offsets[1:], strict=False))
    best = [max(found.score[begin:end]) for begin, end in bounds]
    judged = [score >= 0.5 for score in best]
    humans = [item["human"] for item in ITEMS]
    assert judged == [item["gpt4"] == "Yes" for item in ITEMS]

    # Cohen's kappa of the table 128, 25, 20, 120 by hand: (p - e) / (1 - e).
    observed, chance = (128 + 120) / 293, (153 * 148 + 140 * 145) / 293**2
    table = RatingTable.of(
        ["no", "yes"],
        {
            "judge": ["yes" if yes else "no" for yes in judged],
            "humans": ["yes" if yes else "no" for yes in humans],
        },
    )
    agreement = client.measure_agreement(table).ratings
    assert [list(row) for row in agreement.confusion_rows()] == [[120, 20], [25, 128]]
    assert agreement.observed.value == pytest.approx(observed, abs=1e-12)
    kappa = (observed - chance) / (1 - chance)
    assert agreement.cohen_kappa.value == pytest.approx(kappa, abs=1e-12)
    assert kappa == pytest.approx(0.6927, abs=5e-5)
