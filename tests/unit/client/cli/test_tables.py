"""What commands print of verdicts, means and of what asking models took."""

from __future__ import annotations

import pytest
from judged import Source, Status, Verdicts
from judged.cli.output import Output
from judged.cli.tables import tell_verdicts
from judged.values import (
    JudgeIdentity,
    Usage,
)

TALLIED = JudgeIdentity("exact", "verbatim", 0.5, "exact|v1", "key", "print")


def tallied(relevant: list[bool]) -> Verdicts:
    n = len(relevant)
    return Verdicts(
        relevant=relevant,
        score=[float(each) for each in relevant],
        status=[int(Status.OK)] * n,
        source=[int(Source.COMPUTED)] * n,
        flags=[0] * n,
        offsets=[0, n],
        errors={},
        judge=TALLIED,
        agreement=[0.5] * n,
        usage=Usage(calls=n),
    )


def test_verdicts_are_told_with_what_to_mind(capsys: pytest.CaptureFixture[str]) -> None:
    tell_verdicts(Output(None), tallied([True, False, True]))
    said = capsys.readouterr().err
    assert "3 verdicts, 2 relevant, coverage 1; exact|v1" in said
    assert "3 of 3 verdicts have votes on both sides" in said
