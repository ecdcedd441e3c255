"""What the reader of an evaluation should know beside its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from judged._views import of_all, plural, word
from judged.errors import InvalidArgument
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.datasets.fit import Fit
from judged.evaluation.datasets.results import Results
from judged.values import (
    Evaluation,
    IntervalOptions,
    JudgeIdentity,
    MetricCounts,
    MetricTable,
    QueryGroup,
    Usage,
    VerdictCounts,
    Verdicts,
)
from judged.values.intervals import shared_warnings

_SHOWN_REASONS = 3
_FLAGGED = {
    "flagged_no_tokens": "about a text whose letters this profile can't read; token_overlap with "
    "profile unicode (--profile unicode) can",
    "flagged_unknown_tokens": "about a text of which the judge does not read a good part, such as "
    "emoji or letters of another script: ask token_overlap with profile unicode, semantic with a "
    "model of its language, or llm",
    "flagged_truncated": "about a text longer than the model's window; only its beginning was "
    "judged",
    "flagged_reserved_tokens": "flagged RESERVED_TOKENS: a text holds tokens of chat templates, or "
    "characters that only a model reads; read those texts before you trust the verdicts",
    "flagged_fallback": "by a fallback: the provider of the model that was asked failed; details "
    "of the verdicts (--details) name the models",
}
"""What to mind of verdicts that VerdictCounts counts under a name."""
_MANY = 20
"""Verdicts of which some would be relevant if the judge suited the texts."""
_MUCH_LONGER = 8
_SEMANTIC_SCORE = 0.75
"""At this threshold, its default, semantic found 1 in 60 of the right texts of people's labels that
were so many times as long as what was expected."""


def join_warnings(dataset: Dataset, results: Results) -> Iterator[str]:
    """Yield where a data set and results do not fit. Raises InvalidArgument when nothing does."""
    query_ids = list(dict.fromkeys(query.query_id for query in dataset.queries))
    fit = Fit.of(query_ids, results, results.out_of_order)
    if fit.problem:
        raise InvalidArgument.of_field("results", fit.problem)
    yield from fit.warnings()
    yield from results.warnings


def evaluation_warnings(
    evaluation: Evaluation, groups: Iterable[QueryGroup], asked: IntervalOptions | None = None
) -> Iterator[str]:
    """Yield what to mind of the counts of an evaluation, and the reasons of missing verdicts.

    `asked` are the intervals that somebody asked for.
    """
    counts = evaluation.table.counts
    yield from evaluation.table.warnings
    yield from count_warnings(counts)
    yield from verdict_warnings(counts.verdicts or VerdictCounts())
    yield from blind_warnings(evaluation.judge, counts.verdicts, groups)
    yield from interval_warnings(evaluation.table, asked)
    if evaluation.verdicts is not None:
        yield from reason_warnings(reasons_of(evaluation.verdicts))
    yield from guarantee_warnings(evaluation.usage)


def interval_warnings(table: MetricTable, asked: IntervalOptions | None) -> Iterator[str]:
    """Yield what the reader of the intervals should know, once for metrics that share it."""
    if asked is not None and any(metric.interval is None for metric in table.metrics):
        yield "interval: there is none where fewer than two queries have a value"
    yield from shared_warnings("interval", {each.name: each.interval for each in table.metrics})


def count_warnings(counts: MetricCounts) -> Iterator[str]:
    """Yield what the reader of a table should know about the queries in it."""
    if counts.skipped_no_gold:
        queries = plural(counts.skipped_no_gold, "query", "queries")
        yield f"{queries} left out: nothing to be found"
    if counts.skipped_unsettled:
        queries = plural(counts.skipped_unsettled, "query", "queries")
        yield (
            f"{queries} left out of the means: missing verdicts could change their values; the "
            "bounds cover them"
        )
    if counts.duplicates:
        what = plural(counts.duplicates, "repeated result", "repeated results")
        yield f"{what} dropped; the first of each is kept"


def verdict_warnings(counts: VerdictCounts) -> Iterator[str]:
    """Yield what the reader of verdicts should know about them."""
    if missing := counts.total - counts.ok:
        kinds = missing_kinds(counts.error, counts.abstained, counts.not_assessable)
        yield f"{_of_verdicts(missing, counts.total)} missing: {kinds}"
    for name, what in _FLAGGED.items():
        if n := getattr(counts, name):
            yield f"{_of_verdicts(n, counts.total)} {what}"


def missing_kinds(failed: int, abstained: int, not_assessable: int) -> str:
    """Return how many are missing for each reason."""
    kinds = {"failed": failed, "abstained": abstained, "not assessable": not_assessable}
    return ", ".join(f"{n} {kind}" for kind, n in kinds.items() if n)


def balance_of_lengths(groups: Iterable[QueryGroup]) -> int:
    """Return of how many more contexts the retrieved text is much longer than not, or less than 0.

    Much longer is so many times as long as the expected text.
    """
    return sum(
        1 if 0 < _MUCH_LONGER * expected <= retrieved else -1
        for group in groups
        for expected in map(len, group.expected)
        for retrieved in map(len, group.retrieved)
    )


def blind_warnings(
    judge: JudgeIdentity | None, counts: VerdictCounts | None, groups: Iterable[QueryGroup]
) -> Iterator[str]:
    """Yield what to take instead of a judge that calls nothing relevant, or hardly can."""
    if judge is None or counts is None or counts.ok < _MANY:
        return
    whole = judge.kind == "semantic" and judge.min_score >= _SEMANTIC_SCORE
    if whole and balance_of_lengths(groups) > 0:
        yield (
            f"most retrieved texts are {_MUCH_LONGER} times as long as the expected ones or more: "
            f"semantic compares whole texts and hardly calls such pairs relevant at "
            f"{judge.min_score:g} ({counts.relevant} of {counts.ok} are); for chunks take "
            "token_overlap, a cascade or llm, for answers answer_equivalence, or a lower "
            "--min-score by `judged calibrate`"
        )
    elif not counts.relevant:
        yield (
            f"none of {counts.ok} verdicts is relevant: if some texts are right, {judge.kind} at "
            f"{judge.min_score:g} does not suit them; take token_overlap, answer_equivalence (for "
            "short answers), a cascade or llm, or a lower --min-score by `judged calibrate`"
        )


def reasons_of(verdicts: Verdicts) -> Counter[str]:
    """Return the reasons why verdicts are missing, with how often each was given."""
    return Counter(f"{error.reason}: {error.message}" for error in verdicts.errors.values())


_UNLIKE = {
    "score": "the scores of the first stage",
    "length": "the lengths of the retrieved texts",
    "flags": "flags and missing verdicts",
}


def guarantee_warnings(usage: Usage | None) -> Iterator[str]:
    """Yield that a cascade's guarantee is withdrawn, where the data are unlike its labels."""
    cascade = None if usage is None else usage.cascade
    shift = None if cascade is None else cascade.shift
    if cascade is not None and cascade.guarantee is not None and shift is not None and shift.unlike:
        yield (
            f"no guarantee: {' and '.join(_UNLIKE[name] for name in shift.unlike)} are "
            "not those of the labels that the cascade was made of; label about "
            f"{cascade.guarantee.labels_needed:,} items like these, and make it anew with "
            "`judged frontier`"
        )


def reason_warnings(reasons: Counter[str]) -> Iterator[str]:
    """Yield the commonest of the reasons why verdicts are missing."""
    for reason, n in reasons.most_common(_SHOWN_REASONS):
        yield f"{plural(n, 'verdict', 'verdicts')} missing: {reason}"


def _of_verdicts(n: int, total: int) -> str:
    return f"{of_all(n, total, 'verdict', 'verdicts')} {word(n, 'is', 'are')}"
