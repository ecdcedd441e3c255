"""`--judge none`: what ends it, and what the verdict cache does for it."""

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

ONCE = "to get {}, run this command once with a judge in place of --judge none"
ANEW = "to judge anew, run this command once with a judge in place of --judge none"


class TestProblems:
    def test_a_missing_judgement_says_which_and_how_to_get_it(self, world: World):
        llm = ("--judge", "llm", "--judge-model", "other", "--judge-samples", "3")
        first = world.document(*EVALUATE, *llm, "--trace", "t.jsonl")
        rewrite(world.folder / "t.jsonl", lambda lines: lines[:1] + lines[2:])
        message = world.fails(*EVALUATE, "--judge", "none", "--trace", "t.jsonl")
        assert message.startswith(
            f"--judge none: 1 of 2 judgements by {NAME} is not in t.jsonl, first that of "
            f"query 'q1', result 'd1'; {ONCE.format('it')}: llm|"
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
            rf"this server has {rubric}@1 with the hash \w+; {ANEW}",
            message,
        )
        world.fine(*command, *llm, "--trace", "t.jsonl")
        world.fine(*command, "--judge", "none", "--trace", "t.jsonl")

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (
                (*JUDGE, "--judge", "none"),
                (
                    "--judge none: say where the judgements come from: --trace FILE, or "
                    "--judge-model NAME for the server's verdict cache"
                ),
            ),
            (
                (*JUDGE, "--judge", "none", "--trace", "no.jsonl"),
                (
                    "--trace no.jsonl: there is no such file; to write it, run this command once "
                    "with a judge in place of --judge none"
                ),
            ),
            (
                (*JUDGE, "--trace", "no/t.jsonl"),
                "--trace no/t.jsonl: there is no folder no; create it first",
            ),
        ],
    )
    def test_flags_that_do_not_fit(self, world: World, arguments: tuple[str, ...], says: str):
        assert world.fails(*arguments) == says


class TestCache:
    def test_stands_for_the_judge_without_a_trace(self, world: World):
        llm = ("--judge-model", "small", "--judge-samples", "3")
        first = world.document(*EVALUATE, "--judge", "llm", *llm)
        asked = world.provider.requests
        again = world.document(*EVALUATE, "--judge", "none", *llm)
        assert numbers(again) == numbers(first)
        assert world.provider.requests == asked

    def test_stands_for_the_scores_too(self, world: World):
        first = world.document(*SCORE)
        asked = world.provider.requests
        again = world.document(*SCORE, "--judge", "none")
        assert again["rubrics"] == first["rubrics"]
        assert world.provider.requests == asked

    def test_fills_what_the_trace_lacks(self, world: World):
        llm = ("--judge-model", "small")
        first = world.document(*JUDGE, "--judge", "llm", *llm, "--trace", "t.jsonl")
        rewrite(world.folder / "t.jsonl", lambda lines: lines[:-1])
        asked = world.provider.requests
        again = world.document(*JUDGE, "--judge", "none", *llm, "--trace", "t.jsonl")
        assert again["counts"] == first["counts"]
        sources = [line["source"] for line in again["verdicts"]]
        assert sources == ["REPLAY", "CACHE"]
        assert world.provider.requests == asked

    @pytest.mark.parametrize("command", [EVALUATE, JUDGE, SCORE])
    def test_disagreement_warns_and_counts_when_strict(
        self, world: World, command: tuple[str, ...]
    ):
        llm = () if command is SCORE else ("--judge", "llm")
        model = ("--judge-model", "small")
        world.fine(*command, *llm, *model, "--trace", "t.jsonl")
        path = world.folder / "t.jsonl"
        text = path.read_text()
        changed = re.sub(
            r'"passed": true, "score": [\d.]+(.*?)"majority": \w+',
            r'"passed": false, "score": 0.1\1"majority": null',
            text,
            count=1,
        )
        assert changed != text
        path.write_text(changed)
        none = (*command, "--judge", "none", *model, "--trace", "t.jsonl")
        done = world.fine(*none)
        assert (
            "warning: 1 verdict differs between t.jsonl and the server's verdict cache; those of "
            "the trace count. Judge anew with --judge-refresh to settle it"
        ) in done.stderr
        assert world(*none, "--strict").returncode == 1

    @pytest.mark.parametrize(
        "other",
        [("--judge-model", "other"), ("--weights", "accuracy=1")],
    )
    def test_another_scorer_is_no_stand_in_whether_it_was_asked_before_or_not(
        self, world: World, other: tuple[str, ...]
    ):
        score = ("score", "answers.jsonl", "--rubric", "answer_quality")
        world.fine(*score, "--judge-model", "small", "--trace", "t.jsonl")
        none = (*score, "--judge", "none", "--trace", "t.jsonl", *other)
        message = world.fails(*none)
        assert message.startswith("--judge none: the trace was made by answers|")
        assert "but the cache was asked for answers|" in message
        assert message.endswith(ANEW)
        world.fine(*score, "--trace", "t.jsonl", *other)
        assert message not in world.fine(*none).stderr
