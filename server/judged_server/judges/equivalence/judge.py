"""The judge `answer_equivalence`: whether an answer says the same as one of the expected ones.

The expected texts of a group are alternatives. The judge sees all of them at once and gives a
retrieved text, the answer, one score, which all contexts of the answer have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from judged.values.choices import Flag, Status

from judged_server.domain import (
    FloatArray,
    IntArray,
    JudgeIdentity,
    JudgeSpec,
    QueryGroup,
    ScoreColumns,
    VerdictFault,
)
from judged_server.domain.text_form import UNREAD_SHARE, plain_form, unread_share
from judged_server.embedding.base import UNSUPPORTED_TEXT
from judged_server.judges.base import (
    ANONYMOUS,
    SLICE_COST,
    Caller,
    Profile,
    PureJudge,
    score_in_slices,
)
from judged_server.judges.equivalence import features as feature_columns
from judged_server.judges.equivalence.contradictions import contradicted
from judged_server.judges.equivalence.model import Model, shipped, sigmoid
from judged_server.judges.equivalence.rows import Items
from judged_server.judges.equivalence.words import MAX_CHARACTERS, MAX_WORDS, Reading
from judged_server.statistics.calibration.reliability import Platt

VERSION = 2
MIN_SCORE = 0.5
SLICE_FACTOR = 4
"""How many times more than that of token_overlap the work on a character is."""

CONTRADICTED = -2.0
"""The highest logit, a score of .12, of an answer that turns around what was expected: such answers
are too rare among the labelled ones for the model to learn it."""

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_LETTER = re.compile(r"[^\W\d_]")
_INVALID_ARGUMENT = 3
_UNKNOWN = 2
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
    """Scores how likely an answer is right, given all that would be."""

    identity: JudgeIdentity
    model: Model

    async def judge(
        self,
        groups: Sequence[QueryGroup],
        caller: Caller = ANONYMOUS,
    ) -> ScoreColumns:
        """Return the scores, computed in slices off the event loop where there are many."""
        return await score_in_slices(
            self.score, groups, SLICE_COST // SLICE_FACTOR, caller.deadline
        )

    def score(self, groups: Sequence[QueryGroup]) -> ScoreColumns:
        """Return a score and a probability for each context, equal for all of an answer.

        Answers, or queries, that the judge was not made for are ABSTAINED, and so are items none of
        whose alternatives it was made for; empty answers are NOT_ASSESSABLE.
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

    `fault` says why it can't be judged; `in_part` that a good part of a text is not read.
    """

    query: str
    answer: str
    alternatives: Sequence[str]
    n_contexts: int
    fault: tuple[Status, VerdictFault] | None
    in_part: bool


def items_of(groups: Sequence[QueryGroup]) -> list[JudgedAnswer]:
    """Return the answers of groups, in order."""
    misfit, in_part = cache(_misfit), cache(_read_in_part)
    items = []
    for group in groups:
        # In one order, so that theirs does not matter where two fit equally well.
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
    """Return the features of items, each of which can be judged; every text is read once."""
    numbers: dict[str, int] = {}

    def numbered(texts: Iterable[str]) -> IntArray:
        return np.array([numbers.setdefault(text, len(numbers)) for text in texts], np.int64)

    rows = Items(
        numbered(item.query for item in items),
        numbered(item.answer for item in items),
        np.repeat(np.arange(len(items)), [len(item.alternatives) for item in items]),
        numbered(text for item in items for text in item.alternatives),
    )
    return feature_columns.features(Reading.of(list(numbers)), rows)


def _abstained(misfit: str) -> tuple[Status, VerdictFault]:
    return Status.ABSTAINED, VerdictFault(0, _UNKNOWN, UNSUPPORTED_TEXT, misfit)


def _not_assessable(reason: str, message: str) -> tuple[Status, VerdictFault]:
    return Status.NOT_ASSESSABLE, VerdictFault(0, _INVALID_ARGUMENT, reason, message)


def _columns(
    items: Sequence[JudgedAnswer], scores: FloatArray, probabilities: FloatArray
) -> ScoreColumns:
    """Return what is known of items as columns of contexts."""
    sizes = [item.n_contexts for item in items]
    statuses = [Status.OK if item.fault is None else item.fault[0] for item in items]
    flags = [Flag.UNKNOWN_TOKENS * (item.in_part and item.fault is None) for item in items]
    of_contexts = [item.fault for item in items for _ in range(item.n_contexts)]
    faults = [replace(f[1], index=i) for i, f in enumerate(of_contexts) if f is not None]
    return ScoreColumns(
        np.repeat(scores, sizes),
        np.repeat(np.array(statuses, np.uint8), sizes) if faults else None,
        np.repeat(np.array(flags, np.uint8), sizes) if any(flags) else None,
        tuple(faults),
        probabilities=np.repeat(probabilities, sizes),
    )


def _misfit(text: str) -> str:
    if len(text) > MAX_CHARACTERS or (len(text) > MAX_WORDS and len(text.split()) > MAX_WORDS):
        return _TOO_LONG
    text = plain_form(text)
    if text.isascii() or _LATIN.search(text) is not None:
        return ""
    return _FOREIGN if _LETTER.search(text) is not None or unread_share(text) == 1 else ""


def _read_in_part(text: str) -> bool:
    """Tell whether a good part of a text is pictures, or letters that are not Latin."""
    return not text.isascii() and unread_share(_LATIN.sub("a", plain_form(text))) > UNREAD_SHARE


def shipped_calibration(kind: str, scoring_key: str) -> Platt | None:
    """Return the calibration that comes with a judge, None for others than this one."""
    if kind != EquivalenceKind.kind:
        return None
    judge = EquivalenceKind().build(JudgeSpec(kind))
    if scoring_key != judge.identity.scoring_key:
        return None
    slope, intercept = judge.model.calibration.tolist()
    return Platt(slope, intercept)


class EquivalenceKind:
    """Builds `answer_equivalence` judges."""

    kind = "answer_equivalence"
    profiles: tuple[Profile, ...] = (
        Profile(
            "",
            "Whether a short English answer says the same as one of the expected ones; all "
            "expected texts of a group are alternatives and seen at once.",
            MIN_SCORE,
        ),
    )
    for_embeddings = None
    asks_models = False

    def build(self, spec: JudgeSpec) -> EquivalenceJudge:
        """Return the judge of a spec. Raises ValueError for a model of other features."""
        model, sha256 = shipped()
        if model.version.tolist() != [feature_columns.VERSION]:
            raise ValueError("model.npz is for other features: run benchmarks.equivalence.train")
        threshold = MIN_SCORE if spec.min_score is None else spec.min_score
        identity = JudgeIdentity.build(
            self.kind,
            "",
            threshold,
            [("model", sha256[:8]), ("features", str(feature_columns.VERSION))],
            VERSION,
            [("model_sha256", sha256)],
        )
        return EquivalenceJudge(identity, model)
