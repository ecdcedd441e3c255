"""Numbers and sentences about a run that every form of its report has."""

from __future__ import annotations

import math
from collections.abc import Iterator

from judged.report.content import TOOK, Run
from judged.values import Interval

_STATUS_WORDS = {
    "error": "failed",
    "abstained": "abstained",
    "not_assessable": "not assessable",
}
_LEFT_OUT = {
    "skipped_no_gold": "because nothing is to be found",
    "skipped_missing": "because the run lacks them",
    "skipped_unjudged": "because nothing of them was judged",
    "skipped_unsettled": "because missing verdicts could change their values",
}


def about(run: Run) -> str:
    """Return how much went into the numbers."""
    counts, queries = run.counts, _plural(run.n_queries, "query", "queries")
    if counts is None:
        return f"{run.n_queries:,} of {queries}"
    return f"{counts.evaluated:,} of {queries}, {_plural(counts.retrieved, 'result', 'results')}"


def coverage_lines(run: Run) -> Iterator[str]:
    """Yield what the reader of the means should know about verdicts and queries left out."""
    counts = run.counts
    if counts is None:
        return
    if (verdicts := counts.verdicts) is not None and (total := verdicts.total):
        there = f"{verdicts.ok:,} of {_plural(total, 'verdict', 'verdicts')}"
        line = f"Coverage {share(verdicts.ok / total)}: {there}"
        missing = [
            f"{getattr(verdicts, name):,} {word}"
            for name, word in _STATUS_WORDS.items()
            if getattr(verdicts, name)
        ]
        if missing:
            line += f"; missing: {', '.join(missing)}"
        yield f"{line}. {verdicts.relevant:,} are relevant."
    for name, why in _LEFT_OUT.items():
        if count := getattr(counts, name):
            yield f"{_plural(count, 'query', 'queries')} left out of the means {why}."
    if count := counts.duplicates:
        yield f"{_plural(count, 'repeated result', 'repeated results')} dropped."


def took(run: Run) -> list[tuple[str, str]]:
    """Return what the run took, by name."""
    said = []
    for name, value in run.usage.items():
        if name == "cost":
            known = "unknown: a price is not configured" if value is None else f"{value:.6g}"
            said.append((TOOK[name], known))
        elif name != "latency_s" and value is not None:
            said.append((TOOK[name], f"{value:,.0f}"))
        elif value:  # 0 where the document leaves times out
            said.append((TOOK[name], f"{value:,.3f}"))
            if calls := run.usage["calls"]:
                said.append(("seconds a call, mean", f"{value / calls:.3f}"))
    return said


def number(value: float | None) -> str:
    """Return a number with four decimals, or a dash."""
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def signed(value: float | None) -> str:
    """Return a difference with its sign."""
    return "-" if value is None else f"{value:+.4f}"


def ends(interval: Interval | None, form: str = ".4f") -> str:
    """Return the ends of an interval, or a dash."""
    return "-" if interval is None else f"{interval.lower:{form}} to {interval.upper:{form}}"


def signed_ends(interval: Interval | None) -> str:
    """Return the ends of the interval of a difference, or a dash."""
    return ends(interval, "+.4f")


def decimal(value: float | None) -> str:
    """Return a number with two decimals, or a dash."""
    return "-" if value is None else f"{value:.2f}"


def p_value(value: float) -> str:
    """Return a p-value; what four decimals can't show is below the smallest they can."""
    return "<0.0001" if value < 0.0001 else f"{value:.4f}"


def share(value: float) -> str:
    """Return a share with four digits, which rounds to 1 only what is 1."""
    text = f"{value:.4g}"
    return text if text != "1" or value == 1 else f"{value:.9g}"


def _plural(n: int, one: str, many: str) -> str:
    return f"{n:,} {one if n == 1 else many}"
