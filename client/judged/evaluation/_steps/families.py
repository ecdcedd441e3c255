"""Metrics that bring a judge of their own: which were asked for, and one table with the others.

The server measures a family as the plain metrics in mode ANY; the names and signatures are made
here. Intervals and slices are those of the joined table, in `certainty`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from judged.errors import InvalidArgument
from judged.types import (
    Judge,
    JudgeIdentity,
    Matching,
    MetricOptions,
    MetricResult,
    MetricTable,
    QueryGroup,
    VerdictCounts,
)

MIN_SCORE = 0.8

_MEMBER = re.compile(
    r"(precision|recall|f1|hybrid_log_rank)_(exact|similarity)((?:\(.*\))?(?:@.*)?)", re.DOTALL
)
_PLACE = re.compile(r"metrics\[(\d+)\]")
_CALLER = "caller"


@dataclass(frozen=True, slots=True)
class Part:
    """The metrics that one judge decides; `family` is empty for the caller's judge.

    `names` are those that the server is asked for, `places` where each stands in the request.
    """

    family: str
    names: list[str]
    places: list[int]

    def judge(self, groups: Sequence[QueryGroup]) -> Judge:
        """Return the judge of a family."""
        if self.family == "exact":
            return Judge("exact", "verbatim", MIN_SCORE)
        brought = any(group.embeddings is not None for group in groups)
        return Judge("semantic", "", MIN_SCORE, {"model": _CALLER} if brought else {})

    def options(self, options: MetricOptions) -> MetricOptions:
        """Return the options that the part is measured under."""
        return replace(options, matching=Matching.ANY) if self.family else options

    def groups(self, groups: Sequence[QueryGroup]) -> list[QueryGroup]:
        """Return the groups as the family's judge reads them. Raises InvalidArgument."""
        return [self._group(group, index) for index, group in enumerate(groups)]

    def _group(self, group: QueryGroup, index: int) -> QueryGroup:
        vectors, spans = group.embeddings, group.spans
        if (vectors is None and spans is None) or (spans is None and self.family == "similarity"):
            return group
        n_texts = len(group.expected), len(group.retrieved)
        if n_texts != (group.n_expected, group.n_retrieved) and group.n_expected:
            brings = "spans" if vectors is None else "embeddings"
            rule = f"a metric of the family {self.family} compares texts, and groups[{index}]"
            raise InvalidArgument.of_field(
                f"metrics[{self.places[0]}]",
                f"{rule} brings {brings} only; send its texts too, or leave the metric out",
            )
        return replace(group, embeddings=None, spans=None)

    def original(self, error: InvalidArgument) -> InvalidArgument:
        """Make an error about the part's metrics speak of those that were asked for."""

        def rename(match: re.Match[str]) -> str:
            return f"metrics[{self.places[int(match[1])]}]"

        error.field = _PLACE.sub(rename, error.field)
        error.message = _PLACE.sub(rename, error.message)
        error.metadata = {key: _PLACE.sub(rename, text) for key, text in error.metadata.items()}
        error.args = (error.message,)
        return error

    def named(self, table: MetricTable, judge: JudgeIdentity | None) -> MetricTable:
        """Return the table under the family's names, its signatures telling the judge."""
        if judge is None:
            return table
        told = judge.signature.replace("|", " ")

        def named(metric: MetricResult) -> MetricResult:
            plain = re.match(r"\w+", metric.name, re.ASCII)
            length = plain.end() if plain else 0
            head, rest = metric.signature[:length], metric.signature[length:]
            before, _, after = rest.partition("|matching:")
            return replace(
                metric,
                name=f"{metric.name[:length]}_{self.family}{metric.name[length:]}",
                signature=f"{head}_{self.family}{before}|judge:{told}|matching:{after}",
            )

        return replace(table, metrics=[named(metric) for metric in table.metrics])


def split_metrics(metrics: Sequence[str]) -> list[Part]:
    """Return the metrics by the judge that decides them, the caller's first."""
    own, exact, similarity = Part("", [], []), Part("exact", [], []), Part("similarity", [], [])
    families = {part.family: part for part in (exact, similarity)}
    for place, name in enumerate(metrics):
        member = _MEMBER.fullmatch(name)
        part = families[member[2]] if member else own
        part.names.append(f"{member[1]}{member[3]}" if member else name)
        part.places.append(place)
    # No metric at all is for the server to refuse.
    return [part for part in (own, exact, similarity) if part.names] or [own]


def refuse_families(parts: Sequence[Part]) -> None:
    """Raise InvalidArgument when a part has a judge of its own."""
    for part in parts:
        if part.family:
            rule = f"metrics of the family {part.family} ask a judge of their own, and none is to"
            raise InvalidArgument.of_field(
                f"metrics[{part.places[0]}]", f"{rule} run; leave them out, or name a judge"
            )


def join_parts(
    parts: Sequence[Part],
    measured: Sequence[Callable[[frozenset[str] | None, MetricOptions], MetricTable]],
    options: MetricOptions,
) -> MetricTable:
    """Return one table of all parts; each of `measured` gives a part's, of some queries or all.

    A query that is unsettled under one judge is left out of all the means, as Evaluate does.
    """
    if len(parts) == 1:
        return measured[0](None, options)
    asked = replace(options, per_query=True)
    tables = [measure(None, asked) for measure in measured]
    settled = frozenset.intersection(*(frozenset(table.query_ids) for table in tables))
    if any(len(table.query_ids) != len(settled) for table in tables):
        over = [
            measure(settled, asked) if settled else _of_nothing(table)
            for measure, table in zip(measured, tables, strict=True)
        ]
        tables = [_restricted(part, whole) for part, whole in zip(over, tables, strict=True)]
    places = [place for part in parts for place in part.places]

    def in_order(metrics: Sequence[MetricResult]) -> list[MetricResult]:
        shown = (m if options.per_query else replace(m, per_query=[]) for m in metrics)
        return [m for _, m in sorted(zip(places, shown, strict=True), key=lambda pair: pair[0])]

    first = tables[0]
    totals = _total([table.counts.verdicts or VerdictCounts() for table in tables])
    return replace(
        first,
        metrics=in_order([metric for table in tables for metric in table.metrics]),
        query_ids=first.query_ids if options.per_query else [],
        counts=replace(first.counts, verdicts=totals),
    )


def _of_nothing(table: MetricTable) -> MetricTable:
    """Return the table over no query at all."""
    metrics = [replace(metric, mean=None, n=0, per_query=[]) for metric in table.metrics]
    counts = replace(table.counts, evaluated=0, retrieved=0)
    return replace(table, metrics=metrics, query_ids=[], counts=counts)


def _restricted(table: MetricTable, whole: MetricTable) -> MetricTable:
    """Return the table over some queries, with counts and bounds over all of them."""
    counts = replace(
        whole.counts,
        evaluated=table.counts.evaluated,
        skipped_unsettled=whole.counts.skipped_unsettled
        + whole.counts.evaluated
        - table.counts.evaluated,
        retrieved=table.counts.retrieved,
    )
    metrics = [
        replace(
            part,
            lower_bound=full.mean if full.lower_bound is None else full.lower_bound,
            upper_bound=full.mean if full.upper_bound is None else full.upper_bound,
        )
        for part, full in zip(table.metrics, whole.metrics, strict=True)
    ]
    return replace(table, metrics=metrics, counts=counts)


def _total(counts: Sequence[VerdictCounts]) -> VerdictCounts:
    names = [field.name for field in fields(VerdictCounts)]
    return VerdictCounts(**{name: sum(getattr(c, name) for c in counts) for name in names})
