"""How far raters agree, how far judges rank alike, and how well a judge follows people.

The way down: `measure` answers a table of ratings from `ratings` by way of `kappa` and
`krippendorff`; `rank_correlation` answers two rankings of systems; `quality` holds a judge's scores
against labels. Their intervals come from `resampling`. The names below are what other layers use.
"""

from judged_server.statistics.agreement.measure import (
    AGREEMENT_MEASURES,
    Agreement,
    measure_agreement,
)
from judged_server.statistics.agreement.quality import (
    QUALITY_MEASURES,
    JudgeQuality,
    LabelledScores,
    judge_quality,
)
from judged_server.statistics.agreement.rank_correlation import RankAgreement, rank_agreement
from judged_server.statistics.agreement.ratings import RatingLevel, Ratings
from judged_server.statistics.intervals import Estimate

__all__ = [
    "AGREEMENT_MEASURES",
    "QUALITY_MEASURES",
    "Agreement",
    "Estimate",
    "JudgeQuality",
    "LabelledScores",
    "RankAgreement",
    "RatingLevel",
    "Ratings",
    "judge_quality",
    "measure_agreement",
    "rank_agreement",
]
