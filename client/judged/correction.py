"""Human labels beside a judge's verdicts, and means that they have corrected.

How they travel is up to `_correction`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged._inputs import need_column, need_ids, set_fields
from judged._views import View
from judged.statistics import Estimate


@dataclass(frozen=True, slots=True, repr=False)
class HumanLabels(View):
    """What people decided on every context of some rankings.

    `relevant` holds ranking after ranking in the order of `query_ids`, each retrieved-major. Draw
    the rankings to label at random, 200 or more: the correction is for such labels only.
    """

    query_ids: Sequence[str]
    relevant: Sequence[bool]

    def __post_init__(self) -> None:
        query_ids = need_ids(self.query_ids, "query_ids")
        set_fields(self, query_ids=query_ids, relevant=need_column(self.relevant, "relevant"))


@dataclass(frozen=True, slots=True, repr=False)
class CorrectedEstimate(View):
    """A mean with the judge's error carried into it (prediction-powered inference, PPI++).

    `corrected` is None with fewer than two labelled queries. `naive` is the mean of the machine's
    values, `labels_only` that of the human ones. `power` says how much the machine's values were
    trusted, from 0 to 1.
    """

    corrected: Estimate | None
    naive: Estimate | None
    labels_only: Estimate | None
    n_labelled: int
    n: int
    power: float
    warnings: Sequence[str] = ()
