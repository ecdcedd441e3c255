"""Relevance in, metrics out: pure functions over arrays, without clock, chance or input/output.

The way down: `measures` reads what was asked for; `matching` (verdicts) and `input.rankings`
(gains, or qrels and a run) make rankings; `measures` measures them; `compute` puts the
table together.
"""
