from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from judged import Calibrator as ClientCalibrator
from judged.values.calibrators import Calibrator
from judged.values.choices import Status
from judged_server.domain import Group, JudgeSpec
from judged_server.errors import InvalidField
from judged_server.judges.base import ANONYMOUS, load_calibrations
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.equivalence.judge import EquivalenceKind, shipped_calibration
from judged_server.judges.lexical import ExactKind, TokenOverlapKind
from judged_server.settings import SettingsError

KINDS = [TokenOverlapKind(), ExactKind(), EquivalenceKind()]
BARE = JudgeCatalog(KINDS, "token_overlap")
KEY = BARE.choose(JudgeSpec("token_overlap")).identity.scoring_key
GROUPS = [Group("q", "", ["one two three four"], ["four one", "four one two", "five"])]


def test_the_scores_stay_and_probabilities_come() -> None:
    calibrator = Calibrator(KEY, 2.0, 1.0, 0.4)
    judge = BARE.choose(JudgeSpec("token_overlap", calibration=calibrator))
    bare = BARE.choose(JudgeSpec("token_overlap", min_score=0.4))
    columns = asyncio.run(judge.judge(GROUPS, ANONYMOUS))
    assert columns.scores.tolist() == asyncio.run(bare.judge(GROUPS, ANONYMOUS)).scores.tolist()
    # By hand: logit(.5) = 0, so 1 / (1 + exp(-1)).
    assert columns.probabilities[0] == pytest.approx(0.731058579, abs=1e-9)
    assert columns.probabilities[1] > columns.probabilities[0] > columns.probabilities[2] >= 0
    identity = judge.identity
    assert identity.min_score == 0.4
    assert identity.scoring_key == KEY
    assert identity.fingerprint != bare.identity.fingerprint
    assert identity.signature == bare.identity.signature.replace(
        "|min_score", f"|calibration:{calibrator.sha256[:8]}|min_score"
    )
    assert (judge.priced, judge.unavailable, list(judge.planned_calls(GROUPS))) == (True, "", [])


def test_what_has_no_score_has_no_probability() -> None:
    kind = BARE.choose(JudgeSpec("answer_equivalence"))
    calibrator = Calibrator(kind.identity.scoring_key, 1.0, 0.0)
    judge = BARE.choose(JudgeSpec("answer_equivalence", calibration=calibrator))
    group = Group("q", "who", ["Ann"], ["Ann", "Анна"])
    columns = asyncio.run(judge.judge([group], ANONYMOUS))
    assert columns.statuses.tolist() == [Status.OK, Status.ABSTAINED]
    assert columns.probabilities[1] == 0 < columns.probabilities[0]
    shipped = shipped_calibration("answer_equivalence", kind.identity.scoring_key)
    assert shipped is not None
    assert shipped_calibration("answer_equivalence", "0" * 64) is None
    assert shipped_calibration("exact", kind.identity.scoring_key) is None


def test_named_ones_come_from_files_that_clients_write(tmp_path: Path) -> None:
    made = ClientCalibrator(KEY, 1.5, -0.25, 0.3)
    made.save(tmp_path / "mine.calibration.json", judge="for people")
    catalog = JudgeCatalog(KINDS, "token_overlap", load_calibrations(tmp_path))
    named = catalog.choose(JudgeSpec("token_overlap", calibration="mine"))
    sent = catalog.choose(JudgeSpec("token_overlap", calibration=Calibrator(KEY, 1.5, -0.25, 0.3)))
    assert named.identity == sent.identity
    assert f"calibration:{made.sha256[:8]}" in named.identity.signature
    with pytest.raises(InvalidField, match="this server has mine"):
        catalog.choose(JudgeSpec("token_overlap", calibration="yours"))
    with pytest.raises(InvalidField, match="calibrations_dir"):
        BARE.choose(JudgeSpec("token_overlap", calibration="mine"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slope": 1.75}, "changed after it was made"),
        ({"slope": "1"}, "'slope' that is not a number"),
        ({"judged_calibration": 2}, "no file that `judged calibrate -o` wrote"),
        ({"min_score": 7}, "changed after it was made"),
    ],
)
def test_files_that_are_none_stop_the_start(
    tmp_path: Path, change: dict[str, object], said: str
) -> None:
    path = tmp_path / "mine.calibration.json"
    ClientCalibrator(KEY, 1.5, -0.25, 0.3).save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(SettingsError, match=said):
        load_calibrations(tmp_path)
