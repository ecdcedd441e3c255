"""What asking language models took, what it would take, and how a verdict came about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from judged import Flag, Verdicts
from judged._views import of_all, plural, word
from judged.cli.output.writer import Output, new_table
from judged.values import CascadeUsage, CostEstimate, ErrorGuarantee, Usage, VerdictDetail


def describe_usage(usage: Usage) -> str:
    """Return what asking took, as a line."""
    calls, tries = plural(usage.calls, "call", "calls"), plural(usage.attempts, "try", "tries")
    cost = "" if usage.cost is None else f", cost {usage.cost:.6g}"
    tokens = f"{usage.input_tokens} input and {usage.output_tokens} output tokens"
    parts = [f"{calls} answered in {tries}, {tokens}{cost}"]
    if usage.cached:
        parts.append(f"{plural(usage.cached, 'sample', 'samples')} from the cache")
    if usage.shared:
        parts.append(f"{usage.shared} shared with another caller")
    if usage.estimated:
        some = plural(usage.estimated, "call", "calls")
        parts.append(f"{some} without a count by the provider, estimated at the most they can have")
    if usage.left_out:
        parts.append(f"left out of replies: {', '.join(usage.left_out)}")
    return "; ".join(parts)


def taken(usage: Usage | None) -> list[str]:
    """Return what judging took and saved, a line each."""
    if usage is None:
        return []
    # The models of a cascade may not have been asked.
    asked = usage.cascade is None or usage.attempts or usage.cached or usage.shared
    return [*([describe_usage(usage)] if asked else []), *describe_cascade(usage)]


def count_stages(verdicts: Verdicts) -> Counter[int]:
    """Return how many verdicts each stage of a cascade settled; 0 stands for none."""
    return Counter(
        0 if flags & Flag.UNSETTLED else stage
        for stage, flags in zip(verdicts.stage, verdicts.flags, strict=False)
    )


def describe_stages(counts: Counter[int]) -> str:
    """Return which share of the verdicts each stage of a cascade settled, as a line."""
    total = counts.total()
    shares = [
        f"stage {stage} settled {of_all(n, total, 'verdict', 'verdicts')}"
        for stage, n in sorted(counts.items())
        if stage
    ]
    if counts[0]:
        shares.append(f"no stage settled {of_all(counts[0], total, 'verdict', 'verdicts')}")
    return "; ".join(shares)


def cascade_table(cascade: CascadeUsage) -> Table:
    """Return a row a stage: the items that it was asked about and settled, and what it cost."""
    view = new_table("stage", "items", "settled", "share of all", "cost", "judge")
    total = cascade.stages[0].asked if cascade.stages else 0
    for number, stage in enumerate(cascade.stages, start=1):
        share = f"{stage.settled / total:.1%}" if total else "-"
        cost = "-" if stage.cost is None else f"{stage.cost:.6g}"
        kind = stage.judge.partition("|")[0]
        view.add_row(str(number), f"{stage.asked:,}", f"{stage.settled:,}", share, cost, kind)
    return view


def describe_cascade(usage: Usage) -> list[str]:
    """Return what a cascade saved and what is promised of it, a line each.

    Of data unlike the labels nothing is: `guarantee_warnings` say so.
    """
    cascade = usage.cascade
    if cascade is None:
        return []
    lines = []
    if usage.avoided_calls:
        saved = f"{plural(usage.avoided_calls, 'call', 'calls')} avoided"
        if cascade.avoided_cost is not None:
            saved += f", which would have cost {cascade.avoided_cost:.6g} at most"
        if usage.cost is not None:
            saved += f"; {usage.cost:.6g} spent"
        lines.append(saved)
    if cascade.unsettled:
        lines.append(f"{plural(cascade.unsettled, 'item', 'items')} settled by no stage")
    shift = cascade.shift
    if cascade.guarantee is not None and shift is not None and not shift.unlike:
        checked = "these data are like them, by a test with 1 % of false alarms"
        if shift.not_checked:
            checked = f"whether these are like them is not checked: {shift.not_checked}"
        lines.append(f"guarantee: {describe_guarantee(cascade.guarantee)}; {checked}")
    return lines


def describe_guarantee(guarantee: ErrorGuarantee) -> str:
    """Return what is promised of a cascade, with the numbers behind it, as a line."""
    return (
        f"of data like the labels at most {guarantee.max_error:.4g} of what it settles contradicts "
        f"people, with a confidence of {guarantee.confidence:g}: {guarantee.n_wrong} of "
        f"{plural(guarantee.n_labels, 'label', 'labels')} of "
        f"{plural(guarantee.n_clusters, 'query', 'queries')} that made nothing, which count as "
        f"{guarantee.labels_counted:.1f}"
    )


def vote_warnings(verdicts: Verdicts) -> Iterator[str]:
    """Yield what the reader should know about the votes."""
    split = sum(0 < agreement < 1 for agreement in verdicts.agreement)
    return split_warnings(split, len(verdicts))


def split_warnings(split: int, total: int, what: str = "verdict") -> Iterator[str]:
    """Yield what to know where `split` of `total` verdicts had votes on both sides."""
    if split:
        some = of_all(split, total, what, f"{what}s")
        yield f"{some} {word(split, 'has', 'have')} votes on both sides; see their agreement"


def usage_document(usage: Usage | None) -> dict[str, Any]:
    """Return the entry of a JSON document that tells what asking took, if anybody was asked."""
    if usage is None:
        return {}
    document = asdict(usage.reported)
    if usage.cascade is not None:
        del document["cascade"]["counts"]
        shift = usage.cascade.shift
        document["cascade"]["shift"] = None if shift is None else asdict(shift)
    return {"usage": document}


def detail_document(detail: VerdictDetail) -> dict[str, Any]:
    """Return how one verdict came about, for a JSON document."""
    fields = asdict(detail)
    samples: Sequence[dict[str, Any]] = fields["samples"]
    for document, sample in zip(samples, detail.samples, strict=True):
        document["status"] = sample.status.name
    return fields


def report_estimate(out: Output, found: CostEstimate) -> None:
    """Print what work would take, or write it as the JSON document."""
    view = new_table("would take at most", "")
    rows = {
        "contexts": found.contexts,
        "distinct texts": found.distinct_texts,
        "in the cache": found.cache_hits,
        "calls": found.calls,
        "input tokens": found.input_tokens,
        "output tokens": found.output_tokens,
    }
    for name, number in rows.items():
        view.add_row(name, f"{number:,}")
    cost = "unknown: a price is missing"
    if found.cost is not None:
        cost = f"{found.cost:.6g} {found.currency}".rstrip()
    view.add_row("cost", cost)
    out.show(view)
    if found.cascade is not None:
        out.show("", cascade_table(found.cascade))
    out.write_json({"estimate": asdict(found), "warnings": out.warnings})
    out.finish()
