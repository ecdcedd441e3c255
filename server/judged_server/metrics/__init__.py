"""Metrics from relevance: pure functions over arrays, without clock, randomness or I/O.

`measures` parses the metrics requested; `matching` (verdicts) and `input.rankings` (gains, or qrels
and a run) build rankings; `measures` computes metrics of them; `compute` builds the table.
"""
