"""`judged canary record` and `check` against a real server, with a model that changes its mind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Failure, Said
from tests.integration.server_process import running_server
from tests.integration.traced_world import KEY, World, configured

ITEMS = 24


@dataclass
class Mind:
    """What the model says: yes to "good" texts, but to those with a word of `no`."""

    no: set[str] = field(default_factory=set)
    fails: bool = False
    unsteady: bool = False
    asked: int = 0
    yes_to: set[str] = field(default_factory=set)

    def __call__(self, asked: Asked) -> Said:
        self.asked += 1
        if self.fails:
            return Failure(400)
        if self.unsteady:  # each item's verdict is another one each time
            self.yes_to ^= set(items := re.findall(r"item\d+", asked.user))
            return {"reasoning": "so", "verdict": "yes" if items[0] in self.yes_to else "no"}
        yes = "good" in asked.user and not any(f"item{n} " in asked.user for n in self.no)
        return {"reasoning": "so it is", "verdict": "yes" if yes else "no"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Mind]]:
    folder, mind = tmp_path_factory.mktemp("canary"), Mind()
    with provider_on_a_thread(mind) as provider:
        flags = configured(provider, folder)
        with running_server(*flags, env={"SCRIPTED_KEY": KEY}) as server:
            yield World(provider, server, folder), mind


@pytest.fixture
def world(running: tuple[World, Mind], tmp_path: Path) -> World:
    first, mind = running
    mind.no, mind.yes_to, mind.fails, mind.unsteady, mind.asked = set(), set(), False, False, 0
    lines = [
        {
            "id": f"i{n}",
            "query": f"question {n}",
            "expected_text": "e",
            "retrieved_text": f"{'good' if n % 2 else 'poor'} item{n} text",
        }
        for n in range(ITEMS)
    ]
    path = tmp_path / "contexts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return World(first.provider, first.server, tmp_path)


@pytest.fixture
def mind(running: tuple[World, Mind], world: World) -> Mind:
    del world
    return running[1]


RECORD = ("canary", "record", "contexts.jsonl", "-o", "c.json", "--judge", "llm", "--asks", "10")
CHECK = ("canary", "check", "c.json")


def test_an_unchanged_judge_passes_and_is_asked_once_an_item(world: World, mind: Mind) -> None:
    document = world.document(*RECORD)
    assert (document["flips"], document["asks"]) == (0, 5 * ITEMS)
    assert document["models"] == ["scripted-1-2024-07-18"]
    assert mind.asked == 10 * ITEMS  # none of them from the cache
    found = world.document(*CHECK)
    assert (found["changed"], found["rounds"], found["flips"]) == (False, 1, 0)
    assert mind.asked == 11 * ITEMS
    assert "no sign that the judge has changed" in world.fine(*CHECK).stdout


def test_a_changed_judge_is_found_and_stays_found(world: World, mind: Mind) -> None:
    world.fine(*RECORD)
    world.fine(*CHECK)
    mind.no = {"1", "3", "5"}
    done = world(*CHECK, "--json", "found.json")
    assert done.returncode == 1, done.stdout + done.stderr
    found = world.read("found.json")
    assert [row["id"] for row in found["flipped"]] == ["i1", "i3", "i5"]
    assert found["flipped"][0]["recorded"] == "relevant"
    assert found["highest_evidence"] >= found["alarm_at"] == 20
    assert "flipped: i1, i3, i5\n" in done.stdout
    assert "the judge has changed; this stays until it is recorded again" in done.stdout
    mind.no = set()
    again = world(*CHECK)
    assert again.returncode == 1
    assert "the judge has changed" in again.stdout
    world.fine(*RECORD)  # the new recording is the reference
    assert "3 checks are of another recording" in world.fine(*CHECK).stderr


def test_a_judge_that_fails_ends_with_2_and_leaves_no_trace(world: World, mind: Mind) -> None:
    world.fine(*RECORD)
    mind.fails = True
    assert "24 of 24 items have no verdict: " in world.fails(*CHECK)
    assert not (world.folder / "c.history.jsonl").exists()


def test_a_judge_that_changes_its_mind_between_rounds_is_told(world: World, mind: Mind) -> None:
    mind.unsteady = True
    document = world.document(*RECORD)
    assert document["noisy_items"] == ITEMS
    assert document["share"] == 0.6  # of the 5 asks that measure, 3 differ from those that chose
    [warning] = document["warnings"]
    assert warning.startswith("24 of 24 items changed their verdict between rounds")
    assert world(*RECORD, "--strict").returncode == 1


@pytest.mark.parametrize("judge", ["exact", "token_overlap", "llm"])
@pytest.mark.parametrize("expected", [{}, {"expected_text": " "}])
def test_a_line_that_expects_nothing_is_no_item_of_a_judge_that_compares(
    world: World, judge: str, expected: dict[str, str]
) -> None:
    line = {"query": "what", "retrieved_text": "good item0 ", **expected}
    (world.folder / "none.jsonl").write_text(json.dumps(line) + "\n")
    command = ("canary", "record", "none.jsonl", "-o", "none.json", "--judge", judge, "--asks", "2")
    if judge == "llm" and expected:  # a blank text is shown to the model
        world.fine(*command)
    else:
        assert "expected_text" in world.fails(*command)
        assert not (world.folder / "none.json").exists()
