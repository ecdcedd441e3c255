"""Flags that have to do with language models, on every command that has them, over gRPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from judged.cli.app import GROUP
from judged.cli.frame import options_of

from tests.integration.model_commands import COMMANDS, asked_by, filled, script
from tests.integration.traced_world import World, running_world

OPTIONS = {
    name: set(options_of(command)) - {"help"}
    for name, command in GROUP.commands.items()
    if name in COMMANDS
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("llm"), script) as world:
        yield world


@pytest.fixture
def world(running: World, tmp_path: Path) -> World:
    """The server, with two contexts and two answers that nobody has asked about yet."""
    return filled(World(running.provider, running.server, tmp_path))


def flag(*names: str, without: str = "") -> Callable[[Any], Any]:
    """Let a test run for every command that has all of these flags, and not the one `without`."""
    having = [name for name, options in OPTIONS.items() if options.issuperset(names)]
    commands = [name for name in having if without not in OPTIONS[name]]
    assert commands, names
    return pytest.mark.parametrize("command", commands)


def panel_profile(command: str) -> str:
    """How the members decide: `calibrate` needs a panel whose score a threshold is held against."""
    return "mean" if command == "calibrate" else "majority"


def panel(command: str) -> tuple[str, ...]:
    """The command with a panel of two lexical judges and a language model."""
    bare = [word for word in COMMANDS[command] if word not in {"--judge", "llm"}]
    members = ("exact", "exact/normalized", "llm:model=other")
    named = [word for each in members for word in ("--member", each)]
    profile = panel_profile(command)
    asked = [] if profile == "majority" else ["--profile", profile]
    return (*bare, "--judge", "panel", *named, *asked)


def said(world: World, *arguments: str) -> str:
    """All that a command that is fine has printed."""
    done = world.fine(*arguments)
    return done.stdout + done.stderr


@flag("judge_model")
def test_judge_model(world: World, command: str):
    assert "|model:other|" in said(world, *COMMANDS[command], "--judge-model", "other")
    assert "this server knows small, other" in world.fails(
        *COMMANDS[command], "--judge-model", "gpt"
    )


@flag("judge_samples", "judge_temperature", "judge_max_tokens", "param")
def test_what_was_typed_is_named_when_it_is_refused(world: World, command: str):
    for name, value in {"samples": "-1", "temperature": "nan", "max_tokens": "0"}.items():
        flag = f"--judge-{name.replace('_', '-')}"
        message = world.fails(*COMMANDS[command], flag, value)
        assert message.startswith(f"--param {name}: "), message
    assert "--param temperature: is given by --judge-temperature already" in world.fails(
        *COMMANDS[command], "--judge-temperature", "1", "--param", "temperature=1"
    )


@flag("judge_refresh")
def test_judge_refresh(world: World, command: str):
    assert len(asked_by(world, *COMMANDS[command])) == 2
    assert len(asked_by(world, *COMMANDS[command])) == 0
    assert len(asked_by(world, *COMMANDS[command], "--judge-refresh")) == 2


@flag("cache_only")
def test_cache_only(world: World, command: str):
    before = len(world.provider.asked)
    missing = world.fails(*COMMANDS[command], "--cache-only")
    assert missing == (
        "--cache-only: 2 of 2 verdicts not in the server's cache; run the same command without it "
        "to ask for them"
    )
    assert len(world.provider.asked) == before
    world.fine(*COMMANDS[command])
    assert asked_by(world, *COMMANDS[command], "--cache-only") == []
    # One sample of each is there, and that is not a vote of two or of three.
    for samples in ("2", "3"):
        assert "2 of 2 verdicts not in" in world.fails(
            *COMMANDS[command], "--cache-only", "--judge-samples", samples
        )
    assert len(world.provider.asked) == before + 2


@flag("max_cost")
def test_max_cost(world: World, command: str):
    # Too little for a single score, so the command fails.
    assert asked_by(world, *COMMANDS[command], "--max-cost", "1e-9", status=2) == []
    done = world(*COMMANDS[command], "--max-cost", "1e-9")
    assert (done.returncode, "2 of 2" in done.stderr) == (2, True), done.stderr
    assert len(asked_by(world, *COMMANDS[command], "--max-cost", "1")) == 2
    assert "must be above 0 and finite" in world.fails(*COMMANDS[command], "--max-cost", "0")


@flag("trace", "judge", without="folds")
def test_a_trace_stands_for_the_judge(world: World, command: str):
    world.fine(*COMMANDS[command], "--trace", "t.jsonl", "--json", "first.json")
    unjudged = [*COMMANDS[command], "--trace", "t.jsonl", "--json", "again.json"]
    if "--judge" in unjudged:
        unjudged[unjudged.index("llm")] = "none"
    else:
        unjudged += ["--judge", "none"]
    assert asked_by(world, *unjudged) == []
    first, again = (world.read(f"{n}.json") for n in ("first", "again"))
    for name in ("metrics", "rubrics", "counts"):
        assert first.get(name) == again.get(name)
    (world.folder / "t.jsonl").unlink()
    assert "t.jsonl to read; to write it" in world.fails(*unjudged)
