"""The model: a logistic one and boosted trees over the same features, their logits averaged.

It is plain arrays in one file, made by `python -m benchmarks.equivalence.train`. Whatever a sum
runs over, it runs in the same order, or over whole numbers: the score of an item is the same to the
last bit whichever items stand beside it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from judged_server.domain import Float32Array, FloatArray, IntArray

DEPTH = 3
"""Levels of every tree: node 0 is the root, nodes 2i + 1 and 2i + 2 follow node i."""

LEAF_UNIT = 2.0**-40
"""Leaves are whole numbers of this unit of logits."""

_CLIP = 5.0
_BLOCK = 256
"""Items that pass through the trees together: what they compare stays in a core's cache."""


@dataclass(frozen=True, slots=True)
class Model:
    """The arrays of the model.

    `names` (str[f]) are the features in order. The logistic model clips `(x - center) / scale`
    (float64[f]) to five on either side. Of the trees, `split` (int64[t, 7]) says which feature each
    node looks at, `threshold` (float64[t, 7]) up to where a value goes left, and `leaf` (int64[t,
    8]) what is added, in LEAF_UNIT. `calibration` is (slope, intercept) from logits to calibrated
    logits.
    """

    names: NDArray[np.str_]
    center: FloatArray
    scale: FloatArray
    weights: FloatArray
    intercept: FloatArray
    split: IntArray
    threshold: FloatArray
    leaf: IntArray
    base: FloatArray
    calibration: FloatArray
    version: IntArray

    def logits(self, features: Mapping[str, FloatArray]) -> FloatArray:
        """Return the logit of each item: float64[n]. Raises KeyError for a missing feature."""
        columns = [features[name] for name in self.names.tolist()]
        linear = np.full(len(columns[0]), float(self.intercept[0]))
        for j, column in enumerate(columns):
            standard = (column - self.center[j]) / self.scale[j]
            linear += self.weights[j] * np.clip(standard, -_CLIP, _CLIP)
        both: FloatArray = linear + self._trees(np.array(columns, np.float32))
        return np.asarray(both / 2, np.float64)

    def _trees(self, columns: Float32Array) -> FloatArray:
        """Return what the trees say of features float32[f, n]."""
        sums = np.empty(columns.shape[1], np.int64)
        trees = np.arange(len(self.leaf))[:, None]
        for begin in range(0, columns.shape[1], _BLOCK):
            block = columns[:, begin : begin + _BLOCK]
            right = block[self.split.T] > self.threshold.T[:, :, None]  # node, tree, item
            node = np.where(right[0], right[2], right[1])
            low = np.where(node, right[4], right[3])
            high = np.where(node, right[6], right[5])
            last = np.where(right[0], high, low)
            leaf = right[0] * 4 + node * 2 + last.astype(np.int64)
            sums[begin : begin + _BLOCK] = self.leaf[trees, leaf].sum(axis=0)
        return float(self.base[0]) + sums.astype(np.float64) * LEAF_UNIT

    def calibrated(self, logits: FloatArray) -> FloatArray:
        """Return the probability that an item with this logit is right: float64[n]."""
        slope, intercept = self.calibration.tolist()
        return sigmoid(slope * logits + intercept)

    def to_bytes(self) -> bytes:
        """Return the file of the model: a NumPy archive, the same bytes for the same arrays."""
        file = io.BytesIO()
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        np.savez_compressed(file, **arrays)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Model:
        """Return the model of a file. Raises ValueError or KeyError for one that is none."""
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            return cls(**{field.name: arrays[field.name] for field in fields(cls)})


def sigmoid(logits: FloatArray) -> FloatArray:
    """Return 1 / (1 + exp(-logits)) to nine digits, which hide how a processor rounds exp."""
    return np.round(1 / (1 + np.exp(-np.clip(logits, -30, 30))), 9)


@lru_cache(maxsize=1)
def shipped() -> tuple[Model, str]:
    """Return the model that comes with the server, and the SHA-256 of its file in hex."""
    raw = files(__package__).joinpath("model.npz").read_bytes()
    return Model.from_bytes(raw), hashlib.sha256(raw).hexdigest()
