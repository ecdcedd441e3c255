"""The calibrations that an operator offers by name: files that `judged calibrate -o` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judged_server.domain import Calibrator
from judged_server.settings import SettingsError

SUFFIX = ".calibration.json"


class _File(BaseModel):
    """The keys of a file that a calibration needs; others are for people."""

    model_config = ConfigDict(strict=True, extra="ignore")

    judged_calibration: int = Field(ge=1, le=1)
    scoring_key: str = Field(pattern="^[0-9a-f]{64}$")
    slope: float = Field(gt=0, allow_inf_nan=False)
    intercept: float = Field(allow_inf_nan=False)
    min_score: float | None = Field(ge=0, le=1)
    accept: float | None = Field(None, ge=0, le=1)
    reject: float | None = Field(None, ge=0, le=1)
    sha256: str
    fitted: bool = True


def load_calibrations(folder: Path) -> Mapping[str, Calibrator]:
    """Return the calibrations of NAME.calibration.json by name. Raises SettingsError."""
    paths = sorted(folder.glob(f"*{SUFFIX}"))
    if not paths:
        raise SettingsError(
            f"calibrations_dir: {folder} has no file NAME{SUFFIX}; make one with "
            f"`judged calibrate LABELS.jsonl --judge KIND -o NAME{SUFFIX}`"
        )
    return {path.name.removesuffix(SUFFIX): _load(path) for path in paths}


def _load(path: Path) -> Calibrator:
    try:
        read = _File.model_validate_json(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"calibrations_dir: {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise SettingsError(
            f"calibrations_dir: {path}: {where}: {first['msg']}; make it anew with "
            "`judged calibrate`"
        ) from None
    if not read.fitted:
        raise SettingsError(
            f"calibrations_dir: {path}: holds nothing that labels made, since they were too few; "
            "make it anew with `judged calibrate` from more"
        )
    numbers = (read.slope, read.intercept, read.min_score, read.accept, read.reject)
    calibrator = Calibrator(read.scoring_key, *numbers)
    if calibrator.sha256 != read.sha256:
        raise SettingsError(
            f"calibrations_dir: {path}: was changed after it was made, its sha256 is another; "
            "make it anew with `judged calibrate`"
        )
    return calibrator
