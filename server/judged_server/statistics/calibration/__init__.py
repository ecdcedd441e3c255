"""What a judge is worth, and how to use it: thresholds, cascade bounds, its error carried along.

The way down: `items` checks what came in; `calibrate` puts the answer together from `thresholds`,
`cascade`, `agreement.quality` and `statistics.prediction_powered`. For several judges
`staged_items` checks, and `frontier` tests the cascades that `proposals` makes. The names below are
what other layers use.
"""

from judged_server.statistics.calibration.calibrate import (
    Calibration,
    CalibrationOptions,
    calibrate,
)
from judged_server.statistics.calibration.cascade import CascadeBounds, Guarantee
from judged_server.statistics.calibration.frontier import (
    Frontier,
    FrontierOptions,
    FrontierPoint,
    frontier,
)
from judged_server.statistics.calibration.items import ScoredItems
from judged_server.statistics.calibration.proposals import FrontierStage
from judged_server.statistics.calibration.reliability import Platt, Reliability
from judged_server.statistics.calibration.staged_items import ScoredStage, StagedItems
from judged_server.statistics.calibration.thresholds import Criterion, Threshold

__all__ = [
    "Calibration",
    "CalibrationOptions",
    "CascadeBounds",
    "Criterion",
    "Frontier",
    "FrontierOptions",
    "FrontierPoint",
    "FrontierStage",
    "Guarantee",
    "Platt",
    "Reliability",
    "ScoredItems",
    "ScoredStage",
    "StagedItems",
    "Threshold",
    "calibrate",
    "frontier",
]
