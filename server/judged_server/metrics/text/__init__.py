"""Compares texts with references: BLEU, ROUGE, token F1 and exact match, as pure functions.

`metrics` parses the names and measures the items; `formulas` splits texts into tokens and counts
the tokens that both sides have. Long work calls `checkpoint`.
"""
