"""Means that human labels have corrected, and what to mind of intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from judged._inputs import need_column, need_ids, set_fields
from judged._views import View
from judged.values.intervals import Estimate, Interval


@dataclass(frozen=True, slots=True, repr=False)
class HumanLabels(View):
    """What people decided on every context of some rankings.

    `relevant` holds ranking after ranking in the order of `query_ids`, each retrieved-major. Draw
    the rankings to label at random, 200 or more: the correction is for such labels only. Where they
    were drawn with unequal probabilities, `inclusion_probabilities` has that of each.
    """

    query_ids: Sequence[str]
    relevant: Sequence[bool]
    inclusion_probabilities: Sequence[float] = ()

    def __post_init__(self) -> None:
        query_ids = need_ids(self.query_ids, "query_ids")
        set_fields(
            self,
            query_ids=query_ids,
            relevant=need_column(self.relevant, "relevant"),
            inclusion_probabilities=need_column(
                self.inclusion_probabilities, "inclusion_probabilities"
            ),
        )


@dataclass(frozen=True, slots=True, repr=False)
class CorrectedEstimate(View):
    """A mean with the judge's error carried into it (prediction-powered inference, PPI++).

    `corrected` is None with fewer than two labelled queries. `naive` is the mean of the machine's
    values, `labels_only` that of the human ones. `power` says how much the machine's values were
    trusted, from 0 to 1. `half_width_with_more` is half the width to expect of the corrected
    interval with 50 labels more; None where that can't be told.
    """

    corrected: Estimate | None
    naive: Estimate | None
    labels_only: Estimate | None
    n_labelled: int
    n: int
    power: float
    warnings: tuple[str, ...] = ()
    half_width_with_more: float | None = None


def names_by_warning(
    warned: Mapping[str, Interval | CorrectedEstimate | None],
) -> dict[str, list[str]]:
    """Return the names of the numbers that share each warning."""
    names: dict[str, list[str]] = {}
    for name, one in warned.items():
        for warning in () if one is None else one.warnings:
            names.setdefault(warning, []).append(name)
    return names


def shared_warnings(
    what: str, warned: Mapping[str, Interval | CorrectedEstimate | None]
) -> Iterator[str]:
    """Yield each warning once: that of `what`, and of which numbers if it is not that of all."""
    for warning, names in names_by_warning(warned).items():
        of_some = "" if len(names) == len(warned) else f" of {', '.join(names)}"
        yield f"{what}{of_some}: {warning}"
