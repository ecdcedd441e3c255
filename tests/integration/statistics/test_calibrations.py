"""A calibration made by one command, kept in a file, and applied by others and by name."""

from __future__ import annotations

import json
from pathlib import Path

from judged import Calibrator, Client, Judge, QueryGroup

from tests.integration.cli_process import lines_of, run_in
from tests.integration.server_process import running_server

DATA = Path(__file__).parents[3] / "benchmarks" / "equivalence" / "data" / "nq301_human.jsonl"
JUDGE = ("--judge", "token_overlap", "--profile", "unicode")


def test_from_labels_to_probabilities(tmp_path: Path, server_address: str):
    there = {"JUDGED_TARGET": server_address}
    made = run_in(
        *(tmp_path, "calibrate", str(DATA), *JUDGE, "--label-field", "label"),
        *("-o", "my.calibration.json", "--diagram", "d.svg", "--json", "c.json"),
        *("--criterion", "balanced_accuracy", "--resamples", "200"),
        **there,
    )
    assert made.returncode == 0, made.stderr
    found = json.loads((tmp_path / "c.json").read_text())
    believed = found["reliability"]
    assert (believed["fitted"], believed["n_labels"], believed["n_queries"]) == (True, 293, 57)
    assert believed["calibration_error"]["value"] < 0.06
    assert found["quality"]["expected_calibration_error"]["value"] > 0.1
    assert (tmp_path / "d.svg").read_text().count("<circle") >= 2
    kept = Calibrator.load(tmp_path / "my.calibration.json")
    best = {each["criterion"]: each["min_score"] for each in found["thresholds"]}
    assert kept.min_score == best["balanced_accuracy"]

    given = ("judge", str(DATA), *JUDGE, "--calibration", "my.calibration.json")
    judged = run_in(tmp_path, *given, "--json", "j.json", "--output", "o", **there)
    assert judged.returncode == 0, judged.stderr
    document = json.loads((tmp_path / "j.json").read_text())
    assert (
        f"|calibration:{kept.sha256[:8]}|min_score:{kept.min_score:.12g}|" in document["signature"]
    )
    lines = lines_of((tmp_path / "o").read_text())
    assert all(line["relevant"] == (line["score"] + 1e-9 >= kept.min_score) for line in lines)
    by_score = sorted(lines, key=lambda line: line["score"])
    probabilities = [line["probability"] for line in by_score]
    assert probabilities == sorted(probabilities)
    share = sum(line["label"] for line in lines) / len(lines)
    assert abs(sum(probabilities) / len(lines) - share) < 0.02

    streamed = run_in(tmp_path, *given, "--output", "streamed", **there)  # block by block
    assert f"|calibration:{kept.sha256[:8]}|" in streamed.stderr
    assert lines_of((tmp_path / "streamed").read_text()) == lines

    other = run_in(
        *(tmp_path, "judge", str(DATA), "--judge", "exact", "--calibration", "my.calibration.json"),
        **there,
    )
    assert other.returncode == 2
    assert "made for another judge than exact" in other.stderr
    unknown = run_in(tmp_path, "judge", str(DATA), *JUDGE, "--calibration", "mine", **there)
    assert unknown.returncode == 2
    assert "no such file" in unknown.stderr

    few = DATA.read_text().splitlines()[:60]
    (tmp_path / "few.jsonl").write_text("\n".join(few) + "\n")
    made = run_in(
        *(tmp_path, "calibrate", "few.jsonl", "--judge", "answer_equivalence"),
        *("--label-field", "label", "-o", "few.calibration.json", "--resamples", "200"),
        **there,
    )
    assert made.returncode == 0, made.stderr
    assert "the shipped calibration is the probability, unchanged" in made.stderr
    assert json.loads((tmp_path / "few.calibration.json").read_text())["fitted"] is False


def test_a_server_offers_calibrations_by_name(tmp_path: Path, server_address: str):
    with Client(server_address) as client:
        bare = client.judge([QueryGroup("", ["a b c d"], ["d a"])], "token_overlap")
    Calibrator(bare.judge.scoring_key, 1.0, 2.0, 0.25).save(tmp_path / "ours.calibration.json")
    with (
        running_server("--calibrations-dir", str(tmp_path)) as ready,
        Client(ready.address) as client,
    ):
        assert list(client.server_info().calibrations) == ["ours"]
        judge = Judge("token_overlap", calibration="ours")
        (verdict,) = client.judge([QueryGroup("", ["a b c d"], ["d a"])], judge)
        assert verdict.score == 0.5
        assert verdict.probability is not None
        assert abs(verdict.probability - 0.880797078) < 1e-9  # 1 / (1 + exp(-2))
