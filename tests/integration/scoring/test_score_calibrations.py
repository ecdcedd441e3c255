"""Scores of a rubric calibrated on people's labels, by a calibration and by the name of one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from judged import (
    AnswerItem,
    CalibrateOptions,
    Client,
    IntervalOptions,
    InvalidArgument,
    LabelledScores,
    Rubric,
)

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said, ScriptedProvider
from tests.integration.llm_config import llm_config
from tests.integration.server_process import running_server

_ANSWER = re.compile(r'name="answer">\n(.*)\n<')


def script(asked: Asked) -> Said:
    """The score of an answer is the number that it begins with."""
    (text,) = _ANSWER.findall(asked.user)
    return {"reasoning": "read off", "score": float(json.loads(text).split()[0])}


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with provider_on_a_thread(script) as running:
        running.models = ("small",)
        yield running


def answers(n: int) -> tuple[list[AnswerItem], list[bool]]:
    """Return answers of which people like three in ten more than the scores say, and whether."""
    rng = Random(0)
    scores = [place % 10 / 10 for place in range(n)]
    items = [
        AnswerItem(f"i{place}", f"q{place // 4}", f"{score} of {place}")
        for place, score in enumerate(scores)
    ]
    return items, [rng.random() < 0.3 + 0.7 * score for score in scores]


def test_from_labels_to_probabilities_of_scores(tmp_path: Path, provider: ScriptedProvider) -> None:
    items, labels = answers(240)
    (tmp_path / "kept").mkdir()
    config = ("--llm-config", llm_config(tmp_path, provider, {"small": ""}))
    with running_server(*config) as ready, Client(ready.address) as client:
        bare = client.score_answers(items, ["answer_relevance"])
        judge = bare.rubrics[0].judge
        options = CalibrateOptions(min_score=judge.min_score, judge=judge)
        lines = LabelledScores([s.score for s in bare], labels, [i.query for i in items])
        believed = client.calibrate(lines, options, IntervalOptions(resamples=200)).reliability
        assert (believed.fitted, believed.n_labels, believed.n_clusters) == (True, 240, 60)
        kept = believed.calibrator
        kept.save(tmp_path / "kept" / "ours.calibration.json")
        found = client.score_answers(items, [Rubric("answer_relevance", calibration=kept)])
        assert f"|calibration:{kept.sha256[:8]}|" in found.rubrics[0].judge.signature
        mean = sum(score.probability for score in found) / len(found)
        assert abs(mean - sum(labels) / len(labels)) < 0.02
        assert all(score.min_score == kept.min_score for score in found)
        assert [score.score for score in found] == [score.score for score in bare]
        with pytest.raises(InvalidArgument, match="was made for another judge"):
            client.score_answers(items, [Rubric("helpfulness", calibration=kept)])

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
