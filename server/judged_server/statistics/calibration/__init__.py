"""What a judge is worth, and how to use it: thresholds, cascade bounds, its error carried along.

The way down: `items` checks what came in; `calibrate` puts the answer together from `thresholds`,
`cascade`, `agreement.quality` and `statistics.prediction_powered`. The names below are what other
layers use.
"""

from judged_server.statistics.calibration.calibrate import (
    Calibration,
    CalibrationOptions,
    calibrate,
)
from judged_server.statistics.calibration.cascade import CascadeBounds
from judged_server.statistics.calibration.items import ScoredItems
from judged_server.statistics.calibration.thresholds import Criterion, Threshold

__all__ = [
    "Calibration",
    "CalibrationOptions",
    "CascadeBounds",
    "Criterion",
    "ScoredItems",
    "Threshold",
    "calibrate",
]
