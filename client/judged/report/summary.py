"""Numbers and sentences about a run that every form of its report has."""

from __future__ import annotations

import math
from collections.abc import Iterator

from judged.report.content import VERDICT_STATUSES, Run

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
    total = run.counts.get("queries", len(run.queries))
    said = (
        f"{run.counts.get('evaluated', len(run.queries)):,} of {_plural(total, 'query', 'queries')}"
    )
    retrieved = run.counts.get("retrieved")
    return said if retrieved is None else f"{said}, {_plural(retrieved, 'result', 'results')}"


def coverage_lines(run: Run) -> Iterator[str]:
    """Yield what the reader of the means should know about verdicts and queries left out."""
    coverage = run.coverage
    if coverage is not None:
        total = sum(run.verdicts.get(name, 0) for name in VERDICT_STATUSES)
        there = f"{run.verdicts.get('ok', 0):,} of {_plural(total, 'verdict', 'verdicts')}"
        line = f"Coverage {share(coverage)}: {there}"
        missing = [
            f"{run.verdicts[name]:,} {word}"
            for name, word in _STATUS_WORDS.items()
            if run.verdicts.get(name)
        ]
        if missing:
            line += f"; missing: {', '.join(missing)}"
        yield f"{line}. {run.verdicts.get('relevant', 0):,} are relevant."
    for name, why in _LEFT_OUT.items():
        if count := run.counts.get(name):
            yield f"{_plural(count, 'query', 'queries')} left out of the means {why}."
    if count := run.counts.get("duplicates"):
        yield f"{_plural(count, 'repeated result', 'repeated results')} dropped."


def took(run: Run) -> list[tuple[str, str]]:
    """Return what the run took, by name."""
    usage = run.usage
    if usage is None:
        return []
    cost = usage.get("cost")
    said = [("cost", "unknown: a price is not configured" if cost is None else f"{cost:.6g}")]
    for name, title in (
        ("calls", "calls answered"),
        ("attempts", "attempts"),
        ("input_tokens", "input tokens"),
        ("output_tokens", "output tokens"),
        ("cached", "replies from the cache"),
        ("shared", "replies shared with other callers"),
    ):
        if (count := usage.get(name)) is not None:
            said.append((title, f"{count:,.0f}"))
    calls, latency = usage.get("calls"), usage.get("latency_s")
    if latency:  # 0 where the document leaves times out
        said.append(("seconds of all calls together", f"{latency:,.3f}"))
        if calls:
            said.append(("seconds a call, mean", f"{latency / calls:.3f}"))
    return said


def number(value: float | None) -> str:
    """Return a number with four decimals, or a dash."""
    return "-" if value is None or math.isnan(value) else f"{value:.4f}"


def signed(value: float | None) -> str:
    """Return a difference with its sign."""
    return "-" if value is None else f"{value:+.4f}"


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
