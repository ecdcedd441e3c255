"""The result of an evaluation: the metrics, and every query with its results.

docs/evaluator.md explains the fields of its JSON document. Within one version, fields are only
added.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from judged._batching.judging import distinct_ranks
from judged._files import read_object, replace_text
from judged._views import View, aligned, of_all, plain, plural, word
from judged.evaluation.datasets.query import Query, Retrieved
from judged.evaluation.datasets.tables import write_rows
from judged.report import make_report, to_html
from judged.report.content import QueryResult, RetrievedResult, describe_counts, read_table
from judged.values import (
    Evaluation,
    IntervalOptions,
    JudgeIdentity,
    MetricCounts,
    MetricResult,
    MetricTable,
    NegativeReport,
    QueryGroup,
    Span,
    Status,
    Usage,
    VerdictCounts,
    Verdicts,
)
from judged.values.choices import shared_warnings
from judged.values.groups import vote_agreement

FORMAT = "judged.evaluation"
VERSION = 1
_OK = int(Status.OK)


def query_result(
    query: Query,
    group: QueryGroup | None,
    place: int,
    ranked: Sequence[Retrieved],
    verdicts: Verdicts | None,
    failure: str | None = None,
) -> QueryResult:
    """Return the result of a query; `place` is the index of its group among those judged.

    `verdicts` are those of all groups without their repeated results. If the retriever failed,
    there is no group.
    """
    expected: Sequence[str] = query.expected_answers
    if group is not None and group.spans is not None:
        expected = [_span_text(span) for span in group.spans.expected]
    return QueryResult(
        query.query_id,
        query.text,
        expected,
        query.relevant_document_ids,
        query.negative_answers,
        query.metadata,
        failure,
        [] if group is None else _retrieved(group, place, ranked, verdicts),
    )


def _retrieved(
    group: QueryGroup, place: int, ranked: Sequence[Retrieved], verdicts: Verdicts | None
) -> list[RetrievedResult]:
    kept = {rank: position for position, rank in enumerate(distinct_ranks(group))}
    wanted = {name: i for i, name in enumerate(dict.fromkeys(group.relevant_document_ids))}
    width = group.n_expected or 1
    start, end = (0, 0) if verdicts is None else verdicts.offsets[place : place + 2]
    found = []
    for rank, name in enumerate(names_of(group)):
        fields: dict[str, Any] = {}
        if rank not in kept:
            fields = {"duplicate": True}
        elif group.by_id:
            matches = (wanted[name],) if name in wanted else ()
            fields = {"relevant": bool(matches), "status": "OK", "matches": matches}
        elif verdicts is not None and end - start == len(kept) * width:
            first = start + kept[rank] * width
            fields = _judged_fields(verdicts, range(first, first + width))
        if rank < len(ranked):
            fields["retriever_score"] = ranked[rank].score
        text: str | None = group.retrieved[rank] if group.retrieved else ""
        if group.spans is not None:
            text = _span_text(group.spans.retrieved[rank])
        elif group.by_id:
            text = text or None
        found.append(RetrievedResult(rank + 1, name, text, **fields))
    return found


def names_of(group: QueryGroup) -> Sequence[str]:
    """Return the ids of a group's results, made from the rank if there are none."""
    return group.document_ids or [f"retrieved_{rank}" for rank in range(group.n_retrieved)]


def _judged_fields(verdicts: Verdicts, cells: range) -> dict[str, Any]:
    """Return the fields of a result from its verdicts, one for each expected text."""
    ok = [cell for cell in cells if verdicts.status[cell] == _OK]
    matches = tuple(cell - cells.start for cell in ok if verdicts.relevant[cell])
    fields: dict[str, Any] = {"relevant": bool(matches), "status": "OK", "matches": matches}
    if ok:
        best = max(ok, key=verdicts.score.__getitem__)
        fields["score"] = verdicts.score[best]
        if verdicts.probability:
            fields["probability"] = verdicts.probability[best]
    if verdicts.agreement:
        votes = [vote_agreement(verdicts[cell], verdicts.judge) for cell in ok]
        fields["agreement"] = min((share for share in votes if share is not None), default=None)
    if len(ok) < len(cells) and not matches:
        missing = next(cell for cell in cells if verdicts.status[cell] != _OK)
        fields |= {"relevant": None, "status": Status(verdicts.status[missing]).name}
        if (error := verdicts.errors.get(missing)) is not None:
            fields["error"] = f"{error.reason}: {error.message}"
    return fields


def _span_text(span: Span) -> str:
    return f"{span.file}[{span.start}:{span.end}]"


@dataclass(frozen=True, slots=True, repr=False)
class EvaluationResult(View):
    """Metrics over queries, every query with its results, and the judge (None if none was asked).

    `result["ndcg@10"]` is a metric with its mean and interval. `k` is the number of documents asked
    for, None if results were given. `negatives` is None if no query has any, `usage` if no language
    model was asked.
    """

    table: MetricTable
    queries: Sequence[QueryResult]
    judge: JudgeIdentity | None = None
    negatives: NegativeReport | None = None
    usage: Usage | None = None
    warnings: Sequence[str] = ()
    name: str = ""
    k: int | None = None

    def __getitem__(self, metric: str) -> MetricResult:
        return self.table[metric]

    def __repr__(self) -> str:
        return f"EvaluationResult({self.table!r}, {len(self.queries)} queries)"

    @property
    def failures(self) -> dict[str, str]:
        """The failures of the retriever, by query id."""
        return {q.query_id: q.failure for q in self.queries if q.failure is not None}

    def summary(self) -> str:
        """Return a text of a few lines: means with intervals, counts, the judge, warnings.

        If verdicts are missing, the bounds are the range of means that they leave open.
        """
        heads = ("metric", "mean", "interval", "bounds", "n")
        cells = [_summary_row(metric) for metric in self.table.metrics]
        used = [i for i in range(len(heads)) if not cells or any(row[i] for row in cells)]
        lines = aligned([[row[i] for i in used] for row in (heads, *cells)], left={0})
        counts = replace(self.table.counts, queries=len(self.queries))  # with those that failed
        totals = describe_counts(counts)
        if (verdicts := counts.verdicts) is not None and verdicts.total:
            ok = of_all(verdicts.ok, verdicts.total, "verdict")
            totals += f", {ok}, {verdicts.relevant} relevant"
        lines += ["", totals]
        if self.judge is not None:
            lines.append(f"judge {self.judge.signature}")
        return "\n".join([*lines, *(f"warning: {warning}" for warning in self.warnings)])

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document that `judged compare` and `judged report` read."""
        usage = None if self.usage is None else self.usage.reported
        optional = {"usage": usage, "negatives": self.negatives, "failures": self.failures}
        return {
            **document_head(self.name, self.k, self.table, self.judge, self.warnings),
            **{name: plain(value) for name, value in optional.items() if value},
            "queries": [query.to_dict() for query in self.queries],
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per query: its number of results and relevant ones, and its metrics.

        A metric is None for a query that it leaves out.
        """
        values = dict(self.table.query_values())
        return [
            {
                "query_id": query.query_id,
                "query": query.query,
                "retrieved": len(query.retrieved),
                "relevant": sum(result.relevant is True for result in query.retrieved),
                "failure": query.failure,
                **{m.name: values.get(query.query_id, {}).get(m.name) for m in self.table.metrics},
            }
            for query in self.queries
        ]

    def to_json(self, path: Path | str | None = None) -> str:
        """Return the JSON document as text; also write it to `path` if given."""
        return _written(_lines_of(self.to_dict()), path)

    def to_html(self, path: Path | str | None = None) -> str:
        """Return the report as one HTML page; also write it to `path` if given.

        The page needs no network. Raises FailedPrecondition without the extra `cli`.
        """
        title = self.name or "Evaluation report"
        return _written(to_html(make_report(self.to_dict(), title=title)), path)

    def to_csv(self, path: Path | str) -> None:
        """Write a line per query to a file; see `to_rows`."""
        rows = self.to_rows()
        write_rows(path, [rows[0] if rows else ["query_id"], *(row.values() for row in rows)])

    @classmethod
    def from_json(cls, path: Path | str) -> EvaluationResult:
        """Return the result that `to_json` wrote to a file. Raises FileError."""
        root = read_object(path)
        root.check_format(FORMAT, VERSION, "EvaluationResult.to_json")
        return root.read(cls, table=read_table(root))


def _written(text: str, path: Path | str | None) -> str:
    if path is not None:
        replace_text(path, text)
    return text


def document_head(
    name: str,
    k: int | None,
    table: MetricTable,
    judge: JudgeIdentity | None,
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the fields that every document begins with."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": name,
        "k": k,
        **table.to_dict(),
        "signature": None if judge is None else judge.signature,
        "judge": plain(judge),
        "warnings": list(warnings),
    }


def _lines_of(document: dict[str, Any]) -> str:
    """Return a document as JSON with a line per field, and a line per query.

    Fully indented, it would be three times as long and take ten times as long to write, because
    Python's C encoder does not indent. It is joined once, because copying a document of some
    megabytes takes a tenth of the time of encoding it.
    """
    encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
    fields = [f"{encode(n)}: {encode(v)}" for n, v in document.items() if n != "queries"]
    queries = [encode(query) for query in document["queries"]] or [""]
    queries[0] = f'"queries": [\n{queries[0]}'
    lines = [*fields, *queries]
    lines[0] = "{\n" + lines[0]
    lines[-1] += "\n]\n}\n"
    return ",\n".join(lines)


def _summary_row(metric: MetricResult) -> tuple[str, ...]:
    interval = metric.interval
    return (
        metric.name,
        "-" if metric.mean is None else f"{metric.mean:.4f}",
        "" if interval is None else _span(interval.lower, interval.upper),
        _span(metric.lower_bound, metric.upper_bound),
        str(metric.n),
    )


def _span(lower: float | None, upper: float | None) -> str:
    return "" if lower is None or upper is None else f"[{lower:.4f}, {upper:.4f}]"


_SHOWN_REASONS = 3
_FLAGGED = {
    "flagged_no_tokens": "about a text whose letters this profile can't read; token_overlap with "
    "profile unicode (--profile unicode) can",
    "flagged_unknown_tokens": "about a text of which the judge does not read a good part, such as "
    "emoji or letters of another script: ask token_overlap with profile unicode, semantic with a "
    "model of its language, or llm",
    "flagged_truncated": "about a text longer than the model's window; only part of it was judged",
    "flagged_fallback": "by a fallback, since the provider of the model that was asked failed; "
    "another model may judge in another way",
    "flagged_reserved_tokens": "flagged RESERVED_TOKENS: a text holds tokens of chat templates, or "
    "characters that only a model reads; read those texts before you trust the verdicts",
}
"""Texts of warnings, by the field of VerdictCounts that counts the verdicts."""
_MANY = 20
"""With this many verdicts, some would be relevant if the judge suited the texts."""
_MUCH_LONGER = 8
_SEMANTIC_SCORE = 0.75
"""At this threshold, its default, semantic found 1 in 60 of the texts that people call right, if
these were _MUCH_LONGER times as long as the expected text."""


def evaluation_warnings(
    evaluation: Evaluation, groups: Iterable[QueryGroup], asked: IntervalOptions | None = None
) -> Iterator[str]:
    """Yield warnings about the counts of an evaluation, and the reasons for missing verdicts.

    `asked` are the requested intervals.
    """
    counts = evaluation.table.counts
    yield from evaluation.table.warnings
    yield from count_warnings(counts)
    yield from verdict_warnings(counts.verdicts or VerdictCounts())
    yield from blind_warnings(evaluation.judge, counts.verdicts, groups)
    yield from slice_warnings(evaluation.table)
    yield from interval_warnings(evaluation.table, asked)
    if evaluation.verdicts is not None:
        yield from reason_warnings(reasons_of(evaluation.verdicts))
    yield from guarantee_warnings(evaluation.usage)
    yield from negative_warnings(evaluation.negatives)


def negative_warnings(report: NegativeReport | None) -> Iterator[str]:
    """Yield warnings about negative answers."""
    if report is None:
        return
    if report.matches:
        queries = of_all(report.queries_hit, report.queries, "query", "queries")
        first = report.matches[0].query_id
        yield f"{queries} with negative answers retrieved one, the first {first!r}"
    missing = report.counts.total - report.counts.ok
    if missing:
        verdicts = of_all(missing, report.counts.total, "verdict")
        yield f"{verdicts} on negative answers {word(missing, 'is', 'are')} missing"


def slice_warnings(table: MetricTable) -> Iterator[str]:
    """Yield a warning for each key that gave no slice with a value."""
    known = {part.key for part in table.slices if part.value}
    for key in dict.fromkeys(part.key for part in table.slices):
        if key not in known:
            yield f"slices by {key}: no query has this key in its metadata"


def interval_warnings(table: MetricTable, asked: IntervalOptions | None) -> Iterator[str]:
    """Yield warnings about intervals, one for all metrics that share it."""
    if asked is not None and any(metric.interval is None for metric in table.metrics):
        yield "interval: there is none where fewer than two queries have a value"
    yield from shared_warnings("interval", {each.name: each.interval for each in table.metrics})


def count_warnings(counts: MetricCounts) -> Iterator[str]:
    """Yield warnings about the queries in a table."""
    unsettled = (
        "left out of the means: missing verdicts could change their values; the bounds cover them"
    )
    if n := counts.skipped_no_gold:
        yield f"{plural(n, 'query', 'queries')} left out: nothing to be found"
    if n := counts.skipped_unsettled:
        yield f"{plural(n, 'query', 'queries')} {unsettled}"
    if n := counts.duplicates:
        yield f"{plural(n, 'repeated result')} dropped; the first of each is kept"


def verdict_warnings(counts: VerdictCounts) -> Iterator[str]:
    """Yield warnings about missing and flagged verdicts."""
    if missing := counts.total - counts.ok:
        kinds = missing_kinds(counts.error, counts.abstained, counts.not_assessable)
        yield f"{_of_verdicts(missing, counts.total)} missing: {kinds}"
    for name, what in _FLAGGED.items():
        if n := getattr(counts, name):
            yield f"{_of_verdicts(n, counts.total)} {what}"


def missing_kinds(failed: int, abstained: int, not_assessable: int) -> str:
    """Return the numbers of missing verdicts by reason, as text."""
    kinds = {"failed": failed, "abstained": abstained, "not assessable": not_assessable}
    return ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n)


def blind_warnings(
    judge: JudgeIdentity | None, counts: VerdictCounts | None, groups: Iterable[QueryGroup]
) -> Iterator[str]:
    """Yield a warning, with alternatives, about a judge that calls (nearly) nothing relevant."""
    if judge is None or counts is None or counts.ok < _MANY:
        return
    longer = [
        0 < _MUCH_LONGER * expected <= retrieved
        for group in (groups if judge.kind == "semantic" else ())
        for expected in map(len, group.expected)
        for retrieved in map(len, group.retrieved)
    ]
    if judge.min_score >= _SEMANTIC_SCORE and 2 * sum(longer) > len(longer):
        yield (
            f"most retrieved texts are {_MUCH_LONGER} times as long as the expected ones or more: "
            f"semantic compares whole texts, and seldom calls such pairs relevant at "
            f"{judge.min_score:g} ({counts.relevant} of {counts.ok} are); for chunks take "
            "token_overlap, a cascade or llm, for answers answer_equivalence, or a lower "
            "--min-score by `judged calibrate`"
        )
    elif not counts.relevant:
        yield (
            f"none of {counts.ok} verdicts is relevant: if some texts are right, {judge.kind} at "
            f"{judge.min_score:g} does not suit them; take token_overlap for chunks, "
            "answer_equivalence for short answers, a cascade or llm, or a lower --min-score by "
            "`judged calibrate`"
        )


def reasons_of(verdicts: Verdicts) -> Counter[str]:
    """Return the reasons why verdicts are missing, with their counts."""
    return Counter(f"{error.reason}: {error.message}" for error in verdicts.errors.values())


_UNLIKE = {
    "score": "the scores of the first stage",
    "length": "the lengths of the retrieved texts",
    "flags": "flags and missing verdicts",
}


def guarantee_warnings(usage: Usage | None) -> Iterator[str]:
    """Yield a warning if a cascade's guarantee is void, because the data differ from its labels."""
    cascade = None if usage is None else usage.cascade
    shift = None if cascade is None else cascade.shift
    if cascade is not None and cascade.guarantee is not None and shift is not None and shift.unlike:
        yield (
            f"no guarantee: {' and '.join(_UNLIKE[name] for name in shift.unlike)} are "
            "not those of the labels that the cascade was made of; label about "
            f"{cascade.guarantee.labels_needed:,} items like these, and make it again with "
            "`judged frontier`"
        )


def reason_warnings(reasons: Counter[str]) -> Iterator[str]:
    """Yield the most frequent reasons why verdicts are missing."""
    for reason, n in reasons.most_common(_SHOWN_REASONS):
        yield f"{plural(n, 'verdict', 'verdicts')} missing: {reason}"


def _of_verdicts(n: int, total: int) -> str:
    return f"{of_all(n, total, 'verdict', 'verdicts')} {word(n, 'is', 'are')}"
