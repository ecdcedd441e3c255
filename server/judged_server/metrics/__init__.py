"""Relevance in, metrics out: pure functions over arrays, without clock, chance or input/output.

The way down: `measures.names` reads what was asked for; `matching` (verdicts), `input.trec` (qrels
and a run) and `input.gains` make `rankings`; `measures` has the formulas; `compute` puts the table
together.
"""
