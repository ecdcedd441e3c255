"""`--judge none`: what ends it, and what the verdict cache does for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli_process import LINES
from tests.integration.server_process import ServerProcess
from tests.integration.traced_world import (
    EVALUATE,
    JUDGE,
    NAME,
    SCORE,
    World,
    filled,
    numbers,
    rewrite,
    running_world,
)

ONCE = "to get {}, run this command once with a judge in place of --judge none"
ANEW = "to judge anew, run this command once with a judge in place of --judge none"


@pytest.fixture(scope="module")
def llm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_world(tmp_path_factory.mktemp("llm")) as world:
        yield world


@pytest.fixture
def world(llm: World, tmp_path: Path) -> World:
    return filled(llm, tmp_path)


class TestProblems:
    def test_a_missing_judgement_says_which_and_how_to_get_it(self, world: World):
        llm = ("--judge", "llm", "--judge-model", "other", "--judge-samples", "3")
        first = world.document(*EVALUATE, *llm, "--trace", "t.jsonl")
        rewrite(world.folder / "t.jsonl", lambda lines: lines[:1] + lines[2:])
        message = world.fails(*EVALUATE, "--judge", "none", "--trace", "t.jsonl")
        assert message.startswith(
            f"--judge none: 1 of 2 judgements by {NAME} is not in t.jsonl, first that of "
            f"query 'q1', result 'd1', expected answer 1; {ONCE.format('it')}: llm|"
        )
        assert "|model:other|" in message
        assert "|samples:3|" in message
        world.fine(*EVALUATE, *llm, "--trace", "t.jsonl")
        again = world.document(*EVALUATE, "--judge", "none", "--trace", "t.jsonl")
        assert numbers(again) == numbers(first)

    def test_a_missing_line_is_named(self, world: World):
        world.fine(*JUDGE, "--judge", "exact", "--trace", "t.jsonl")
        rewrite(world.folder / "t.jsonl", lambda lines: lines[:-1])
        message = world.fails(*JUDGE, "--no-judge", "--trace", "t.jsonl")
        assert message == (
            "--judge none: 1 of 2 judgements by exact/verbatim is not in t.jsonl, first that of "
            f"contexts.jsonl:2; {ONCE.format('it')}: exact|profile:verbatim|min_score:0.5|v1"
        )

    def test_a_missing_score_is_named(self, world: World):
        world.fine(*SCORE, "--judge-model", "other", "--trace", "t.jsonl")
        rewrite(world.folder / "t.jsonl", lambda lines: lines[:-1])
        message = world.fails(*SCORE, "--judge", "none", "--trace", "t.jsonl")
        assert message.startswith(
            "--judge none: 2 of 4 judgements by answers/answer_relevance are not in t.jsonl, "
            f"first that of item 'b'; {ONCE.format('them')}: answers|"
        )
        world.fine(*SCORE, "--judge-model", "other", "--trace", "t.jsonl")
        world.fine(*SCORE, "--judge", "none", "--trace", "t.jsonl")

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
        assert message.startswith(
            f"--judge none: the judgements were made by rubric {rubric}@9, and this server has "
            f"{rubric}@1; {ANEW}"
        )
        world.fine(*command, *llm, "--trace", "t.jsonl")
        world.fine(*command, "--judge", "none", "--trace", "t.jsonl")

    def test_a_rubric_that_the_server_lacks(self, world: World):
        world.fine(*JUDGE, "--judge", "llm", "--trace", "t.jsonl")
        path = world.folder / "t.jsonl"
        path.write_text(path.read_text().replace("retrieval_match", "ours"))
        assert world.fails(*JUDGE, "--judge", "none", "--trace", "t.jsonl") == (
            "--judge none: the judgements were made by rubric ours@1, which this server lacks; "
            "start the server with --rubrics-dir FOLDER, where FOLDER has the file of ours, and "
            "run this command again"
        )

    def test_a_rubric_whose_text_was_changed(self, world: World):
        world.fine(*JUDGE, "--judge", "llm", "--trace", "t.jsonl")
        path = world.folder / "t.jsonl"
        path.write_text(re.sub(r"\|sha:[0-9a-f]{8}", "|sha:00000000", path.read_text()))
        message = world.fails(*JUDGE, "--judge", "none", "--trace", "t.jsonl")
        assert "with the hash 00000000, and that of this server is" in message

    def test_a_score_of_another_type_is_named_by_line_and_key(self, world: World):
        world.fine(*JUDGE, "--judge", "llm", "--trace", "t.jsonl")
        path = world.folder / "t.jsonl"
        path.write_text(path.read_text().replace('"score": 1.0', '"score": "1.0"'))
        message = world.fails(*JUDGE, "--judge", "none", "--trace", "t.jsonl")
        assert message == (
            f"t.jsonl:2: judgements['{NAME}'] has 'score' that is not a number but text; mend it, "
            "or delete the line and have its item judged again with --trace"
        )

    def test_judgements_of_several_judges(self, world: World):
        world.fine(*JUDGE, "--judge", "llm", "--trace", "t.jsonl")
        more = {"query": "?", "expected_text": "e", "retrieved_text": "r"}
        with (world.folder / "contexts.jsonl").open("a") as file:
            file.write(json.dumps(more) + "\n")
        (world.folder / "one.jsonl").write_text(json.dumps(more))
        other = ("--judge", "llm", "--judge-model", "other", "--trace", "t.jsonl")
        world.fine("judge", "one.jsonl", *other)
        message = world.fails(*JUDGE, "--judge", "none", "--trace", "t.jsonl")
        assert "are those of several judges, llm|" in message
        assert "model:small|" in message
        assert "model:other|" in message

    def test_judgements_under_several_thresholds(self, world: World):
        world.fine(*JUDGE, "--judge", "exact", "--trace", "t.jsonl")
        (world.folder / "one.jsonl").write_text(json.dumps(LINES[0]))
        world.fine(
            "judge", "one.jsonl", "--judge", "exact", "--min-score", "1", "--trace", "t.jsonl"
        )
        none = (*JUDGE, "--judge", "none", "--trace", "t.jsonl")
        assert world.fails(*none) == (
            "--judge none: the judgements by exact/verbatim were made under thresholds from 0.5 to "
            "1; say which to apply, by --min-score"
        )
        world.fine(*none, "--min-score", "0.7")

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
                (*JUDGE, "--no-judge", "--judge", "exact"),
                "--no-judge and --judge exact exclude each other; say one of them",
            ),
            (
                (*JUDGE, "--judge", "none", "--trace", "no.jsonl"),
                (
                    "--trace no.jsonl: there is no such file; to write it, run this command once "
                    "with a judge in place of --judge none"
                ),
            ),
            (
                (*JUDGE, "--trace-texts", "hash"),
                "--trace-texts: is for a --trace that is written; leave it out",
            ),
            (
                (*JUDGE, "--trace-judge", "exact", "--trace", "t.jsonl"),
                "--trace-judge: is for --judge none with --trace; leave it out",
            ),
            (
                (*JUDGE, "--judge", "none", "--trace", "x.jsonl", "--profile", "p"),
                "--profile: is for a judge, and --judge none runs none; leave it out",
            ),
            (
                (*EVALUATE, "--judge", "none", "--trace", "x.jsonl", "--member", "exact"),
                "--member: is for a judge, and --judge none runs none; leave it out",
            ),
            (
                (*EVALUATE, "--judge", "none", "--trace", "x.jsonl", "--stage", "exact"),
                "--stage: is for a judge, and --judge none runs none; leave it out",
            ),
            (
                (*EVALUATE, "--judge", "none", "--trace", "x.jsonl", "--calibration", "c.json"),
                "--calibration: is for a judge, and --judge none runs none; leave it out",
            ),
            (
                (*JUDGE, "--trace", "no/t.jsonl"),
                "--trace no/t.jsonl: there is no folder no; create it first",
            ),
            (
                (*SCORE, "--judge", "exact"),
                (
                    "--judge exact: answers are scored by language models, see --judge-model; "
                    "only --judge none is there"
                ),
            ),
        ],
    )
    def test_flags_that_do_not_fit(self, world: World, arguments: tuple[str, ...], says: str):
        assert world.fails(*arguments) == says

    def test_names_to_choose_from(self, world: World):
        world.fine(*JUDGE, "--judge", "exact", "--trace", "t.jsonl")
        world.fine(*JUDGE, "--trace", "t.jsonl")
        none = (*JUDGE, "--judge", "none", "--trace", "t.jsonl")
        assert world.fails(*none) == (
            "--judge none: t.jsonl has judgements by exact/verbatim, token_overlap/classic; say "
            "whose to take, by --trace-judge NAME"
        )
        assert world.fails(*none, "--trace-judge", "llm") == (
            "--trace-judge llm: t.jsonl has judgements by exact/verbatim, token_overlap/classic"
        )
        world.fine(*none, "--trace-judge", "token_overlap/classic")

    def test_families_have_judges_of_their_own(self, world: World):
        world.fine(*EVALUATE, "--trace", "t.jsonl")
        message = world.fails(
            *EVALUATE, "-m", "recall_exact@2", "--judge", "none", "--trace", "t.jsonl"
        )
        assert message.startswith(
            "--metric recall_exact@2: metrics of the family exact ask a judge"
        )

    def test_a_line_cut_off_is_a_warning_and_its_item_missing(self, world: World):
        world.fine(*JUDGE, "--judge", "exact", "--trace", "t.jsonl")
        path = world.folder / "t.jsonl"
        path.write_text(path.read_text()[:-20])
        done = world.run(*JUDGE, "--judge", "none", "--trace", "t.jsonl")
        assert done.returncode == 2
        warning, problem = done.stderr.splitlines()
        assert warning == (
            "judged: warning: t.jsonl:3: the last line was cut off; what it held is left out"
        )
        assert "first that of contexts.jsonl:2" in problem


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
        # What it says of money and samples is what the cache said.
        dear = world.fine(*SCORE, "--judge", "none").stdout
        assert re.search(
            r"^0 calls answered .*, cost 0; \d samples from the cache$", dear, re.MULTILINE
        )
        world.fine(*SCORE, "--judge-model", "other", "--trace", "t.jsonl")
        free = world.fine(*SCORE, "--judge", "none", "--judge-model", "other").stdout
        assert re.search(r"^0 calls answered .* output tokens; \d samples", free, re.MULTILINE)
        assert (
            "calls answered"
            not in world.fine(*SCORE, "--judge", "none", "--trace", "t.jsonl").stdout
        )

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

    def test_a_miss_says_how_to_fill_it(self, world: World):
        line = {"query": "never asked", "expected_text": "e", "retrieved_text": "r"}
        (world.folder / "new.jsonl").write_text(json.dumps(line))
        asked = world.provider.requests
        message = world.fails("judge", "new.jsonl", "--judge", "none", "--judge-model", "small")
        assert message.startswith(
            f"--judge none: 1 of 1 judgement by {NAME} is not in the server's verdict cache, first "
            f"that of new.jsonl:1; {ONCE.format('it')}: llm|"
        )
        assert world.provider.requests == asked
        world.fine("judge", "new.jsonl", "--judge", "llm", "--judge-model", "small")
        world.fine("judge", "new.jsonl", "--judge", "none", "--judge-model", "small")

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
        assert world.run(*none, "--strict").returncode == 1

    def test_another_model_is_no_stand_in(self, world: World):
        world.fine(*JUDGE, "--judge", "llm", "--judge-model", "small", "--trace", "t.jsonl")
        message = world.fails(
            *JUDGE, "--judge", "none", "--judge-model", "other", "--trace", "t.jsonl"
        )
        assert "the trace was made by llm|" in message
        assert "but the cache was asked for llm|" in message

    @pytest.mark.parametrize(
        "other",
        [
            ("--judge-model", "other"),
            ("--judge-model", "small", "--judge-samples", "5", "--judge-temperature", "0.3"),
            ("--weights", "accuracy=1"),
        ],
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

    def test_a_model_without_a_key_says_what_to_do(self, world: World, server: ServerProcess):
        bare = World(world.provider, server, world.folder)
        message = bare.fails(*JUDGE, "--judge", "none", "--judge-model", "small")
        assert "--llm-config" in message
