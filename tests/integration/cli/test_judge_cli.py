"""`judged judge`: a process, two streams, an exit status."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.integration.cli_process import LINES, lines_of


class TestJudge:
    def test_prints_the_lines_with_their_verdicts(self, judged):
        done = judged("judge", "contexts.jsonl", "--judge", "token_overlap")
        assert done.returncode == 0
        first, second = lines_of(done.stdout)
        assert first.items() >= LINES[0].items()
        assert (first["status"], first["relevant"], first["source"]) == ("OK", True, "COMPUTED")
        assert first["score"] == pytest.approx(5 / 6)
        assert (second["relevant"], second["score"]) == (False, 0.0)
        assert done.stderr == (
            "judged: 2 verdicts, 1 relevant, coverage 1; token_overlap|profile:classic|"
            "min_tokens:2|query_boost:true|min_score:0.6|v2\n"
        )

    def test_reads_standard_input_and_writes_files(self, judged, folder):
        stdin = (folder / "contexts.jsonl").read_text()
        done = judged(
            *shlex.split("judge - --judge exact --output out.jsonl --json out.json"),
            stdin=stdin,
        )
        assert (done.returncode, done.stdout) == (0, "")
        document = judged.read("out.json")
        assert document["verdicts"] == lines_of((folder / "out.jsonl").read_text())
        assert document["counts"]["ok"] == 2
        assert document["signature"].startswith("exact|profile:verbatim")

    def test_a_large_file_is_judged_in_blocks_with_the_same_lines(self, judged, folder):
        lines = [{**LINES[n % 2], "id": str(n), "status": "mine"} for n in range(9_000)]
        raw = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "many.jsonl").write_text(raw)
        flags = ("--judge", "token_overlap", "--output")
        done = judged("judge", "many.jsonl", *flags, "out.jsonl")
        assert (done.returncode, done.stdout) == (0, "")
        printed = judged("judge", "many.jsonl", *flags, "-")
        assert (folder / "out.jsonl").read_text() == printed.stdout
        assert done.stderr == printed.stderr
        assert "9000 verdicts, 4500 relevant" in done.stderr
        assert "fields that the verdict replaced: status" in done.stderr

    def test_nothing_is_judged_before_all_lines_are_checked(self, judged, folder):
        with (folder / "contexts.jsonl").open("a") as file:
            file.writelines(json.dumps({**LINES[0], "id": "again"}) + "\n" for _ in range(2))
        assert "contexts.jsonl:4: has the id 'again' of line 3" in judged.refused(
            "judge", "contexts.jsonl", "--judge", "exact", "--output", "out.jsonl"
        )
        assert not (folder / "out.jsonl").exists()

    def test_ends_with_2_where_every_verdict_failed(self, judged, folder):
        long, short = (
            {"query": "", "expected_text": "a", "retrieved_text": "a " * n} for n in (600, 1)
        )
        for lines, status in (([long], 2), ([long, short], 0)):
            judged.write("long.jsonl", lines)
            done = judged(
                "judge", "long.jsonl", "--judge", "semantic", "--param", "long_text=reject"
            )
            assert done.returncode == status, done.stderr
            assert lines_of(done.stdout)[0]["error"]["reason"] == "TEXT_TOO_LONG"
            assert ("every verdict failed" in done.stderr) == (status == 2)

    def test_names_the_profile_for_other_scripts_and_counts_it_when_strict(self, judged, folder):
        line = {"query": "", "expected_text": "検索拡張生成", "retrieved_text": "生成", "score": 3}
        (folder / "cjk.jsonl").write_text(json.dumps(line, ensure_ascii=False), encoding="utf-8")
        done = judged("judge", "cjk.jsonl", "--judge", "token_overlap", "--strict")
        assert done.returncode == 1
        assert lines_of(done.stdout)[0]["flags"] == ["NO_TOKENS"]
        assert "検索拡張生成" in done.stdout
        assert "warning: 1 of 1 verdict is about" in done.stderr
        assert "--profile unicode" in done.stderr
        assert "warning: the input has fields that the verdict replaced: score" in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--judge", "nope"], "no judge is called 'nope'; this server has "),
            (
                ["--judge", "token_overlap", "--param", "min_token=2"],
                "--param min_token: no such parameter; this judge has min_tokens, query_boost; did",
            ),
            (["--json", "nowhere/out.json"], "--json nowhere/out.json: can't be written"),
            (["--output", "."], "--output .: can't be written"),
            (["--target", "127.0.0.1:1"], "can't reach 127.0.0.1:1: "),
            (["--judge", "span"], "--judge span, for judged evaluate with 'expected_spans': span|"),
            (
                ["--judge", "answers"],
                "--judge: answers scores answers, not contexts; call ScoreAnswers, or run judged s",
            ),
            (
                ["--judge", "panel", "--member", "exact", "--member", "nope"],
                "no judge is called 'nope'; this server has token_overlap, exact",
            ),
        ],
    )
    def test_says_in_one_line_what_is_wrong(self, judged, arguments, message):
        said = judged.refused("judge", "contexts.jsonl", *arguments)
        assert said.startswith(f"judged: {message}")
        assert said.count("\n") == 1

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ("", "bad.jsonl: holds nothing to judge"),
            ("{}", "bad.jsonl:1: has no 'query'"),
            (
                '{"question": "q"}',
                "bad.jsonl:1: has no 'query'; is it what is called 'question' here?",
            ),
            (
                '{"query": "q", "expected": "a", "retrieved_text": "b"}',
                "bad.jsonl:1: has no 'expected_text'",
            ),
            ('\n{"query": "a",}', "bad.jsonl:2: is not JSON"),
        ],
    )
    def test_names_the_line_of_a_bad_file(self, judged, folder, raw, message):
        (folder / "bad.jsonl").write_text(raw)
        assert judged.refused("judge", "bad.jsonl", "--judge", "exact").startswith(
            f"judged: {message}"
        )

    def test_names_the_line_of_a_text_that_the_server_refuses(self, judged, folder):
        huge = {**LINES[0], "id": "huge", "retrieved_text": "x" * (2 << 20)}
        with (folder / "contexts.jsonl").open("a") as file:
            file.write(json.dumps(huge))
        for output in ("-", "out.jsonl"):
            assert judged.refused(
                "judge", "contexts.jsonl", "--judge", "exact", "--output", output
            ).startswith("judged: contexts.jsonl:3: 'retrieved_text': 2097152 bytes")
