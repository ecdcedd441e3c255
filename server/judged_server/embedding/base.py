"""Types of embedding models: the model card, vectors of texts, and reasons for faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judged_server.domain import ByteArray, Float32Array

TRUNCATE = "truncate"
"""Embed the first window and flag the text TRUNCATED."""
REJECT = "reject"
"""Give the text a fault, TEXT_TOO_LONG."""
WINDOW_MAX = "window_max"
"""Embed every window and flag the text WINDOWED; the best cosine of two texts' windows counts."""

LONG_TEXT_POLICIES = (TRUNCATE, REJECT, WINDOW_MAX)

TEXT_TOO_LONG = "TEXT_TOO_LONG"
EMBEDDING_FAILED = "EMBEDDING_FAILED"
UNSUPPORTED_TEXT = "UNSUPPORTED_TEXT"
"""The model knows no word of the text: an abstention, not an error."""
OVERLOADED = "OVERLOADED"
"""Out of memory; the text may be sent again."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """The description of an embedding model; all of it is part of a semantic judge's scoring key.

    `prefix` is put before every text, as some models were trained.
    """

    name: str
    dimensions: int
    max_tokens: int
    model_sha256: str
    tokenizer_sha256: str
    pooling: str
    normalize: bool
    precision: str
    execution_provider: str
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class Embedded:
    """Vectors of distinct texts.

    `vectors` is float32 (rows, dimensions), unit length or zero. Text i owns the rows
    `row_offsets[i]:row_offsets[i + 1]`: one, or one per window. `flags` is uint8 of Flag, one
    per text. `faults` maps a text's index to (reason, message) if it has no vector.
    """

    vectors: Float32Array
    row_offsets: Sequence[int]
    flags: ByteArray
    faults: Mapping[int, tuple[str, str]]
