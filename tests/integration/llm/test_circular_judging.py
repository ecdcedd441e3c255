"""A model is warned of before it judges answers of its own family."""

from __future__ import annotations

import json
import shlex
import warnings
from pathlib import Path

import pytest
from judged import Client
from judged.evaluation import (
    CircularJudging,
    Dataset,
    Evaluator,
    Question,
    Results,
    evaluate_answers,
)

from tests.integration.traced_world import World, rewrite

COMMANDS = {
    "judge": ("contexts.jsonl", ("judge", "contexts.jsonl", "--judge", "llm")),
    "judge to a file": (
        "contexts.jsonl",
        ("judge", "contexts.jsonl", "--judge", "llm", "--output", "judged.jsonl"),
    ),
    "panel": (
        "contexts.jsonl",
        (
            *shlex.split(
                "judge contexts.jsonl --judge panel --member exact --member "
                "exact/normalized --member llm:model=other"
            ),
        ),
    ),
    "evaluate": (
        "results.jsonl",
        shlex.split("evaluate dataset.json --results results.jsonl -m mrr --judge llm"),
    ),
    "score": ("answers.jsonl", ("score", "answers.jsonl", "--rubric", "answer_relevance")),
}


def name(path: Path, model: str) -> None:
    rewrite(
        path, lambda lines: [json.dumps({**json.loads(x), "system_model": model}) for x in lines]
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_relative_is_warned_of(world: World, command: str) -> None:
    file, arguments = COMMANDS[command]
    name(world.folder / file, "openai/scripted-2")
    done = world.fine(*arguments)
    assert (
        "warning: the judge's model scripted-1 is of the family 'scripted', as is that of the "
        "system, openai/scripted-2" in done.stderr
    )
    assert world(*arguments, "--strict").returncode == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stranger_may_judge(world: World, command: str) -> None:
    file, arguments = COMMANDS[command]
    name(world.folder / file, "claude-sonnet-4-5")
    assert "the judge's model" not in world.fine(*arguments).stderr


class TestPython:
    """The Evaluators warn by themselves; others ask `check_circular`."""

    def test_results_that_name_their_model(self, world: World) -> None:
        name(world.folder / "results.jsonl", "openai/scripted-2")
        dataset = Dataset.from_json(world.folder / "dataset.json")
        results = Results.from_jsonl(world.folder / "results.jsonl")
        with Client(world.server.address) as client:
            with pytest.warns(CircularJudging, match="scripted-1 is of the family 'scripted'"):
                Evaluator(client).evaluate(results, dataset, ["mrr"], "llm")
            asked = world.provider.requests
            with warnings.catch_warnings(action="error", category=CircularJudging):
                with pytest.raises(CircularJudging, match="models favour answers of their own"):
                    Evaluator(client).evaluate(results, dataset, ["mrr"], "llm")
                Evaluator(client).evaluate(results, dataset, ["mrr"], "exact")
            assert world.provider.requests == asked

    def test_a_system_that_says_what_it_is(self, world: World) -> None:
        def system(query: str) -> str:
            return f"about {query}"

        system.system_model = "scripted-3"  # type: ignore[attr-defined]
        questions = [Question("q1", "what is rag")]
        with (
            Client(world.server.address) as client,
            pytest.warns(CircularJudging, match="as is that of the system, scripted-3"),
        ):
            evaluate_answers(questions, system, ["answer_relevance"], client=client)
