"""What a judge is worth, and how to use it: thresholds, cascade bounds, its error carried along.

The way down: `items` checks what came in; `calibrate` puts the answer together from `thresholds`,
`cascade`, `agreement.quality` and `statistics.prediction_powered`. For several judges
`staged_items` checks, and `frontier` tests the cascades that `proposals` makes.
"""
