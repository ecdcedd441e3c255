"""MeasureAgreement and Calibrate through both clients and the command line."""

from __future__ import annotations

import json
import random

import pytest
from judged import (
    CalibrateOptions,
    Client,
    IntervalOptions,
    LabelledScores,
    RatingLevel,
    RatingTable,
    SystemScores,
    ThresholdCriterion,
)

RATINGS = RatingTable.of(
    ["no", "maybe", "yes"],
    {"a": ["yes", "no", "maybe", None, "no"] * 20, "b": ["yes", "no", "yes", "no", "maybe"] * 20},
    RatingLevel.ORDINAL,
)
SYSTEMS = SystemScores([f"system {i}" for i in range(12)], range(12), [*range(11), -1])
FEW = IntervalOptions(resamples=500)


def scored(n=600, labelled=300):
    chance = random.Random(7)
    truth = [chance.random() < 0.6 for _ in range(n)]
    scores = [min(1.0, max(0.0, chance.gauss(0.35 + 0.3 * t, 0.15))) for t in truth]
    labels = [t if i < labelled else None for i, t in enumerate(truth)]
    return LabelledScores(scores, labels, [f"query {i // 4}" for i in range(n)])


def test_ratings_and_systems_are_answered_together(client: Client):
    found = client.measure_agreement(RATINGS, SYSTEMS, FEW)
    assert found.ratings.n_items == 80
    assert found.ratings.confusion_rows() == [[20, 20, 0], [0, 0, 20], [0, 0, 20]]
    assert found.ratings.observed.value == 0.5
    for name in ("cohen_kappa", "quadratic_kappa", "fleiss_kappa", "krippendorff_alpha"):
        estimate = getattr(found.ratings, name)
        assert estimate.interval.lower < estimate.value < estimate.interval.upper
    assert found.systems.n_systems == 12
    assert found.systems.kendall_tau.value == pytest.approx(1 - 4 * 11 / (12 * 11))


def test_a_judge_is_calibrated(client: Client):
    items = scored()
    found = client.calibrate(items, CalibrateOptions(min_score=0.5), FEW)
    assert found.quality.n == 300
    assert found.quality.accuracy.value > 0.7
    assert found.quality.auc.interval.signature.endswith("over:clusters")
    assert [threshold.criterion for threshold in found.thresholds] == list(ThresholdCriterion)
    assert all(0 <= threshold.min_score <= 1 for threshold in found.thresholds)
    assert (found.prevalence.n, found.prevalence.n_labelled) == (150, 75)
    assert (
        found.prevalence.corrected.interval.lower < 0.6 < found.prevalence.corrected.interval.upper
    )
    assert found.cascade.max_error == 0.05
    assert 0 <= found.cascade.escalated <= 1


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_agree_prints_numbers(judged, tmp_path):
    pairs = [("good", "good"), ("bad", "good"), ("bad", "bad"), ("good", "good")] * 20
    rows = [{"item_id": i, "ratings": {"ann": a, "bob": b}} for i, (a, b) in enumerate(pairs)]
    write(tmp_path / "labels.jsonl", [*rows, {"item_id": "last", "ratings": {"ann": "bad"}}])
    done = judged("agree", "labels.jsonl", "--json", "found.json", "--strict")
    assert done.returncode == 0, done.stderr
    assert "80 of 81 items have two ratings or more; 2 raters, 2 categories" in done.stdout
    document = judged.read("found.json")
    assert document["confusion"] == [[20, 20], [0, 40]]
    assert document["agreement"]["cohen_kappa"]["value"] == pytest.approx(0.5)
    assert document["agreement"]["linear_kappa"] is None


def test_calibrate_judges_all_lines_and_needs_labels_of_some(judged, tmp_path):
    text = "rag combines retrieval with generation"
    rows = [
        {
            "query": "what is rag",
            "expected_text": text,
            "retrieved_text": text if i % 2 else "vector databases store embeddings",
            "relevant": None if i % 3 else bool(i % 2),
            "query_id": i // 2,
        }
        for i in range(300)
    ]
    write(tmp_path / "labels.jsonl", rows)
    done = judged("calibrate", "labels.jsonl", "--judge", "token_overlap", "--json", "found.json")
    assert done.returncode == 0, done.stderr
    assert "100 labels of 300 lines; token_overlap|" in done.stdout
    document = judged.read("found.json")
    assert document["judge"].startswith("token_overlap|")
    assert "|min_score:0.6|" in document["signature"]
    assert document["quality"]["auc"]["value"] == 1.0
    assert document["prevalence"]["naive"]["value"] == 0.5


def test_calibrate_reads_scores_without_a_judge(judged, tmp_path):
    items = scored()
    write(
        tmp_path / "labels.jsonl",
        [{"score": s, "relevant": x} for s, x in zip(items.scores, items.labels, strict=True)],
    )
    done = judged("calibrate", "labels.jsonl", "--judge", "none", "--max-error", "0.1")
    assert done.returncode == 0, done.stderr
    assert "at an error of 0.1 a cascade passes on" in done.stdout
    assert judged.refused(
        "calibrate", "labels.jsonl", "--judge", "none", "--max-error", "0.7"
    ).startswith("judged: --max-error: must be above 0 and below 0.5")


@pytest.mark.parametrize(
    ("human", "machine", "told"),
    [
        (("Yes", "No"), ("yes", "no"), "'No' and 'no', 'Yes' and 'yes' count as different ones"),
        ((True, False), ("1", "0"), "'0' and 'false', '1' and 'true'"),
        (
            ("gut", "schlecht"),
            ("good", "bad"),
            "'human' gives no category that another",
        ),
    ],
)
def test_raters_who_write_categories_otherwise_are_told_apart_with_a_warning(
    judged, tmp_path, human, machine, told
):
    pairs = list(zip(human, machine, strict=True)) * 20
    rows = [{"item_id": i, "ratings": {"human": a, "judge": b}} for i, (a, b) in enumerate(pairs)]
    write(tmp_path / "labels.jsonl", rows)
    done = judged("agree", "labels.jsonl", "--strict", "--json", "found.json")
    assert done.returncode == 1
    assert any(told in warning for warning in judged.read("found.json")["warnings"])
