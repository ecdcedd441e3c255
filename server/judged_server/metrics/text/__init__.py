"""Texts against references: BLEU, ROUGE, token F1 and exact match, as pure functions of texts.

The way down: `registry` reads the names; `compute` goes over the items; `tokens` makes each text
into tokens of a form (with `tokenizer_13a` and `porter_stemmer`); `bleu`, `rouge` and `squad` hold
the formulas over the counts of `ngrams`. Long work calls `checkpoint`.
"""
