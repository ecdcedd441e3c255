"""The judge `answer_equivalence`: whether an answer says the same as one of the expected ones.

The expected texts of a group are alternatives. The judge sees all of them at once and gives a
retrieved text, the answer, one score, which all contexts of the answer have.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from judged_server.domain import (
    BoolArray,
    Flag,
    FloatArray,
    JudgeIdentity,
    JudgeSpec,
    QueryGroup,
    ScoreColumns,
    Status,
    VerdictFault,
)
from judged_server.domain.text_form import UNREAD_SHARE, plain_form, unread_share
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
        batch = Batch(groups)
        scores = np.zeros(batch.n_items)
        probabilities = np.zeros(batch.n_items)
        if batch.judged.any():
            logits = self.model.logits(feature_columns.features(*batch.read()))
            turned = batch.contradicted()
            logits[turned] = np.minimum(logits[turned], CONTRADICTED)
            scores[batch.judged] = sigmoid(logits)
            probabilities[batch.judged] = self.model.calibrated(logits)
        return batch.columns(scores, probabilities)


class Batch:
    """The items of a call: an answer each, with the query and the alternatives of its group."""

    def __init__(self, groups: Sequence[QueryGroup]) -> None:
        self._numbers: dict[str, int] = {}
        self._unfit: dict[str, str] = {}
        self.n_contexts = [len(g.expected) for g in groups for _ in g.retrieved if g.expected]
        self.n_items = len(self.n_contexts)
        self.judged: BoolArray = np.zeros(self.n_items, np.bool_)
        self._in_part: BoolArray = np.zeros(self.n_items, np.bool_)
        self._faults: dict[int, tuple[Status, str, int, str]] = {}
        self._queries: list[int] = []
        self._answers: list[int] = []
        self._pair_item: list[int] = []
        self._pair_text: list[int] = []
        item = 0
        for group in groups:
            if not group.expected:
                continue
            # In one order, so that theirs does not matter where two fit equally well.
            texts = sorted({text for text in group.expected if text.strip()})
            alternatives = [self._number(text) for text in texts if not self._misfit(text)]
            of_group = self._of_group(group.query, texts, alternatives)
            in_part = all(map(_read_in_part, texts)) or _read_in_part(group.query)
            for answer in group.retrieved:
                self._add(item, group.query, answer, alternatives, of_group)
                self._in_part[item] = in_part or _read_in_part(answer)
                item += 1

    def _number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def _misfit(self, text: str) -> str:
        """Return why the judge was not made for a text, "" if it was."""
        if (known := self._unfit.get(text)) is None:
            known = self._unfit[text] = _misfit(text)
        return known

    def _of_group(
        self, query: str, texts: Sequence[str], alternatives: Sequence[int]
    ) -> tuple[Status, str, int, str] | None:
        """Return why no answer of a group can be judged, if so."""
        if not texts:
            message = "all expected texts are empty: give the item one at least"
            return Status.NOT_ASSESSABLE, "NO_CONTEXT", _INVALID_ARGUMENT, message
        misfit = self._misfit(query) or ("" if alternatives else self._misfit(texts[0]))
        return (Status.ABSTAINED, "UNSUPPORTED_TEXT", _UNKNOWN, misfit) if misfit else None

    def _add(
        self,
        item: int,
        query: str,
        answer: str,
        alternatives: Sequence[int],
        fault: tuple[Status, str, int, str] | None,
    ) -> None:
        if not answer.strip():
            message = "the answer is empty: there is nothing to judge"
            fault = (Status.NOT_ASSESSABLE, "EMPTY_ANSWER", _INVALID_ARGUMENT, message)
        elif fault is None and (misfit := self._misfit(answer)):
            fault = (Status.ABSTAINED, "UNSUPPORTED_TEXT", _UNKNOWN, misfit)
        if fault is not None:
            self._faults[item] = fault
            return
        self.judged[item] = True
        row = len(self._queries)
        self._queries.append(self._number(query))
        self._answers.append(self._number(answer))
        self._pair_item += [row] * len(alternatives)
        self._pair_text += alternatives

    def read(self) -> tuple[Reading, Items]:
        """Return the texts of the items that can be judged, each read once."""
        columns = (self._queries, self._answers, self._pair_item, self._pair_text)
        return Reading.of(list(self._numbers)), Items(*(np.array(c, np.int64) for c in columns))

    def contradicted(self) -> list[int]:
        """Return the rows of `read` whose answers turn around what was expected."""
        texts = list(self._numbers)
        alternatives: list[list[str]] = [[] for _ in self._answers]
        for row, text in zip(self._pair_item, self._pair_text, strict=True):
            alternatives[row].append(texts[text])
        return [
            row
            for row, answer in enumerate(self._answers)
            if contradicted(alternatives[row], texts[answer])
        ]

    def columns(self, scores: FloatArray, probabilities: FloatArray) -> ScoreColumns:
        """Return what is known of items as columns of contexts."""
        statuses = None
        flags = np.where(self._in_part & self.judged, Flag.UNKNOWN_TOKENS, 0).astype(np.uint8)
        faults: list[VerdictFault] = []
        if self._faults:
            of_items = np.full(self.n_items, Status.OK, np.uint8)
            starts = np.cumsum([0, *self.n_contexts]).tolist()
            for item, (status, reason, code, message) in self._faults.items():
                of_items[item] = status
                contexts = range(starts[item], starts[item + 1])
                faults += [VerdictFault(index, code, reason, message) for index in contexts]
            statuses = np.repeat(of_items, self.n_contexts)
        return ScoreColumns(
            np.repeat(scores, self.n_contexts),
            statuses,
            np.repeat(flags, self.n_contexts) if flags.any() else None,
            tuple(faults),
            probabilities=np.repeat(probabilities, self.n_contexts),
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
