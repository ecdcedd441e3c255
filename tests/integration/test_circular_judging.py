"""A model is warned of before it judges answers of its own family, and refused when strict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.traced_world import World, filled, rewrite, running_world

COMMANDS = {
    "judge": ("contexts.jsonl", ("judge", "contexts.jsonl", "--judge", "llm")),
    "judge to a file": (
        "contexts.jsonl",
        ("judge", "contexts.jsonl", "--judge", "llm", "--output", "judged.jsonl"),
    ),
    "panel": (
        "contexts.jsonl",
        (
            *("judge", "contexts.jsonl", "--judge", "panel", "--member", "exact"),
            *("--member", "exact/normalized", "--member", "llm:model=other"),
        ),
    ),
    "evaluate": (
        "results.jsonl",
        (
            *("evaluate", "dataset.json", "--results", "results.jsonl"),
            *("-m", "mrr", "--judge", "llm"),
        ),
    ),
    "score": ("answers.jsonl", ("score", "answers.jsonl", "--rubric", "answer_relevance")),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("circular")) as world:
        yield world


@pytest.fixture
def world(running: World, tmp_path: Path) -> World:
    return filled(running, tmp_path)


def name(path: Path, model: str) -> None:
    rewrite(
        path, lambda lines: [json.dumps({**json.loads(x), "system_model": model}) for x in lines]
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_relative_is_warned_of_and_refused_when_strict(world: World, command: str) -> None:
    file, arguments = COMMANDS[command]
    name(world.folder / file, "openai/scripted-2")
    done = world.fine(*arguments)
    assert (
        "warning: the judge's model scripted-1 is of the family 'scripted', as is that of the "
        "system, openai/scripted-2" in done.stderr
    )
    asked = world.provider.requests
    strict = world.run(*arguments, "--strict")
    assert strict.returncode == 1
    assert strict.stdout == ""
    assert "nothing was asked, because of --strict" in strict.stderr
    assert world.provider.requests == asked


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stranger_may_judge(world: World, command: str) -> None:
    file, arguments = COMMANDS[command]
    name(world.folder / file, "claude-sonnet-4-5")
    assert "the judge's model" not in world.fine(*arguments).stderr


def test_the_same_model_is_told_as_such(world: World) -> None:
    name(world.folder / "contexts.jsonl", "scripted-1-2024-07-18")
    done = world.fine(*COMMANDS["judge"][1])
    assert (
        "the judge's model scripted-1 is that of the system, scripted-1-2024-07-18" in done.stderr
    )


def test_a_judge_without_a_model_judges_anything(world: World) -> None:
    name(world.folder / "contexts.jsonl", "scripted-1")
    assert "the judge's model" not in world.fine("judge", "contexts.jsonl").stderr


def test_a_model_that_is_no_text_is_refused(world: World) -> None:
    path = world.folder / "contexts.jsonl"
    rewrite(path, lambda lines: [json.dumps({**json.loads(lines[0]), "system_model": 4})])
    assert "contexts.jsonl:1: has 'system_model' that is not text" in world.fails(
        "judge", str(path)
    )
