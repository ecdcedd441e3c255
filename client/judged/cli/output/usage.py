"""What asking language models took, what it would take, and how a verdict came about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from judged import Verdicts
from judged.cli.output.tables import of_all, plural, word
from judged.cli.output.writer import Output, new_table
from judged.types import CostEstimate, Usage, VerdictDetail


def describe_usage(usage: Usage) -> str:
    """Return what asking took, as a line."""
    tokens = f"{usage.input_tokens} input and {usage.output_tokens} output tokens"
    cost = "" if usage.cost is None else f", cost {usage.cost:.6g}"
    tries = plural(usage.attempts, "try", "tries")
    kept = f"; {plural(usage.cached, 'sample', 'samples')} from the cache" if usage.cached else ""
    shared = f"; {usage.shared} shared with another caller" if usage.shared else ""
    calls = plural(usage.calls, "call", "calls")
    return f"{calls} answered in {tries}, {tokens}{cost}{kept}{shared}"


def vote_warnings(verdicts: Verdicts) -> Iterator[str]:
    """Yield what the reader should know about the votes."""
    split = sum(0 < agreement < 1 for agreement in verdicts.agreement)
    if split:
        some = of_all(split, len(verdicts), "verdict", "verdicts")
        yield f"{some} {word(split, 'has', 'have')} votes on both sides; see their agreement"


def usage_document(usage: Usage | None) -> dict[str, Any]:
    """Return the entry of a JSON document that tells what asking took, if anybody was asked."""
    return {} if usage is None else {"usage": asdict(usage)}


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
    out.write_json({"estimate": asdict(found), "warnings": out.warnings})
    out.finish()
