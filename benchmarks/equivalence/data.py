"""Loads the development data: items of three files, with questions numbered across them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from judged_server.domain import BoolArray, FloatArray, Group, IntArray

FOLDER = Path(__file__).parent / "data"
FILES = ("nq301_human", "evouna_nq", "evouna_tq")


@dataclass(frozen=True)
class Items:
    """Items as groups of one answer, with the label, the file and the question number of each.

    `files` are indices into FILES. Questions that differ only in case and punctuation have the
    same number. `fields` are the parsed lines.
    """

    groups: tuple[Group, ...]
    labels: BoolArray
    files: IntArray
    questions: IntArray
    fields: tuple[dict[str, Any], ...]

    def folds(self, n_folds: int, seed: int) -> IntArray:
        """Return each item's fold; all items of a question are in the same random fold."""
        n_questions = int(self.questions.max()) + 1
        dealt = np.random.default_rng(seed).permutation(n_questions) % n_folds
        return dealt[self.questions]


def load() -> Items:
    """Return the items of all files."""
    fields, files = [], []
    for number, name in enumerate(FILES):
        with (FOLDER / f"{name}.jsonl").open() as lines:
            read = [json.loads(line) for line in lines]
        fields += read
        files += [number] * len(read)
    known: dict[str, int] = {}
    plain = [re.sub(r"[\W_]+", " ", item["query"].lower()).strip() for item in fields]
    return Items(
        tuple(
            Group(
                item["id"], item["query"], item["expected_alternatives"], [item["retrieved_text"]]
            )
            for item in fields
        ),
        np.array([item["label"] for item in fields], np.bool_),
        np.array(files, np.int64),
        np.array([known.setdefault(query, len(known)) for query in plain], np.int64),
        tuple(fields),
    )


def kappa(verdicts: BoolArray, labels: BoolArray) -> float:
    """Return Cohen's kappa."""
    observed = float(np.mean(verdicts == labels))
    p, q = float(verdicts.mean()), float(labels.mean())
    expected = p * q + (1 - p) * (1 - q)
    return (observed - expected) / (1 - expected)


def calibration_error(probabilities: FloatArray, labels: BoolArray, n_bins: int = 10) -> float:
    """Return the expected calibration error over bins of equal width (Naeini et al. 2015)."""
    bins = np.minimum((probabilities * n_bins).astype(np.int64), n_bins - 1)
    gaps = np.bincount(bins, probabilities - labels, n_bins)
    return float(np.abs(gaps).sum() / len(labels))
