"""What a tally of blocks says is what their verdicts say together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from judged import QueryGroup, Source, Status, Verdicts
from judged._batching.chunks import failed_verdicts
from judged.cli.output import Exit, Output
from judged.cli.tables import Tally
from judged.errors import Unavailable
from judged.values import JudgeIdentity, Usage, VerdictCounts

JUDGE = JudgeIdentity("exact", "verbatim", 0.5, "exact|v1", "key", "print")


def verdicts(relevant: list[bool]) -> Verdicts:
    n = len(relevant)
    return Verdicts(
        relevant=relevant,
        score=[float(each) for each in relevant],
        status=[int(Status.OK)] * n,
        source=[int(Source.COMPUTED)] * n,
        flags=[0] * n,
        offsets=[0, n],
        errors={},
        judge=JUDGE,
        agreement=[0.5] * n,
        usage=Usage(calls=n),
    )


def test_blocks_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    tally.add(verdicts([True, False]))
    tally.add(verdicts([True]))
    assert tally.counts == VerdictCounts(ok=3, relevant=2)
    assert tally.usage == Usage(calls=3)
    tally.tell(Output(None))
    said = capsys.readouterr().err
    assert "3 verdicts, 2 relevant, coverage 1; exact|v1" in said
    assert "3 of 3 verdicts have votes on both sides" in said


def test_a_block_that_nobody_answered_has_the_error_of_its_server(
    capsys: pytest.CaptureFixture[str],
) -> None:
    groups = [QueryGroup("q", ["a", "b"], ["c"]), QueryGroup("q", ["a"], ["d"])]
    lost = failed_verdicts(groups, Unavailable("can't reach it", code="UNAVAILABLE"), JUDGE)
    assert (len(lost), lost.offsets, set(lost.status)) == (3, [0, 2, 3], {int(Status.ERROR)})
    assert {error.reason for error in lost.errors.values()} == {"UNAVAILABLE"}
    tally = Tally()
    tally.add(verdicts([True]))
    tally.add(replace(lost, agreement=[0.0] * 3))
    assert tally.counts.error == 3
    out = Output(None)
    tally.tell(out)
    assert "3 verdicts missing: UNAVAILABLE: can't reach it" in capsys.readouterr().err
    with pytest.raises(Exit) as ended:
        out.finish()
    assert ended.value.exit_code == 2
