"""Texts against references: BLEU, ROUGE, token F1 and exact match, as pure functions of texts.

The way down: `registry` reads the names; `compute` goes over the items; `tokens` makes each text
into tokens of a form (with `tokenizer_13a` and `porter_stemmer`); `bleu`, `rouge` and
`squad` hold the formulas over the counts of `ngrams` and `lcs`. Long
work calls `checkpoint`. The names below are what other layers use.
"""

from judged_server.metrics.text.compute import (
    TextColumn,
    TextItem,
    measure_texts,
    merge_text_values,
)
from judged_server.metrics.text.declaration import TextMetric
from judged_server.metrics.text.registry import TEXT_METRICS, parse_text_metrics

__all__ = [
    "TEXT_METRICS",
    "TextColumn",
    "TextItem",
    "TextMetric",
    "measure_texts",
    "merge_text_values",
    "parse_text_metrics",
]
