"""Calibrations and cascades in files: what was saved is loaded, and nothing else."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import Calibrator, InvalidArgument, Judge, PanelMember, errors
from judged.values import ErrorGuarantee, load_cascade, save_cascade


@given(st.floats(1e-6, 1e6), st.floats(-1e6, 1e6), st.none() | st.floats(0, 1))
def test_a_file_gives_back_what_was_saved(
    slope: float, intercept: float, min_score: float | None
) -> None:
    made = Calibrator("ab" * 32, slope, intercept, min_score, "made so")
    with TemporaryDirectory() as folder:
        path = Path(folder, "my.calibration.json")
        made.save(path, n_labels=3)
        fields = json.loads(path.read_text())
        assert Calibrator.load(path) == made
    assert (fields["n_labels"], fields["sha256"]) == (3, made.sha256)


@pytest.mark.parametrize("text", ["", "[]", "{}", "not json", '{"judged_calibration": 1}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(errors.InvalidArgument, match="judged calibrate"):
        Calibrator.load(tmp_path / "x")


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    Calibrator("ab" * 32, 1.0, 0.0).save(tmp_path / "x")
    text = (tmp_path / "x").read_text().replace('"slope": 1.0', '"slope": 1.1')
    (tmp_path / "x").write_text(text)
    with pytest.raises(errors.InvalidArgument, match="changed"):
        Calibrator.load(tmp_path / "x")


PROMISE = ErrorGuarantee(0.1, 0.95, 300, 9, 60, 120.5, "a" * 64)
OURS = Calibrator("b" * 64, 2.0, -0.5, None, "", 1.0)
SMALL = Judge("token_overlap", "unicode", calibration=OURS)
VOTERS = (PanelMember(Judge("exact"), 2.0), PanelMember(Judge("semantic")))
PANEL = Judge("panel", "mean", members=VOTERS)
CASCADE = Judge(
    "cascade",
    parameters={"unsettled": "earlier"},
    members=(PanelMember(SMALL), PanelMember(PANEL)),
    guarantee=PROMISE,
)


def test_a_saved_cascade_is_loaded(tmp_path):
    save_cascade(CASCADE, tmp_path / "c.json", accuracy=0.9)
    assert load_cascade(tmp_path / "c.json") == CASCADE
    assert json.loads((tmp_path / "c.json").read_text())["accuracy"] == 0.9


def test_names_of_calibrations_are_of_a_server(tmp_path):
    named = Judge("cascade", members=[Judge("exact", calibration="ours")])
    with pytest.raises(InvalidArgument, match="'ours' is a name"):
        save_cascade(named, tmp_path / "c.json")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "no file that `judged frontier -o` wrote"),
        ("{", "no file that `judged frontier -o` wrote"),
        ('{"judged_cascade": 2}', "no file that `judged frontier -o` wrote"),
        ('{"judged_cascade": 3, "cascade": {}}', "make it again with `judged frontier`"),
    ],
)
def test_another_file_is_refused(tmp_path, text, problem):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(InvalidArgument, match=problem):
        load_cascade(tmp_path / "c.json")


@pytest.mark.parametrize(
    "numbers", [(-1.0, 0.0, 0.5), (1.0, math.nan, 0.5), (math.inf, 0.0, 0.5), (1.0, 0.0, 1.5)]
)
def test_numbers_that_no_calibration_has_are_refused_though_their_hash_fits(tmp_path, numbers):
    Calibrator("a" * 64, *numbers).save(tmp_path / "c.json")
    with pytest.raises(InvalidArgument, match=r"no file that|that no calibration has"):
        Calibrator.load(tmp_path / "c.json")


def test_a_changed_calibration_is_refused(tmp_path):
    save_cascade(CASCADE, tmp_path / "c.json")
    text = (tmp_path / "c.json").read_text().replace('"slope": 2.0', '"slope": 3.0')
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(InvalidArgument, match="was changed after it was made"):
        load_cascade(tmp_path / "c.json")
