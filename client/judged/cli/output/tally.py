"""What is known of all verdicts of a command, when those before are let go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from judged import Verdicts
from judged.cli.output.tables import describe_verdicts
from judged.cli.output.usage import (
    count_stages,
    describe_stages,
    split_warnings,
    taken,
)
from judged.cli.output.writer import UNANSWERED, Output
from judged.evaluation._steps.warnings import (
    balance_of_lengths,
    blind_warnings,
    guarantee_warnings,
    reason_warnings,
    reasons_of,
    verdict_warnings,
)
from judged.values import JudgeIdentity, Usage, VerdictCounts, VerdictError


@dataclass(slots=True)
class Tally:
    """Counts of the verdicts so far, and what asking took."""

    counts: VerdictCounts = field(default_factory=VerdictCounts)
    judge: JudgeIdentity | None = None
    usage: Usage | None = None
    _said: Counter[str] = field(default_factory=Counter)
    _unanswered: list[VerdictError] = field(default_factory=list)
    _split: int = 0
    _lengths: int = 0
    _stages: Counter[int] = field(default_factory=Counter)

    def add(self, verdicts: Verdicts) -> None:
        """Take in more verdicts."""
        self.counts += VerdictCounts.of(verdicts)
        self.judge = verdicts.judge
        if verdicts.usage is not None:
            self.usage = verdicts.usage + (self.usage or Usage())
        self._said.update(reasons_of(verdicts))
        self._unanswered += [e for e in verdicts.errors.values() if e.code == UNANSWERED]
        self._stages.update(count_stages(verdicts))
        self._lengths += balance_of_lengths(verdicts.groups)
        self._split += sum(0 < agreement < 1 for agreement in verdicts.agreement)

    def tell(self, out: Output) -> None:
        """Say how it went: one line, and a warning for everything that needs one."""
        signature = "" if self.judge is None else self.judge.signature
        out.note(f"{describe_verdicts(self.counts)}; {signature}")
        if self._stages:
            out.note(describe_stages(self._stages))
        for line in taken(self.usage):
            out.note(line)
        out.warn(
            *verdict_warnings(self.counts),
            *blind_warnings(self.judge, self.counts, self._lengths),
            *reason_warnings(self._said),
            *split_warnings(self._split, self.counts.total),
            *guarantee_warnings(self.usage),
        )
        out.count(failed=self.counts.error, total=self.counts.total, errors=iter(self._unanswered))
