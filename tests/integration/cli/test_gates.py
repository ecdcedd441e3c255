"""Gates over what a provider lost or refused: the exit status and what is said of it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_process import Commands
from tests.integration.llm_config import fake_llm_config
from tests.integration.server_process import running_server

GOOD = {"reasoning": "It is.", "verdict": "yes"}
REPLIES: list[dict[str, Any]] = [
    {"contains": "lost", "error": "BREAKER_OPEN"},
    {"contains": "refused", "reply": "I can't.", "finish_reason": "refusal"},
    {"reply": GOOD},
]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield a server whose model loses or refuses what says so, and finds all else right."""
    config = fake_llm_config(tmp_path_factory.mktemp("llm"), {"judge": REPLIES})
    with running_server("--llm-config", config) as ready:
        yield ready.address


def write_answers(folder: Path, texts: list[str]) -> None:
    lines = [{"query": "q", "answer": text, "references": ["r"]} for text in texts]
    (folder / "b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


class TestScore:
    COMMAND = ("score", "b.jsonl", "--rubric", "answer_match", "--json", "out.json")
    GATE = ("--min-score", "answer_match=0.99")

    @pytest.mark.parametrize(
        ("flags", "status"),
        [
            (GATE, 1),
            ((*GATE, "--min-coverage", "0"), 1),  # by the worst case alone
            (("--min-score", "answer_match=0.01"), 1),  # by the coverage alone
            (("--min-score", "answer_match=0.01", "--min-coverage", "0.01"), 0),
            ((), 0),
            (("--strict",), 1),
        ],
    )
    def test_99_of_100_scores_lost(
        self,
        judged: Commands,
        tmp_path: Path,
        flags: tuple[str, ...],
        status: int,
    ):

        write_answers(tmp_path, ["fine", *(f"lost {n}" for n in range(99))])
        done = judged(*self.COMMAND, *flags)
        assert done.returncode == status, done.stderr
        document = judged.read("out.json")
        assert document["rubrics"]["answer_match"]["mean"] == 1.0
        gates = {gate["gate"]: gate for gate in document.get("gates", [])}
        if any("=" in flag for flag in flags):
            assert gates["min_score"]["worst_case"] == pytest.approx(0.01)
            assert gates["min_coverage"]["value"] == pytest.approx(0.01)
            assert "0.0100 in the worst case" in done.stderr
            assert "(1 of 100 scores)" in done.stderr

    def test_all_answers_refused(self, judged: Commands, tmp_path: Path):
        write_answers(tmp_path, ["refused"] * 3)
        assert "nothing could be assessed for --min-score answer_match" in judged.refused(
            *self.COMMAND, *self.GATE
        )

    def test_what_is_not_assessable_is_not_missing(self, judged: Commands, tmp_path: Path):
        write_answers(tmp_path, ["fine", ""])
        done = judged.fine(*self.COMMAND, *self.GATE)
        assert "(1 of 1 scores); --min-coverage 1" in done.stderr


class TestEvaluate:
    COMMAND = shlex.split(
        "evaluate dataset.json --results results.jsonl -m mrr --judge llm --min-score mrr=0.9"
    )

    def write(self, folder: Path, texts: list[str]) -> None:
        """Write a query for each text, which is what was found for it."""
        ids = [f"q{n}" for n in range(len(texts))]
        queries = [{"query_id": i, "query_text": "q", "expected_answers": ["e"]} for i in ids]
        found = zip(ids, texts, strict=True)
        lines = [{"query_id": i, "results": [{"doc_id": i, "text": t}]} for i, t in found]
        (folder / "dataset.json").write_text(json.dumps({"queries": queries}))
        (folder / "results.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    @pytest.mark.parametrize("flags", [(), ("--min-coverage", "0.7")])
    def test_22_of_90_verdicts_missing(
        self, judged: Commands, tmp_path: Path, flags: tuple[str, ...]
    ):
        self.write(tmp_path, [f"fine {n}" for n in range(68)] + [f"lost {n}" for n in range(22)])
        done = judged(*self.COMMAND, *flags)
        assert done.returncode == 1, done.stderr
        assert "failed: mrr is 0.7556 in the worst case" in done.stderr
        assert "(68 of 90 verdicts)" in done.stderr
