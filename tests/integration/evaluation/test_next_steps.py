"""`--judge none` where something is missing: the command that it names works, and gets it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.server_process import ServerProcess
from tests.integration.traced_world import (
    EVALUATE,
    JUDGE,
    SCORE,
    World,
    filled,
    rewrite,
    running_world,
)


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("llm")) as world:
        yield world


@pytest.fixture
def world(llm: World, tmp_path: Path) -> World:
    return filled(llm, tmp_path)


def step_of(message: str) -> list[str]:
    """Return what the command that a message names has behind `judged`."""
    name, *words = shlex.split(re.split(r"(?:with|judge): (?=judged )", message)[1])
    assert name == "judged"
    return words


@pytest.mark.parametrize(
    "judge",
    [
        ("--judge", "exact", "--min-score", "0.9"),
        ("--judge", "llm", "--judge-model", "other", "--min-score", "0.9"),
        ("--judge", "panel", "--member", "exact", "--member", "llm:model=other"),
        (
            *("--judge", "panel", "--profile", "weighted", "--min-score", "0.7"),
            *("--member", "token_overlap/unicode:weight=2", "--member", "llm"),
        ),
    ],
)
@pytest.mark.parametrize("command", [EVALUATE, JUDGE])
def test_after_a_gap(world: World, command: tuple[str, ...], judge: tuple[str, ...]):
    world.fine(*command, *judge, "--trace", "t.jsonl")
    whole = (world.folder / "t.jsonl").read_text()
    rewrite(world.folder / "t.jsonl", lambda lines: lines[:-1])
    none = (*command, "--judge", "none", "--trace", "t.jsonl")
    world.fine(*step_of(world.fails(*none)))
    world.fine(*none)
    made = [json.loads(line) for line in (world.folder / "t.jsonl").read_text().splitlines()]
    for line, first in zip(made[1:], map(json.loads, whole.splitlines()[1:]), strict=True):
        for name, judgement in first["judgements"].items():
            assert line["judgements"][name]["fingerprint"] == judgement["fingerprint"]


def test_after_a_gap_in_scores_with_weights_and_a_threshold(world: World):
    score = ("score", "answers.jsonl", "--rubric", "answer_quality")
    given = ("--weights", "accuracy=2,coherence=1", "--min-score", "0.3")
    world.fine(*score, *given, "--judge-model", "other", "--trace", "t.jsonl")
    rewrite(world.folder / "t.jsonl", lambda lines: lines[:-1])
    none = (*score, "--judge", "none", "--trace", "t.jsonl")
    world.fine(*step_of(world.fails(*none)))
    world.fine(*none)


def test_members_with_parameters_of_their_own_are_to_be_named(world: World):
    members = ("--member", "exact", "--member", "llm:samples=3")
    world.fine(*JUDGE, "--judge", "panel", *members, "--trace", "t.jsonl")
    rewrite(world.folder / "t.jsonl", lambda lines: lines[:-1])
    message = world.fails(*JUDGE, "--judge", "none", "--trace", "t.jsonl")
    assert "; the trace does not tell how llm judged: say it in place of NAME=VALUE" in message
    step = step_of(message)
    assert "--member llm:NAME=VALUE: NAME: judge llm has" in world.fails(*step)
    world.fine(*(word.replace("NAME=VALUE", "samples=3") for word in step))
    world.fine(*JUDGE, "--judge", "none", "--trace", "t.jsonl")


def test_where_a_trace_has_scores_of_answers_only(world: World):
    world.fine(*SCORE, "--judge-model", "other", "--trace", "t.jsonl")
    none = (*JUDGE, "--judge", "none", "--trace", "t.jsonl")
    message = world.fails(*none)
    assert "t.jsonl has no judgements of contexts, only scores of answers" in message
    step = step_of(message)
    assert step[-4:] == ["--judge", "llm", "--judge-model", "small"]
    world.fine(*step)
    world.fine(*none)


@pytest.mark.parametrize("asked", [(), ("--judge-model", "other", "--judge-samples", "3")])
@pytest.mark.parametrize("command", [EVALUATE, JUDGE, SCORE])
def test_where_there_is_no_trace(world: World, command: tuple[str, ...], asked: tuple[str, ...]):
    none = (*command, *asked, "--judge", "none", "--trace", "t.jsonl")
    world.fine(*step_of(world.fails(*none)))
    replayed = world.document(*none)
    model = "model:other" if asked else "model:small"
    assert model in json.dumps(replayed)


def test_where_the_cache_lacks_a_score(world: World):
    answer = {"query": "q", "answer": "never scored", "contexts": ["c"]}
    (world.folder / "answers.jsonl").write_text(json.dumps(answer))
    none = ("score", "answers.jsonl", "--rubric", "answer_relevance", "--judge", "none")
    step = step_of(world.fails(*none, "--cache-only"))
    assert "--cache-only" not in step
    world.fine(*step)
    world.fine(*none)


def test_where_the_server_lacks_the_rubric(world: World, server: ServerProcess, tmp_path: Path):
    world.fine(*JUDGE, "--judge", "llm", "--trace", "t.jsonl")
    path = world.folder / "t.jsonl"
    path.write_text(path.read_text().replace("retrieval_match", "ours"))
    message = world.fails(*JUDGE, "--judge", "none", "--trace", "t.jsonl")
    assert message == (
        "--judge none: the judgements were made by rubric ours@1, which this server lacks; "
        "start the server with --rubrics-dir FOLDER, where FOLDER has the file of ours, and "
        "run this command again"
    )


def test_where_the_server_lacks_the_model(world: World, server: ServerProcess):
    world.fine(*JUDGE, "--judge", "llm", "--trace", "t.jsonl")
    rewrite(world.folder / "t.jsonl", lambda lines: lines[:-1])
    bare = World(world.provider, server, world.folder)
    assert (
        "; this server has no language model 'small': start the server with --llm-config "
        "FILE, where FILE names it; then get them with: judged judge "
    ) in bare.fails(*JUDGE, "--judge", "none", "--trace", "t.jsonl")
