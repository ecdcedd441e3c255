"""How far raters agree, how far judges rank alike, and how well a judge follows people.

The way down: `measure` answers a table of ratings from `ratings` by way of `kappa` and
`krippendorff`; `rank_correlation` answers two rankings of systems; `quality` holds a judge's scores
against labels. Their intervals come from `resampling`.
"""
