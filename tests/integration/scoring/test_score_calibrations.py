"""Scores of a rubric calibrated on people's labels, by a calibration and by the name of one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from judged import AnswerItem, Calibrator, Client, InvalidArgument, Rubric

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said, ScriptedProvider
from tests.integration.cli_process import Commands, lines_of
from tests.integration.llm_config import llm_config
from tests.integration.server_process import running_server

_ANSWER = re.compile(r'name="answer">\n(.*)\n<')
RUBRIC = ("--rubric", "answer_relevance")


def script(asked: Asked) -> Said:
    """The score of an answer is the number that it begins with."""
    (text,) = _ANSWER.findall(asked.user)
    return {"reasoning": "read off", "score": float(json.loads(text).split()[0])}


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script) as running:
        running.models = ("small",)
        yield running


def write_labels(path: Path, n: int) -> list[dict[str, object]]:
    """Write answers of which people like three in ten more than the scores say."""
    rng = Random(0)
    lines = []
    for place in range(n):
        score = place % 10 / 10
        lines.append(
            {
                "item_id": f"i{place}",
                "query": f"q{place // 4}",
                "answer": f"{score} of {place}",
                "relevant": rng.random() < 0.3 + 0.7 * score,
            }
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return lines


def test_from_labels_to_probabilities_of_scores(tmp_path: Path, provider: ScriptedProvider) -> None:
    lines = write_labels(tmp_path / "labels.jsonl", 240)
    (tmp_path / "kept").mkdir()
    config = ("--llm-config", llm_config(tmp_path, provider, {"small": ""}))
    with running_server(*config) as ready:
        judged = Commands(tmp_path, ready.address)
        believed = judged.document(
            "calibrate",
            "labels.jsonl",
            *RUBRIC,
            "--resamples",
            "200",
            "-o",
            "kept/ours.calibration.json",
        )["reliability"]
        assert (believed["fitted"], believed["n_labels"], believed["n_queries"]) == (True, 240, 60)
        kept = Calibrator.load(tmp_path / "kept" / "ours.calibration.json")

        scored = ("score", "labels.jsonl", *RUBRIC, "--output", "o.jsonl", "--json", "s.json")
        done = judged.fine(*scored, "--calibration", "kept/ours.calibration.json")
        assert f"|calibration:{kept.sha256[:8]}|" in done.stdout
        found = lines_of((tmp_path / "o.jsonl").read_text())
        share = sum(bool(line["relevant"]) for line in lines) / len(lines)
        mean = sum(score["probability"] for score in found) / len(found)
        assert abs(mean - share) < 0.02
        assert all(score["min_score"] == kept.min_score for score in found)
        assert [score["score"] for score in found[:3]] == [0.0, 0.1, 0.2]

        other = ("score", "labels.jsonl", "--rubric", "helpfulness")
        assert "--rubric helpfulness: --calibration: was made for another judge" in judged.refused(
            *other, "--calibration", "kept/ours.calibration.json"
        )
        both = judged(*scored, "--rubric", "helpfulness", "--calibration", "ours")
        assert "write it as RUBRIC=FILE" in both.stderr

        judge = judged("calibrate", "labels.jsonl", *RUBRIC, "--judge", "exact")
        assert "--judge: is of a judge, whose place --rubric takes" in judge.stderr

    with (
        running_server(*config, "--calibrations-dir", str(tmp_path / "kept")) as ready,
        Client(ready.address) as client,
    ):
        item = AnswerItem("i", "q", "0.5 of all")
        rubric = Rubric("answer_relevance", calibration="ours")
        (score,) = client.score_answers([item], [rubric])
        assert 0.5 < score.probability < 0.8
        assert score.min_score == kept.min_score
        (bare,) = client.score_answers([item], ["answer_relevance"])
        assert bare.probability is None
        with pytest.raises(InvalidArgument, match="no calibration is called 'theirs'"):
            client.score_answers([item], [Rubric("answer_relevance", calibration="theirs")])
