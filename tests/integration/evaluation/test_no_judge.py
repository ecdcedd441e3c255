"""`--judge none`: what ends it."""

from __future__ import annotations

import re

import pytest

from tests.integration.traced_world import (
    EVALUATE,
    JUDGE,
    NAME,
    SCORE,
    World,
    numbers,
    rewrite,
)

ONCE = "run this command once with a judge in place of --judge none"


class TestProblems:
    def test_a_missing_judgement_says_which_and_how_to_get_it(self, world: World):
        llm = ("--judge", "llm", "--judge-model", "other", "--judge-samples", "3")
        first = world.document(*EVALUATE, *llm, "--trace", "t.jsonl")
        rewrite(world.folder / "t.jsonl", lambda lines: lines[:1] + lines[2:])
        message = world.fails(*EVALUATE, "--judge", "none", "--trace", "t.jsonl")
        assert message.startswith(
            f"--judge none: 1 of 2 judgements by {NAME} is not in t.jsonl, first that of "
            f"query 'q1', result 1; {ONCE}: llm|"
        )
        assert "|model:other|" in message
        assert "|samples:3|" in message
        world.fine(*EVALUATE, *llm, "--trace", "t.jsonl")
        again = world.document(*EVALUATE, "--judge", "none", "--trace", "t.jsonl")
        assert numbers(again) == numbers(first)

    @pytest.mark.parametrize("command", [EVALUATE, JUDGE, SCORE])
    def test_another_version_of_the_rubric(self, world: World, command: tuple[str, ...]):
        llm = () if command is SCORE else ("--judge", "llm")
        world.fine(*command, *llm, "--trace", "t.jsonl")
        path = world.folder / "t.jsonl"
        rubric = "faithfulness" if command is SCORE else "retrieval_match"
        path.write_text(
            path.read_text()
            .replace(f"rubric:{rubric}@1", f"rubric:{rubric}@9")
            .replace(f'"{rubric}", "rubric_version": "1"', f'"{rubric}", "rubric_version": "9"')
        )
        message = world.fails(*command, "--judge", "none", "--trace", "t.jsonl")
        assert re.match(
            rf"--judge none: the judgements were made by rubric {rubric}@9 with the hash \w+, and "
            rf"this server has {rubric}@1 with the hash \w+; or {ONCE}",
            message,
        )
        world.fine(*command, *llm, "--trace", "t.jsonl")
        world.fine(*command, "--judge", "none", "--trace", "t.jsonl")

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (
                (*JUDGE, "--judge", "none"),
                f"--judge none: there is no --trace FILE to read; to write it, {ONCE}",
            ),
            (
                (*JUDGE, "--judge", "none", "--trace", "no.jsonl"),
                f"--judge none: there is no --trace no.jsonl to read; to write it, {ONCE}",
            ),
            (
                (*JUDGE, "--trace", "no/t.jsonl"),
                "--trace no/t.jsonl: can't be written; name a file in a folder that is there",
            ),
        ],
    )
    def test_flags_that_do_not_fit(self, world: World, arguments: tuple[str, ...], says: str):
        assert world.fails(*arguments) == says
