"""`judged texts` with a real server: what it prints and gates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.cli_process import Commands

ANSWERS = [
    ("a1", "Paris is the capital of France.", ["The capital of France is Paris.", "Paris"]),
    ("a2", "forty seats", ["it has forty seats"]),
    ("a3", "noon, or one", ["noon, or one"]),
]
METRICS = ["-m", "bleu", "-m", "token_f1", "-m", "exact_match"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, change in (("a", ""), ("b", " and more words")):
        lines = [
            {"item_id": i, "query": "q", "answer": answer + change, "references": references}
            for i, answer, references in ANSWERS
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def test_answers_are_measured_and_held_against_a_baseline(judged: Commands):
    done = judged.fine("texts", "a.jsonl", *METRICS, "--per-query", "--json", "a.json")
    found = judged.read("a.json")
    assert found["per_query"]["a1"]["bleu"] == pytest.approx(0.29071536848410967)
    assert found["per_query"]["a3"] == {"bleu": 1, "token_f1": 1, "exact_match": 1}
    assert found["metrics"]["exact_match"]["mean"] == pytest.approx(1 / 3)
    assert "3 answers" in done.stdout
    judged.fine("texts", "b.jsonl", *METRICS, "--json", "b.json")
    worse = judged("compare", "a.json", "b.json", "--max-drop", "token_f1=0.05")
    assert worse.returncode == 1
    assert "failed: token_f1 of b was" in worse.stderr


def test_answers_in_scripts_that_a_metric_does_not_read_are_told(tmp_path: Path, judged: Commands):
    pairs = [("order", "中国的首都是北京", "北京是中国的首都"), ("read", "Paris", "Paris")]
    pairs += [("equal", "القاهرة عاصمة مصر", "القاهرة عاصمة مصر")]
    lines = [
        {"item_id": name, "query": "", "answer": answer, "references": [reference]}
        for name, answer, reference in pairs
    ]
    judged.write("a.jsonl", lines)
    command = ["texts", "a.jsonl", "-m", "rouge1", "-m", "bleu", "--strict", "--json", "a.json"]
    done = judged(*command)
    assert done.returncode == 1
    of_some = "of 3 answers (or of the references), and"
    assert f"rouge1 does not read much of 2 {of_some} 1 have no value" in done.stderr
    assert f"bleu does not read much of 1 {of_some} 0" in done.stderr
    found = judged.read("a.json")
    assert found["metrics"]["rouge1"]["mean"] == 1
    assert found["metrics"]["rouge1"]["n"] == 2
    assert found["per_query"]["order"] == {"bleu": 0}


class TestSimilarity:
    lines = (
        {
            "item_id": "right",
            "query": "q",
            "answer": "The library has forty seats.",
            "references": ["There are forty seats in the library.", "Forty."],
        },
        {
            "item_id": "wrong",
            "query": "q",
            "answer": "The museum opens at noon.",
            "references": ["Books may be kept for four weeks."],
        },
    )

    def test_texts_of_unknown_words_have_no_value(self, judged: Commands):
        texts = {"thumbs": ("👍", "👎"), "seats": ("forty seats", "forty seats")}
        lines = [
            {"item_id": name, "query": "", "answer": answer, "references": [reference]}
            for name, (answer, reference) in texts.items()
        ]
        judged.write("a.jsonl", lines)
        command = ["texts", "a.jsonl", "-m", "semantic_similarity", "--json", "a.json", "--strict"]
        done = judged(*command)
        assert done.returncode == 1
        assert "semantic_similarity does not read much of 1 of 2 answers" in done.stderr
        found = judged.read("a.json")
        assert found["metrics"]["semantic_similarity"]["n"] == 1
        assert found["per_query"]["thumbs"] == {}

    def test_the_closer_answer_has_the_greater_value(self, judged: Commands):
        judged.write("a.jsonl", self.lines)
        command = ["texts", "a.jsonl", "-m", "token_f1", "-m", "semantic_similarity"]
        done = judged(*command, "--interval", "t", "--json", "a.json")
        assert done.returncode == 0, done.stderr
        found = judged.read("a.json")
        assert list(found["metrics"]) == ["token_f1", "semantic_similarity"]
        right, wrong = (found["per_query"][name]["semantic_similarity"] for name in
                        ("right", "wrong"))  # fmt: skip
        assert 0 <= wrong < right <= 1
        assert found["metrics"]["semantic_similarity"]["interval"] is not None
