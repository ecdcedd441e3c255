"""Every rubric by every dialect and every means of structure, over gRPC and a real wire.

The rubrics are those of the package and of docs/rubrics.md, the dialects and their means those of
the server's own table: what is added to either is asked here without another line. A dialect that
the scripted provider does not speak fails the first test.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from judged import AnswerItem, Client, Judge, QueryGroup, Rubric, Source, Status
from judged_server.llm.config import CAPABILITIES, FAKE, Structured
from judged_server.llm.providers.dialects import DIALECTS
from judged_server.llm.rubrics.rubric import Rubric as Asked
from judged_server.llm.rubrics.rubric import load_builtin, parse

from tests.fakes.providers.scripted_dialects import (
    KEY,
    SHAPES,
    DialectServer,
    Heard,
    dialect_server,
)
from tests.integration.server_process import running_server

PAGE = (Path(__file__).parents[3] / "docs" / "rubrics.md").read_text()
OWN = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
RUBRICS = dict(load_builtin()) | {
    rubric.id: rubric for rubric in (parse(block.encode(), "docs/rubrics.md") for block in OWN)
}
MODELS = [
    f"{dialect}-{means}" for dialect, known in CAPABILITIES.items() for means in known.structured
]
STEPS = {
    system: step
    for rubric in RUBRICS.values()
    for step in rubric.steps
    for system in (step.structured_system, step.plain_system)
}
SUPPORTED, SILENT = "the sky is blue", "the sky is wide"
SCORES = {"verdict": 1.0, "score": 0.75, "grade": 1.0, "dimensions": 0.75, "claims": 0.5}


def said(step: Asked, user: str, *, plain: bool) -> str:
    """What a model says that finds a claim supported, and everything else rather good."""
    if plain and not step.takes_json:
        by_form = {"verdict": "YES", "score": "Score: 0.75"}
        return by_form.get(step.form) or f"Grade: {step.grades[-1]}"
    if step.form == "extraction":
        return json.dumps({"claims": [SUPPORTED, SILENT]})
    if step.form == "verification":
        verdict = "SUPPORTED" if SUPPORTED in user else "NOT_ENOUGH_INFO"
        return json.dumps({"evidence": "blue", "verdict": verdict})
    reply: dict[str, Any] = {"reasoning": f"asked by {step.id}"}
    for name, held in step.properties.items():
        if name != "reasoning":
            reply[name] = "yes" if "enum" in held else 0.75
    if step.form == "grade":
        reply["grade"] = step.grades[-1]
    if step.form == "verdict" and step.scored:
        reply["score"] = 1.0
    return json.dumps(reply)


def script(heard: Heard) -> str:
    plain = heard.means is Structured.NONE
    return said(STEPS[heard.system], heard.user, plain=plain)


def lines_of_the_fake(means: Structured) -> str:
    """A file of replies for a model without a wire: the first line that fits answers."""
    plain = means is Structured.NONE
    lines: list[dict[str, Any]] = []
    for claim in (SUPPORTED, SILENT):
        steps = [step for step in STEPS.values() if step.form == "verification"]
        lines.append({"contains": {"claim": claim}, "reply": said(steps[0], claim, plain=plain)})
    for rubric in RUBRICS.values():
        reply = said(rubric.steps[0], "", plain=plain)
        lines.append({"contains": f"a text for {rubric.id}.", "reply": reply})
    return "".join(json.dumps(line) + "\n" for line in lines)


def configuration(provider: DialectServer, folder: Path) -> str:
    tables = []
    for dialect, known in CAPABILITIES.items():
        for means in known.structured:
            name = f"{dialect}-{means}"
            if dialect == FAKE:
                (folder / f"{name}.jsonl").write_text(lines_of_the_fake(means))
                where = f'replies = "{name}.jsonl"'
            else:
                where = f'base_url = "{provider.base_url(dialect)}"\nkey_env = "THE_KEY"'
            tables.append(
                f'[[providers]]\nname = "{name}"\ndialect = "{dialect}"\n{where}\n'
                f'[[models]]\nname = "{name}"\nprovider = "{name}"\nmodel = "m-1"\n'
                f'structured = "{means}"\ninput_per_million = 1.0\noutput_per_million = 2.0\n'
            )
    return "\n".join(tables)


@dataclass(frozen=True)
class World:
    client: Client
    provider: DialectServer


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, rubrics = tmp_path_factory.mktemp("llm"), tmp_path_factory.mktemp("rubrics")
    for place, block in enumerate(OWN):
        (rubrics / f"{place}.toml").write_text(block)
    with dialect_server(script) as provider:
        (folder / "llm.toml").write_text(configuration(provider, folder))
        flags = ("--llm-config", str(folder / "llm.toml"), "--rubrics-dir", str(rubrics))
        with (
            running_server(*flags, "--llm-cache", "memory", env={"THE_KEY": KEY}) as server,
            Client(server.address) as client,
        ):
            yield World(client, provider)
            assert provider.refused == []
            assert KEY not in server.log_text()


def test_the_provider_speaks_every_dialect_on_the_wire():
    assert set(SHAPES) == set(DIALECTS)
    assert set(DIALECTS) | {FAKE} == set(CAPABILITIES)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", RUBRICS)
def test_a_rubric_by_a_model(world: World, name: str, model: str):
    rubric = RUBRICS[name]
    dialect, _, means = model.partition("-")
    text = f"a text for {name}."
    before = len(world.provider.heard)
    if rubric.judges_contexts:
        verdicts = world.client.judge(
            [QueryGroup("what?", ["an expected text"], [text])],
            Judge("llm", parameters={"rubric": name, "model": model}),
            include_details=True,
        )
        [verdict], usage = list(verdicts), verdicts.usage
        assert verdict.relevant is True
        status, score, source = verdict.status, verdict.score, verdict.source
        answered = verdict.detail.model
    else:
        scores = world.client.score_answers(
            [
                AnswerItem(
                    "1",
                    f"what of {text}",
                    text,
                    [f"a reference, {text}"],
                    ["a context"],
                    other_answer="another text",
                )
            ],
            [Rubric(name, parameters={"model": model})],
        )
        [found], usage = list(scores), scores.usage
        status, score, source, answered = found.status, found.score, found.source, found.model
        assert [claim.verdict.name for claim in found.claims] == (
            ["SUPPORTED", "NOT_ENOUGH_INFO"] if rubric.form == "claims" else []
        )
        assert found.passed is (score + 1e-9 >= rubric.min_score)
    assert (status, source) == (Status.OK, Source.COMPUTED)
    assert score == pytest.approx(SCORES[rubric.form])
    assert answered.startswith("m-1")
    calls = 3 if rubric.form == "claims" else 1
    assert (usage.calls, usage.attempts) == (calls, calls)
    assert usage.cost == pytest.approx((usage.input_tokens + 2 * usage.output_tokens) / 1e6)
    heard = world.provider.heard[before:]
    assert len(heard) == (0 if dialect == FAKE else calls)
    for each in heard:
        assert (each.dialect, each.means, each.model) == (dialect, means, "m-1")
        step = STEPS[each.system]
        if each.schema is not None:
            assert set(each.schema["properties"]) == set(step.properties)
            assert each.schema["additionalProperties"] is False
        else:
            assert means in {Structured.NONE, Structured.JSON_OBJECT}
