from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import Calibrator, errors

numbers = st.floats(-1e6, 1e6)


@given(numbers, numbers, st.none() | st.floats(0, 1))
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
