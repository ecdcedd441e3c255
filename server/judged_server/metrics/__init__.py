"""Relevance in, metrics out: pure functions over arrays, without clock, chance or input/output.

The way down: `measures.names` reads what was asked for; `matching` (verdicts), `input.trec` (qrels
and a run) and `input.rankings` (gains) make rankings; `measures.formulas` measures them; `compute`
puts the table together.
"""
