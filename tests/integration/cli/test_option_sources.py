"""Where the options of a command come from, for every command that asks a language model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.model_commands import COMMANDS, asked_by, filled, script
from tests.integration.traced_world import World, running_world


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("llm"), script) as world:
        yield world


@pytest.fixture
def world(running: World, tmp_path: Path) -> World:
    """The server, with two contexts and two answers that nobody has asked about yet."""
    return filled(World(running.provider, running.server, tmp_path))


class TestWhereOptionsComeFrom:
    """A flag goes before JUDGED_*, that before the file, and that before the default."""

    @pytest.mark.parametrize("command", COMMANDS)
    def test_each_source_covers_the_next(
        self, world: World, command: str, monkeypatch: pytest.MonkeyPatch
    ):
        line = COMMANDS[command]
        (world.folder / "judged.toml").write_text("judge-max-tokens = 11\njudge-samples = 2\n")

        def longest(*arguments: str) -> set[int]:
            return {each.body["max_tokens"] for each in asked_by(filled(world), *arguments)}

        by_default = longest(*line)
        assert len(by_default) == 1
        assert by_default.isdisjoint({11, 22, 33})
        assert longest("--config", "judged.toml", *line) == {11}
        monkeypatch.setenv("JUDGED_JUDGE_MAX_TOKENS", "22")
        assert longest("--config", "judged.toml", *line) == {22}
        assert longest("--config", "judged.toml", *line, "--judge-max-tokens", "33") == {33}
        monkeypatch.setenv("JUDGED_CLI_CONFIG", "judged.toml")
        assert len(asked_by(filled(world), *line)) == 4  # two samples, as the file says
        assert longest(*line, "--judge-max-tokens", "33") == {33}

    @pytest.mark.parametrize("command", COMMANDS)
    def test_a_whole_command_from_the_environment(
        self, world: World, command: str, monkeypatch: pytest.MonkeyPatch
    ):
        for name, value in {
            "JUDGE": "llm", "JUDGE_MODEL": "other", "JUDGE_SAMPLES": "3", "METRIC": "mrr ndcg@5",
            "RUBRIC": "helpfulness answer_relevance", "RESULTS": "results.jsonl",
            # Few labels are a warning.
            "STRICT": "" if command == "calibrate" else "true",
            "TRACE": "t.jsonl", "JSON": "out.json", "JUDGE_REFRESH": "yes", "MAX_COST": "",
        }.items():  # fmt: skip
            monkeypatch.setenv(f"JUDGED_{name}", value)
        rubrics = 2 if command == "score" else 1
        assert len(asked_by(world, *COMMANDS[command][:2])) == 6 * rubrics
        document = json.loads((world.folder / "out.json").read_text())
        assert "|model:other|" in str(document)
        assert (world.folder / "t.jsonl").exists()
        # What is typed turns the rest of it aside.
        before = len(world.provider.asked)
        unjudged = ("--judge", "none") if command == "calibrate" else ("--no-judge",)
        world.fine(*COMMANDS[command][:2], *unjudged)
        if command != "score":
            world.run(*COMMANDS[command][:2], "--judge", "exact")
        assert len(world.provider.asked) == before

    def test_what_is_wrong_is_named_by_its_source(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ):
        (world.folder / "judged.toml").write_text("judge-modle = 'small'\n")
        message = world.fails("--config", "judged.toml", *COMMANDS["judge"])
        assert message == "judged.toml: judge-modle is no option; did you mean judge-model?"
        monkeypatch.setenv("JUDGED_NO_JUDGE", "maybe")
        assert world.fails(*COMMANDS["judge"]).startswith(
            "JUDGED_NO_JUDGE: Invalid value for '--no-judge': 'maybe' is not a valid boolean"
        )
