"""Answers scored by `judged score`: a real server, a scripted provider."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.integration.cli_process import Commands, lines_of
from tests.integration.scoring.scripted_scores import DIMENSIONS

ANSWERS = [
    {"item_id": "good", "query": "q", "answer": "one. two", "contexts": ["c"]},
    {"query": "q", "answer": "false. two", "contexts": ["c"]},
    {"item_id": "empty", "query": "q", "answer": "", "contexts": ["c"]},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, ANSWERS)
    return tmp_path


def write(folder: Path, answers: list[dict[str, object]]) -> None:
    lines = "".join(json.dumps(answer) + "\n" for answer in answers)
    (folder / "answers.jsonl").write_text(lines)


class TestCommandLine:
    def test_a_row_a_rubric(self, judged: Commands, folder: Path):
        done = judged.fine(
            *shlex.split(
                "score answers.jsonl --rubric faithfulness@1 --rubric answer_relevance "
                "--json out.json --judge-model small"
            ),
        )
        rows = [re.split(r"\s{2,}", line) for line in done.stdout.splitlines()]
        assert ["faithfulness", "0.7500", "1 of 2", "2", "0", "0", "1", "-"] in rows
        assert ["answer_relevance", "0.5500", "1 of 2", "2", "0", "0", "1", "-"] in rows
        assert "3 answers by 2 rubrics\njudge answers|" in done.stdout
        assert "2 of 6 scores are missing: 2 not assessable" in done.stderr
        document = judged.read("out.json")
        assert document["rubrics"]["faithfulness"]["mean"] == 0.75
        assert document["rubrics"]["faithfulness"]["counts"]["not_assessable"] == 1
        assert len(document["scores"]) == 6
        assert document["usage"]["calls"] + document["usage"]["cached"] > 0
        assert len(document["warnings"]) == 3

    def test_a_line_a_score(self, judged: Commands, folder: Path):
        done = judged.fine(
            *shlex.split("score - --rubric answer_quality --output - --details"),
            stdin=json.dumps(ANSWERS[0]),
        )
        (line,) = lines_of(done.stdout)
        assert (line["item_id"], line["rubric"], line["status"]) == ("good", "answer_quality", "OK")
        assert line["score"] == pytest.approx(0.85)
        assert line["reported_overall"] == 0.5
        assert line["dimensions"] == DIMENSIONS
        assert line["detail"]["reasoning"] == "weighed"
        assert len(line["detail"]["raw_replies"]) == 1
        assert "1 answer by 1 rubric" in done.stderr

    def test_bar_and_votes(self, judged: Commands, tmp_path: Path):
        write(tmp_path, [{"query": "q", "answer": "split", "contexts": ["c"]}])
        done = judged(
            *shlex.split(
                "score answers.jsonl --rubric answer_quality --rubric helpfulness "
                "--min-score 0.8 --judge-samples 3 --judge-temperature 0.5 "
                "--judge-max-tokens 99 --output scores --strict --param max_context_tokens=512"
            ),
        )
        assert done.returncode == 1  # a warning, and it is strict
        assert "votes on both sides" in done.stderr
        quality, helpful = lines_of((tmp_path / "scores").read_text())
        assert quality["score"] == pytest.approx(0.85)
        assert (quality["min_score"], quality["passed"], quality["samples"]) == (0.8, True, 3)
        assert helpful["agreement"] == pytest.approx(2 / 3)
        assert (helpful["score"], helpful["passed"]) == (pytest.approx(2 / 3), False)
        assert "temperature:0.5" in done.stdout

    @pytest.mark.parametrize(("threshold", "status"), [("0.55", 0), ("0.56", 1)])
    def test_gates(self, judged: Commands, folder: Path, threshold: str, status: int):
        done = judged(
            *shlex.split("score answers.jsonl --rubric answer_relevance --json - --min-score"),
            f"answer_relevance={threshold}",
        )
        assert done.returncode == status
        assert ("failed: answer_relevance is 0.5500; --min-score" in done.stderr) == status
        gate, coverage = json.loads(done.stdout)["gates"]
        assert (coverage["gate"], coverage["value"], coverage["passed"]) == (
            "min_coverage",
            1,
            True,
        )
        assert f"judged: {gate.pop('message')}\n" in done.stderr
        assert gate == {
            "gate": "min_score",
            "metric": "answer_relevance",
            "threshold": float(threshold),
            "value": pytest.approx(0.55),
            "worst_case": pytest.approx(0.55),
            "passed": not status,
        }

    @pytest.mark.parametrize(("own", "status"), [(0.2, 0), (0.3, 1)])
    def test_a_line_says_what_its_own_score_must_reach(
        self, judged: Commands, tmp_path: Path, own: float, status: int
    ):
        write(tmp_path, [ANSWERS[0], {**ANSWERS[1], "min_score": own}])
        done = judged("score", "answers.jsonl", "--rubric", "answer_relevance", "--json", "-")
        assert done.returncode == status, done.stderr
        (gate,) = json.loads(done.stdout)["gates"]
        assert (gate["gate"], gate["passed"], gate["value"]) == (
            "min_score",
            not status,
            1 - status,
        )
        reaches = f"{1 - status} of 1 score {'reach' if status else 'reaches'} the 'min_score' of"
        assert reaches in gate["message"]
        assert ("is 0.2000, and must be 0.3" in done.stderr) == status

    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            (["--rubric", "helpfulnes"], "no rubric is called 'helpfulnes'"),
            (["--rubric", "helpfulness"] * 2, "--rubric helpfulness: repeats rubrics[0]"),
            (
                ["--rubric", "helpfulness", "--min-score", "faithfulness=1"],
                "--min-score faithfulness=1: is not measured; add --rubric faith",
            ),
            (
                ["--rubric", "helpfulness", "--min-score", "high"],
                "--min-score high: give the",
            ),
        ],
    )
    def test_names_the_flag_that_is_wrong(
        self, judged: Commands, folder: Path, flags: list[str], message: str
    ):
        assert message in judged.refused("score", "answers.jsonl", *flags)
