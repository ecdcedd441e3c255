"""BERT in float64, written from its definition, with the weights of the tiny model."""

from __future__ import annotations

import math

import numpy as np

from tests.fakes.models import tiny_model


def hidden_states(token_ids: np.ndarray, hidden_size: int = tiny_model.HIDDEN) -> np.ndarray:
    """Return the last hidden states of one sequence without padding, (tokens, hidden_size)."""
    weights = {k: v.astype(np.float64) for k, v in tiny_model.weights(hidden_size).items()}

    def linear(name: str, value: np.ndarray) -> np.ndarray:
        return value @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(name: str, value: np.ndarray) -> np.ndarray:
        centred = value - value.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        normed: np.ndarray = scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]
        return normed

    hidden = norm(
        "embeddings.LayerNorm",
        weights["embeddings.word_embeddings.weight"][token_ids]
        + weights["embeddings.position_embeddings.weight"][: len(token_ids)]
        + weights["embeddings.token_type_embeddings.weight"][0],
    )
    size = hidden_size // tiny_model.HEADS
    for layer in (f"encoder.layer.{index}" for index in range(tiny_model.LAYERS)):
        query, key, value = (
            linear(f"{layer}.attention.self.{part}", hidden) for part in ("query", "key", "value")
        )
        mixed = np.zeros_like(hidden)
        for head in range(tiny_model.HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, part] = shares / shares.sum(-1, keepdims=True) @ value[:, part]
        attended = linear(f"{layer}.attention.output.dense", mixed)
        hidden = norm(f"{layer}.attention.output.LayerNorm", attended + hidden)
        raised = linear(f"{layer}.intermediate.dense", hidden)
        raised *= (1 + np.vectorize(math.erf)(raised / math.sqrt(2))) / 2
        hidden = norm(f"{layer}.output.LayerNorm", linear(f"{layer}.output.dense", raised) + hidden)
    return hidden
