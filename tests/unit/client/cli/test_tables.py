"""What commands print of verdicts, means and of what asking models took."""

from __future__ import annotations

import pytest
from judged import MetricTable, Source, Status, Verdicts
from judged._batching.judging import missing_verdicts
from judged.cli.output import Exit, Output
from judged.cli.tables import means_table, tell_verdicts
from judged.values import (
    JudgeIdentity,
    MetricCounts,
    MetricResult,
    Usage,
    VerdictError,
)


def test_means_have_bounds_where_verdicts_are_missing():
    table = MetricTable([MetricResult("ap", None, 0, 0.0, 1.0, "", [])], [], MetricCounts())
    head, _, row = means_table(table).lines()
    assert head.split() == ["metric", "mean", "n", "lower", "upper"]
    assert row.split() == ["ap", "-", "0", "0.0000", "1.0000"]


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


def test_verdicts_that_nobody_gave_end_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    gone = VerdictError(0, "UNAVAILABLE", "can't reach it", retryable=True)
    lost = missing_verdicts([0, 2, 3], gone, TALLIED)
    assert (len(lost), lost.offsets, set(lost.status)) == (3, [0, 2, 3], {int(Status.ERROR)})
    out = Output(None)
    tell_verdicts(out, lost)
    assert "3 verdicts missing: UNAVAILABLE: can't reach it" in capsys.readouterr().err
    with pytest.raises(Exit) as ended:
        out.finish()
    assert ended.value.exit_code == 2
