"""Tables and lines that several commands print: verdicts, means, intervals and usage.

The output of a single command is in its module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judged import MetricTable, Verdicts
from judged._views import of_all, plain, plural, word
from judged.cli.output import Output, Table, say
from judged.evaluation.result import (
    blind_warnings,
    guarantee_warnings,
    reason_warnings,
    reasons_of,
    verdict_warnings,
)
from judged.values import (
    CorrectedEstimate,
    CostEstimate,
    ErrorGuarantee,
    Estimate,
    MetricResult,
    Usage,
    VerdictCounts,
)
from judged.values.choices import ends_of, shared_warnings


def means_table(table: MetricTable) -> Table:
    """Return the means, with bounds if verdicts are missing, and intervals if there are any."""
    bounded = any(metric.lower_bound is not None for metric in table.metrics)
    heads = ["metric", "mean", "n", *(["lower", "upper"] if bounded else [])]
    rows = [(m.name, mean_of(m), m.n, m.lower_bound, m.upper_bound) for m in table.metrics]
    return Table(heads, [row[: len(heads)] for row in rows])


def per_query_table(table: MetricTable) -> Table:
    """Return the value of every query for every metric."""
    heads = ["query", *(metric.name for metric in table.metrics)]
    return Table(heads, zip(table.query_ids, *(m.per_query for m in table.metrics), strict=True))


def describe_verdicts(counts: VerdictCounts) -> str:
    """Return the numbers of verdicts, as a line."""
    coverage = f"{counts.ok / counts.total:.4g}" if counts.total else "none"
    verdicts = plural(counts.total, "verdict")
    return f"{verdicts}, {counts.relevant} relevant, coverage {coverage}"


def mean_of(metric: MetricResult) -> Estimate:
    """Return a mean as tables show it, with its interval if it has one."""
    return Estimate(metric.mean, metric.interval)


def estimates_table(title: str, estimates: Mapping[str, Estimate | None]) -> Table:
    """Return a row for each: name, value, ends of the interval; "-" if undefined."""
    known = {name: one or Estimate() for name, one in estimates.items()}
    rows = [[name, one.value, *ends_of(one.interval).values()] for name, one in known.items()]
    return Table([title, "value", "lower", "upper"], rows)


def estimate_warnings(estimates: Mapping[str, Estimate | None]) -> Iterator[str]:
    """Yield the warnings of intervals, each once for all numbers that share it."""
    known = {name: one.interval for name, one in estimates.items() if one is not None}
    return shared_warnings("interval", known)


def fields_but(value: Any, *left_out: str) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    """Return the fields of a value as in JSON, without some."""
    return {name: each for name, each in plain(value).items() if name not in left_out}


def slices_table(table: MetricTable) -> Table:
    """Return the means of the slices, a row each; "-" stands for queries that lack the key."""
    rows: list[Sequence[str | float | Estimate]] = []
    for part in table.slices:
        n = max((metric.n for metric in part.metrics), default=0)
        rows.append([f"{part.key}={part.value or '-'}", n, *map(mean_of, part.metrics)])
    return Table(["slice", "n", *(metric.name for metric in table.metrics)], rows)


def corrected_table(means: Mapping[str, CorrectedEstimate]) -> Table:
    """Return the naive mean, the mean of labels and the corrected mean, side by side."""
    rows = [
        (
            name,
            mean.naive,
            mean.labels_only,
            mean.corrected,
            f"{mean.n_labelled} of {mean.n}",
            f"{mean.power:.3f}",
        )
        for name, mean in means.items()
    ]
    return Table(["metric", "naive", "labels only", "corrected", "labelled", "power"], rows)


def describe_usage(usage: Usage) -> str:
    """Return calls, tokens and cost, as a line."""
    calls, tries = plural(usage.calls, "call"), plural(usage.attempts, "try", "tries")
    cost = "" if usage.cost is None else f", cost {usage.cost:.6g}"
    tokens = f"{usage.input_tokens} input and {usage.output_tokens} output tokens"
    parts = [f"{calls} answered in {tries}, {tokens}{cost}"]
    if usage.cached:
        parts.append(f"{plural(usage.cached, 'sample')} from the cache")
    if usage.estimated:
        some = plural(usage.estimated, "call")
        parts.append(f"{some} without a count by the provider, estimated at the most they can have")
    if usage.left_out:
        parts.append(f"left out of replies: {', '.join(usage.left_out)}")
    return "; ".join(parts)


def usage_lines(usage: Usage | None) -> list[str]:
    """Return the usage of judging, and the guarantee of a cascade, a line each.

    There is no guarantee for data unlike the labels: `guarantee_warnings` say so.
    """
    if usage is None:
        return []
    cascade, shift = usage.cascade, None if usage.cascade is None else usage.cascade.shift
    lines = [describe_usage(usage)] if cascade is None or usage.attempts or usage.cached else []
    if cascade and cascade.guarantee and shift and not shift.unlike:
        checked = f"; not checked: {shift.not_checked}" if shift.not_checked else ""
        lines.append(f"guarantee: {describe_guarantee(cascade.guarantee)}{checked}")
    return lines


def describe_guarantee(guarantee: ErrorGuarantee) -> str:
    """Return the guarantee of a cascade with its numbers, as a line."""
    return (
        f"of data like the labels at most {guarantee.max_error:.4g} of what it settles contradicts "
        f"people, with a confidence of {guarantee.confidence:g}"
    )


def vote_warnings(verdicts: Verdicts) -> Iterator[str]:
    """Yield a warning if votes were split."""
    split = sum(0 < agreement < 1 for agreement in verdicts.agreement)
    return split_warnings(split, len(verdicts))


def split_warnings(split: int, total: int, what: str = "verdict") -> Iterator[str]:
    """Yield a warning if `split` of `total` verdicts had votes on both sides."""
    if split:
        some = of_all(split, total, what, f"{what}s")
        yield f"{some} {word(split, 'has', 'have')} votes on both sides; see their agreement"


def usage_document(usage: Usage | None) -> dict[str, Any]:
    """Return the usage entry of a JSON document; empty if no judge was asked."""
    if usage is None:
        return {}
    document = plain(usage.reported)
    if usage.cascade is not None:
        document["cascade"]["shift"] = plain(usage.cascade.shift)
    return {"usage": document}


_AMOUNTS = "contexts distinct_texts cache_hits calls input_tokens output_tokens"


def report_estimate(out: Output, found: CostEstimate) -> dict[str, Any]:
    """Print a cost estimate; return the JSON document."""
    cost = "unknown: a price is missing"
    if found.cost is not None:
        cost = f"{found.cost:.6g} {found.currency}".rstrip()
    rows = [(name.replace("_", " "), f"{getattr(found, name):,}") for name in _AMOUNTS.split()]
    out.show(Table(["would take at most", ""], [*rows, ("cost", cost)]))
    return {"estimate": found}


def report_verdicts(out: Output, verdicts: Verdicts) -> None:
    """Print a line about the verdicts and their usage, and all warnings about them."""
    counts, usage = VerdictCounts.of(verdicts), verdicts.usage
    say(f"{describe_verdicts(counts)}; {verdicts.judge.signature}")
    for line in usage_lines(usage):
        say(line)
    out.warn(
        *verdict_warnings(counts),
        *blind_warnings(verdicts.judge, counts, verdicts.groups),
        *reason_warnings(reasons_of(verdicts)),
        *vote_warnings(verdicts),
        *guarantee_warnings(usage),
    )
    out.count(failed=counts.error, total=counts.total, errors=verdicts.errors.values())
