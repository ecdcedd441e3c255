"""Calibration of judges: quality, thresholds, cascade bounds, probabilities, corrected means.

`calibrate` builds the answer from `cascade`, `reliability`, `statistics.quality` and
`statistics.prediction_powered`; `frontier` proposes cascades of several judges.
"""
