"""What a judge is worth, and how to use it: thresholds, cascade bounds, its error carried along.

The way down: `calibrate` checks what came in and puts the answer together from `thresholds`,
`cascade`, `reliability`, `statistics.quality` and `statistics.prediction_powered`; `frontier`
proposes cascades of several judges.
"""
