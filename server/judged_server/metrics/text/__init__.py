"""Texts against references: BLEU, ROUGE, token F1 and exact match, as pure functions of texts.

The way down: `metrics` reads the names and goes over the items; `tokens` makes each text into
tokens of a form; `formulas` counts what both sides have. Long work calls `checkpoint`.
"""
