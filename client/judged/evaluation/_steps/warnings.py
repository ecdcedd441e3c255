"""What the reader of an evaluation should know beside its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from judged.errors import InvalidArgument
from judged.evaluation.datasets.dataset import Dataset
from judged.evaluation.datasets.results import Results
from judged.types import Evaluation
from judged.types.intervals import shared_warnings


def join_warnings(dataset: Dataset, results: Results) -> Iterator[str]:
    """Yield where a data set and results do not fit. Raises InvalidArgument when nothing does."""
    known = {query.query_id for query in dataset.queries}
    missing = [query_id for query_id in known if query_id not in results]
    unknown = [query_id for query_id in results if query_id not in known]
    if len(missing) == len(known):
        first = f", as {unknown[0]!r} is" if unknown else ""
        rule = f"no query of the data set is among them; their ids must be its ids{first} not"
        raise InvalidArgument.of_field("results", rule if unknown else "hold no query")
    if missing:
        first_missing = min(missing)
        yield (
            f"{len(missing)} of {len(known)} queries have no results and count as having found "
            f"nothing, for example {first_missing!r}"
        )
    if unknown:
        yield (
            f"{len(unknown)} of {len(results)} queries of the results are not in the data set and "
            f"left out, for example {unknown[0]!r}"
        )
    if results.out_of_order:
        yield (
            f"{len(results.out_of_order)} of {len(results)} queries have scores that rise with "
            f"rank, for example {results.out_of_order[0]!r}; the given order is the ranking"
        )


def evaluation_warnings(evaluation: Evaluation) -> Iterator[str]:
    """Yield what to mind of the counts of an evaluation, and the reasons of missing verdicts."""
    counts = evaluation.table.counts
    verdicts = counts.verdicts
    if counts.skipped_no_gold:
        yield f"{counts.skipped_no_gold} queries left out: nothing to be found"
    if counts.duplicates:
        yield f"{counts.duplicates} repeated results dropped; the first of each is kept"
    if verdicts is not None and verdicts.ok < verdicts.total:
        missing = verdicts.total - verdicts.ok
        yield (
            f"{missing} of {verdicts.total} verdicts are missing ({verdicts.error} failed, "
            f"{verdicts.abstained} abstained, {verdicts.not_assessable} not assessable); the "
            "bounds say what they leave open"
        )
    if verdicts is not None and verdicts.flagged_no_tokens:
        yield (
            f"{verdicts.flagged_no_tokens} of {verdicts.total} verdicts are about a text whose "
            'letters this profile can\'t read; Judge("token_overlap", profile="unicode") can'
        )
    if verdicts is not None and verdicts.flagged_truncated:
        yield (
            f"{verdicts.flagged_truncated} of {verdicts.total} verdicts are about a text longer "
            "than the model's window; only its beginning was judged"
        )
    intervals = {metric.name: metric.interval for metric in evaluation.table.metrics}
    yield from shared_warnings("interval", intervals)
    if evaluation.verdicts is not None:
        errors = evaluation.verdicts.errors.values()
        said = Counter(f"{error.reason}: {error.message}" for error in errors)
        for reason, n in said.most_common(3):
            yield f"{n} verdicts missing: {reason}"
