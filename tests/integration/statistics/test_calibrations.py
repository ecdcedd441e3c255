"""A calibration made by one command, kept in a file, and applied by others and by name."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from random import Random
from typing import Any

import pytest
from judged import (
    CalibrateOptions,
    Calibrator,
    Client,
    InvalidArgument,
    Judge,
    LabelledScores,
    QueryGroup,
)
from judged_server.judges.base import load_calibrations
from judged_server.settings import SettingsError

from tests.integration.cli_process import Commands, lines_of
from tests.integration.server_process import running_server

DATA = Path(__file__).parents[3] / "benchmarks" / "equivalence" / "data" / "nq301_human.jsonl"
JUDGE = ("--judge", "token_overlap", "--profile", "unicode")


def test_from_labels_to_probabilities(tmp_path: Path, judged: Commands):
    judged.fine(
        "calibrate",
        str(DATA),
        *JUDGE,
        *shlex.split(
            "--label-field label -o my.calibration.json --json c.json --criterion "
            "balanced_accuracy --resamples 200"
        ),
    )
    found = judged.read("c.json")
    believed = found["reliability"]
    assert (believed["fitted"], believed["n_labels"], believed["n_queries"]) == (True, 293, 57)
    assert believed["calibration_error"]["value"] < 0.08
    assert found["quality"]["expected_calibration_error"]["value"] > 0.1
    kept = Calibrator.load(tmp_path / "my.calibration.json")
    best = {each["criterion"]: each["min_score"] for each in found["thresholds"]}
    assert kept.min_score == best["balanced_accuracy"]

    given = ("judge", str(DATA), *JUDGE, "--calibration", "my.calibration.json")
    judged.fine(*given, "--json", "j.json", "--output", "o")
    document = judged.read("j.json")
    assert (
        f"|calibration:{kept.sha256[:8]}|min_score:{kept.min_score:.12g}|" in document["signature"]
    )
    lines = lines_of((tmp_path / "o").read_text())
    assert all(line["relevant"] == (line["score"] + 1e-9 >= kept.min_score) for line in lines)
    by_score = sorted(lines, key=lambda line: line["score"])
    probabilities = [line["probability"] for line in by_score]
    assert probabilities == sorted(probabilities)
    share = sum(line["label"] for line in lines) / len(lines)
    assert abs(sum(probabilities) / len(lines) - share) < 0.05

    streamed = judged(*given, "--output", "streamed")  # block by block
    assert f"|calibration:{kept.sha256[:8]}|" in streamed.stderr
    assert lines_of((tmp_path / "streamed").read_text()) == lines

    assert "made for another judge than exact" in judged.refused(
        "judge", str(DATA), "--judge", "exact", "--calibration", "my.calibration.json"
    )
    assert "--calibration: no calibration is called 'mine'" in judged.refused(
        "judge", str(DATA), *JUDGE, "--calibration", "mine"
    )


def write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


EQUIVALENCE = ("--judge", "answer_equivalence", "--label-field", "label", "--resamples", "200")


@pytest.mark.parametrize("strict", [False, True])
def test_fifty_labels_help_where_people_judge_otherwise_and_cost_nothing_where_not(
    tmp_path: Path, judged: Commands, *, strict: bool
) -> None:
    """Strict people accept what is an expected text and nothing beside it."""
    lines = lines_of(DATA.with_name("evouna_nq.jsonl").read_text())[:1500]
    for line in lines if strict else ():
        said = line["retrieved_text"].strip().lower()
        line["label"] = any(said == text.lower() for text in line["expected_alternatives"])
    write(tmp_path / "rest.jsonl", lines[500:])  # other questions
    judge = ("judge", "rest.jsonl", "--judge", "answer_equivalence", "--output", "o.jsonl")

    def accuracy(*given: str) -> float:
        judged.fine(*judge, *given)
        found = lines_of((tmp_path / "o.jsonl").read_text())
        return sum(each["relevant"] == each["label"] for each in found) / len(found)

    bare, means = accuracy(), []
    for seed in range(3):
        write(tmp_path / "own.jsonl", Random(seed).sample(lines[:500], 50))
        name = f"{seed}.calibration.json"
        made = judged.fine("calibrate", "own.jsonl", *EQUIVALENCE, "-o", name)
        first = made.stdout.splitlines()[0]
        assert first.startswith("answer_equivalence agrees with people on 0.")
        assert " of 50 labels of " in first
        means.append(accuracy("--calibration", name))
    gained = sum(means) / len(means) - bare
    assert gained >= (0.08 if strict else -0.005)


@pytest.mark.parametrize(
    ("n", "kinds", "why"),
    [
        (29, 2, "needs 30 labels, and there are 29"),
        (40, 1, "needs labels of both kinds, and none is relevant"),
    ],
)
def test_labels_that_fit_nothing_leave_no_file(
    tmp_path: Path, judged: Commands, n: int, kinds: int, why: str
) -> None:
    lines = lines_of(DATA.read_text())
    write(tmp_path / "few.jsonl", [line for line in lines if kinds == 2 or not line["label"]][:n])
    said = judged.refused(
        "calibrate", "few.jsonl", *EQUIVALENCE, "-o", "c.json", "--json", "d.json"
    )
    assert "--output c.json: there is nothing to keep" in said
    assert why in said
    assert not (tmp_path / "c.json").exists()


def test_a_calibration_that_fitted_nothing_is_refused_where_it_is_applied(
    tmp_path: Path, client: Client, judged: Commands
) -> None:
    group = QueryGroup("", ["a b c d"], ["d a"])
    identity = client.judge([group], "token_overlap").judge
    few = LabelledScores([0.1, 0.9] * 10, [False, True] * 10)
    believed = client.calibrate(few, CalibrateOptions(judge=identity)).reliability
    why = "needs 30 labels, and there are 20"
    assert why in believed.calibrator.not_fitted
    with pytest.raises(InvalidArgument, match=why):
        client.judge([group], Judge("token_overlap", calibration=believed.calibrator))
    believed.calibrator.save(tmp_path / "new.calibration.json")
    old = Calibrator(identity.scoring_key, 1.0, 0.0)  # as a file had it before
    old.save(tmp_path / "old.calibration.json", fitted=False, n_labels=50)
    write(tmp_path / "one.jsonl", [{"query": "", "expected_text": "a", "retrieved_text": "a"}])
    for name, said in (("new", why), ("old", "labels were too few")):
        given = ("judge", "one.jsonl", "--calibration", f"{name}.calibration.json")
        assert said in judged.refused(*given)
        with pytest.raises(SettingsError, match="holds nothing that labels made"):
            load_calibrations(only(tmp_path, f"{name}.calibration.json"))


def only(folder: Path, name: str) -> Path:
    """Return a folder that has one file of another."""
    alone = folder / name.partition(".")[0]
    alone.mkdir()
    (alone / name).write_bytes((folder / name).read_bytes())
    return alone


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
