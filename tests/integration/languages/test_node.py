"""A Node program that knows nothing but the .proto files judges, streams and measures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.node_programs import FOLDER, PROTO, install, run

PROGRAM = FOLDER / "judge.mjs"


@pytest.fixture(scope="module")
def report(server_address: str) -> dict[str, Any]:
    answers: dict[str, Any] = json.loads(run([install(), PROGRAM, server_address, PROTO]))
    return answers


class TestNode:
    def test_sees_a_healthy_server(self, report: dict[str, Any]) -> None:
        assert report["health"] == "SERVING"

    def test_reads_what_the_server_offers(self, report: dict[str, Any]) -> None:
        info = report["info"]
        assert info["default_judge"] == "token_overlap"
        assert {"exact/verbatim", "exact/normalized", "semantic"} <= set(info["judges"])
        assert {"token_overlap/classic", "token_overlap/unicode"} <= set(info["judges"])
        assert {"recall", "ndcg"} <= set(info["metrics"])
        assert info["max_contexts"] == 1_000_000

    def test_judges_retrieved_major_with_one_verdict_a_context(
        self, report: dict[str, Any]
    ) -> None:
        batch = report["batch"]
        assert batch["group_offsets"] == [0, 4, 8]
        assert batch["status"] == []
        # Each retrieved text against both expected ones.
        assert batch["relevant"] == [True, False, False, False] * 2
        assert batch["counts"] == {"ok": 8, "relevant": 2}

    def test_a_query_that_shares_a_token_raises_the_score(self, report: dict[str, Any]) -> None:
        scores = report["batch"]["score"]
        assert scores[:4] == pytest.approx([5 / 8 / 0.75, 2 / 6 / 0.75, 0, 0])
        assert scores[4:] == pytest.approx([5 / 8, 2 / 6, 0, 0])

    def test_learns_which_judge_ran(self, report: dict[str, Any]) -> None:
        assert report["batch"]["signature"].startswith("token_overlap|profile:classic|")

    def test_reads_the_path_of_a_bad_field(self, report: dict[str, Any]) -> None:
        assert report["bad_request"] == {
            "code": "INVALID_ARGUMENT",
            "reason": "INVALID_FIELD",
            "domain": "judged",
            "fields": ["groups[0].document_ids"],
        }

    def test_computes_metrics(self, report: dict[str, Any]) -> None:
        expected = {"recall@4": 2 / 3, "ndcg@4": 0.703918}
        assert report["metrics"] == pytest.approx(expected, abs=5e-7)

    def test_compares_runs(self, report: dict[str, Any]) -> None:
        compared = report["compared"]
        assert (compared["baseline"], compared["run"]) == ("old", "new")
        assert (compared["wins"], compared["losses"]) == (3, 0)
        assert compared["difference"] == pytest.approx(0.2)

    def test_streams_chunks(self, report: dict[str, Any]) -> None:
        assert report["stream"] == {
            "started": "exact",
            "chunks": {"7": [True, False], "8": [True, False, True, False]},
            "contexts_done": 6,
        }


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((FOLDER / "package-lock.json").read_text())
    packages = [package for name, package in lock["packages"].items() if name]
    assert all(package["integrity"].startswith("sha512-") for package in packages)
    assert not [package for package in packages if "resolved" in package]
