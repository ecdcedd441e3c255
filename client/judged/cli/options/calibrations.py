"""The flag --calibration, and the judge with what it names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from judged import Calibrator, Judge, Rubric, errors
from judged.cli.problems import Problem
from judged.values import ServerInfo

CalibrationFlag = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        metavar="FILE|NAME",
        help="Give each verdict a probability, by a file of `judged calibrate -o` or by the name "
        "of a calibration that the server has; its threshold holds unless --min-score is given.",
    ),
]


RubricCalibrations = Annotated[
    list[str] | None,
    typer.Option(
        "--calibration",
        metavar="[RUBRIC=]FILE|NAME",
        help="Give each score a probability, by a file of `judged calibrate --rubric -o` or by the "
        "name of a calibration that the server has; repeat it for each rubric.",
    ),
]


def with_calibrations(
    rubrics: Sequence[Rubric], info: ServerInfo, given: Sequence[str] | None
) -> list[Rubric]:
    """Return the rubrics with the calibrations that the flags name. Raises Problem."""
    found = list(rubrics)
    ids = [rubric.id for rubric in rubrics]
    for text in given or []:
        name, equals, source = text.partition("=")
        if not equals or name not in ids:
            if len(ids) > 1:
                raise Problem(
                    f"--calibration {text}: say which rubric it is of, RUBRIC=FILE, one of "
                    f"{', '.join(ids)}"
                )
            name, source = ids[0], text
        place = ids.index(name)
        if found[place].calibration is not None:
            raise Problem(f"--calibration {text}: {name} has one already")
        found[place] = replace(found[place], calibration=read_calibration(info, source))
    return found


def with_calibration(
    judge: Judge, info: ServerInfo, given: str | None, flag: str = "--calibration"
) -> Judge:
    """Return the judge with the calibration of a file, else of a name. Raises Problem."""
    if given is None:
        return judge
    return replace(judge, calibration=read_calibration(info, given, flag))


def read_calibration(info: ServerInfo, given: str, flag: str = "--calibration") -> Calibrator | str:
    """Return the calibration of a file, else the name of one. Raises Problem."""
    path = Path(given)
    if path.is_file():
        try:
            return Calibrator.load(path)
        except OSError as error:
            raise Problem(f"{flag} {given}: {error.strerror}") from None
        except errors.InvalidArgument as error:
            raise Problem(f"{flag}: {error.message.removeprefix('calibration: ')}") from None
    if given in info.calibrations:
        return given
    known = ", ".join(info.calibrations) or "none"
    raise Problem(
        f"{flag} {given}: there is no such file, and the server has no calibration of that "
        f"name; it has {known}"
    )
