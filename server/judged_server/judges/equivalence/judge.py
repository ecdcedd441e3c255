"""The judge `answer_equivalence`: whether an answer says the same as one of the expected ones.

The expected texts of a group are alternatives, and a retrieved text is the answer. The judge
compares the answer with all alternatives at once; all contexts of the answer get the same score.

The model averages the logits of a logistic regression and of boosted trees over the same features.
Its arrays are in one file, made by `python -m benchmarks.equivalence.train`. Sums run in a fixed
order, or over integers, so that an item's score is the same to the last bit in every batch.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from importlib.resources import files

import numpy as np
from judged.values.choices import Flag, Status
from judged.values.judges import JudgeIdentity
from numpy.typing import NDArray

from judged_server.domain import (
    UNREAD_SHARE,
    Float32Array,
    FloatArray,
    Group,
    IntArray,
    JudgeSpec,
    ScoreColumns,
    VerdictFault,
    plain_form,
    unread_share,
)
from judged_server.embedding.base import UNSUPPORTED_TEXT
from judged_server.judges.base import (
    SLICE_COST,
    JudgeKind,
    Missing,
    Profile,
    PureJudge,
    with_missing,
)
from judged_server.judges.equivalence.features import VERSION as FEATURES
from judged_server.judges.equivalence.features import features
from judged_server.judges.equivalence.words import MAX_CHARACTERS, MAX_WORDS, contradicted
from judged_server.statistics.calibration.reliability import Platt, sigmoid

LEAF_UNIT = 2.0**-40
"""Leaves are integers in this unit of logits."""

_CLIP = 5.0


@dataclass(frozen=True, slots=True)
class Model:
    """The arrays of the model.

    `names` (str[f]) are the features in order. The logistic model clips `(x - center) / scale`
    (float64[f]) to [-5, 5]. In the trees, `split` (int64[t, 7]) is the feature that each node
    tests, `threshold` (float64[t, 7]) the largest value that goes left, and `leaf` (int64[t, 8])
    the value added, in LEAF_UNIT. Node 0 is the root; nodes 2i + 1 and 2i + 2 are children of
    node i. `calibration` is (slope, intercept) from logits to calibrated logits.
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
        """Return the logits of the trees for features float32[f, n]."""
        right = columns[self.split.T] > self.threshold.T[:, :, None]  # node, tree, item
        node = np.where(right[0], right[2], right[1])
        low = np.where(node, right[4], right[3])
        high = np.where(node, right[6], right[5])
        last = np.where(right[0], high, low)
        leaf = right[0] * 4 + node * 2 + last.astype(np.int64)
        sums: FloatArray = self.leaf[np.arange(len(self.leaf))[:, None], leaf].sum(axis=0)
        return float(self.base[0]) + sums * LEAF_UNIT

    def calibrated(self, logits: FloatArray) -> FloatArray:
        """Return the probability that an item with this logit is right: float64[n]."""
        slope, intercept = self.calibration.tolist()
        return sigmoid(slope * logits + intercept)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Model:
        """Return the model in a file. Raises ValueError or KeyError if it is not a model."""
        with np.load(io.BytesIO(raw), allow_pickle=False) as arrays:
            return cls(**{field.name: arrays[field.name] for field in fields(cls)})


@lru_cache(maxsize=1)
def shipped() -> tuple[Model, str]:
    """Return the model that comes with the server, and the SHA-256 of its file in hex."""
    raw = files(__package__).joinpath("model.npz").read_bytes()
    return Model.from_bytes(raw), hashlib.sha256(raw).hexdigest()


VERSION = 3
MIN_SCORE = 0.5
CONTRADICTED = -2.0
"""The highest logit, a score of .12, of an answer that contradicts an expected text: such answers
are too rare in the training data for the model to learn it."""

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_LETTER = re.compile(r"[^\W\d_]")
_TOO_LONG = (
    f"answer_equivalence was made for short answers, up to {MAX_WORDS} words: shorten the text, or "
    "use another judge, llm for instance"
)
_FOREIGN = (
    "answer_equivalence was made for English and the text has no Latin letter, only others or "
    "pictures: use another judge, semantic with a model of many languages or llm for instance"
)


@dataclass(frozen=True)
class EquivalenceJudge(PureJudge):
    """Scores how likely an answer is right, given all alternatives."""

    identity: JudgeIdentity
    model: Model

    slice_cost = SLICE_COST // 16  # it is 16 times as slow as token_overlap

    def score(self, groups: Sequence[Group]) -> ScoreColumns:
        """Return a score and a probability for each context, equal for all of an answer.

        An item is ABSTAINED if its answer, its query or all its alternatives are too long or not
        English. It is NOT_ASSESSABLE if the answer or all expected texts are empty.
        """
        items = items_of(groups)
        judged = [place for place, item in enumerate(items) if item.fault is None]
        scores = np.zeros(len(items))
        probabilities = np.zeros(len(items))
        if judged:
            chosen = [items[place] for place in judged]
            logits = self.model.logits(features_of(chosen))
            turned = [contradicted(item.alternatives, item.answer) for item in chosen]
            logits[turned] = np.minimum(logits[turned], CONTRADICTED)
            scores[judged] = sigmoid(logits)
            probabilities[judged] = self.model.calibrated(logits)
        return _columns(items, scores, probabilities)


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """An answer, with the query and the alternatives of its group.

    `fault` says why it can't be judged; `in_part` is true if much of a text is not read.
    """

    query: str
    answer: str
    alternatives: Sequence[str]
    n_contexts: int
    fault: Missing | None
    in_part: bool


def items_of(groups: Sequence[Group]) -> list[JudgedAnswer]:
    """Return the answers of groups, in order."""
    misfit, in_part = cache(_misfit), cache(_read_in_part)
    items = []
    for group in groups:
        # Sorted, so that the order sent does not matter if two fit equally well.
        texts = sorted({text for text in group.expected if text.strip()})
        alternatives = [text for text in texts if not misfit(text)]
        fault = None
        if not texts:
            message = "all expected texts are empty: give the item one at least"
            fault = _not_assessable("NO_CONTEXT", message)
        elif unfit := misfit(group.query) or ("" if alternatives else misfit(texts[0])):
            fault = _abstained(unfit)
        some = all(map(in_part, texts)) or in_part(group.query)
        for answer in group.retrieved if group.expected else ():
            own = fault
            if not answer.strip():
                own = _not_assessable(
                    "EMPTY_ANSWER", "the answer is empty: there is nothing to judge"
                )
            elif fault is None and (unfit := misfit(answer)):
                own = _abstained(unfit)
            n, part = len(group.expected), some or in_part(answer)
            items.append(JudgedAnswer(group.query, answer, alternatives, n, own, part))
    return items


def features_of(items: Sequence[JudgedAnswer]) -> dict[str, FloatArray]:
    """Return the features of items that can be judged, by name: float64[n] each."""
    rows = [features(item.query, item.answer, item.alternatives) for item in items]
    return {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}


def _abstained(misfit: str) -> Missing:
    return Status.ABSTAINED, VerdictFault(0, UNSUPPORTED_TEXT, misfit)


def _not_assessable(reason: str, message: str) -> Missing:
    return Status.NOT_ASSESSABLE, VerdictFault(0, reason, message)


def _columns(
    items: Sequence[JudgedAnswer], scores: FloatArray, probabilities: FloatArray
) -> ScoreColumns:
    """Return the results of items as columns of contexts."""
    sizes = [item.n_contexts for item in items]
    flags = [Flag.UNKNOWN_TOKENS * (item.in_part and item.fault is None) for item in items]
    of_contexts = [item.fault for item in items for _ in range(item.n_contexts)]
    return with_missing(
        np.repeat(scores, sizes),
        {index: fault for index, fault in enumerate(of_contexts) if fault is not None},
        np.repeat(np.array(flags, np.uint8), sizes) if any(flags) else None,
        np.repeat(probabilities, sizes),
    )


def _misfit(text: str) -> str:
    if len(text) > MAX_CHARACTERS or (len(text) > MAX_WORDS and len(text.split()) > MAX_WORDS):
        return _TOO_LONG
    text = plain_form(text)
    if text.isascii() or _LATIN.search(text) is not None:
        return ""
    return _FOREIGN if _LETTER.search(text) is not None or unread_share(text) == 1 else ""


def _read_in_part(text: str) -> bool:
    """Return whether more than UNREAD_SHARE of a text is pictures or non-Latin letters."""
    return not text.isascii() and unread_share(_LATIN.sub("a", plain_form(text))) > UNREAD_SHARE


def shipped_calibration(kind: str, scoring_key: str) -> Platt | None:
    """Return the calibration that is shipped with this judge; None for any other judge."""
    if kind != EquivalenceKind.kind:
        return None
    judge = EquivalenceKind().build(JudgeSpec(kind))
    if scoring_key != judge.identity.scoring_key:
        return None
    slope, intercept = judge.model.calibration.tolist()
    return Platt(slope, intercept)


class EquivalenceKind(JudgeKind):
    """Builds `answer_equivalence` judges."""

    kind = "answer_equivalence"
    profiles = (
        Profile(
            "",
            "Whether a short English answer says the same as one of the expected ones; all "
            "expected texts of a group are alternatives and seen at once.",
            MIN_SCORE,
        ),
    )

    def build(self, spec: JudgeSpec) -> EquivalenceJudge:
        """Return the judge for a spec. Raises ValueError if the model is for other features."""
        model, sha256 = shipped()
        if model.version.tolist() != [FEATURES]:
            raise ValueError("model.npz is for other features: run benchmarks.equivalence.train")
        threshold = MIN_SCORE if spec.min_score is None else spec.min_score
        identity = JudgeIdentity.build(
            self.kind,
            "",
            threshold,
            [("model", sha256[:8]), ("features", str(FEATURES))],
            VERSION,
            [("model_sha256", sha256)],
        )
        return EquivalenceJudge(identity, model)
