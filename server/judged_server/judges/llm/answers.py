"""The judge `answers`: a language model scores an answer by a rubric.

It also selects the texts of an item that a rubric shows.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from judged.values.calibrators import Calibrator
from judged.values.choices import Source, Status
from judged.values.groups import VerdictError
from judged.values.judges import JudgeIdentity
from judged.values.scores import AnswerItem, AnswerScore

from judged_server.domain import (
    TIE_TOLERANCE,
    Parameter,
    ParameterScalar,
    VerdictFault,
)
from judged_server.judges.base import Profile, check_fits
from judged_server.judges.llm.judge import (
    MODEL,
    TEMPERATURE,
    asked_rubric,
    samples_of,
)
from judged_server.judges.llm.scoring import (
    AskedRubric,
    Asking,
    SampleResult,
    Session,
    assessable,
    by_threshold,
    find_claims,
    most_asked,
    voted,
    weigh_dimensions,
)
from judged_server.llm.caller import ModelCaller
from judged_server.llm.chat import Reason
from judged_server.llm.models import ChatModels
from judged_server.llm.question import PlannedCall, holds_reserved
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, FieldValue, Rubric
from judged_server.statistics.calibration.reliability import Platt

KIND = "answers"
VERSION = 1


class AnswersKind:
    """Builds scorers over the language models of this server, None if it has none.

    `rubrics` has all rubrics by id, including those that do not read answers.
    """

    kind = KIND
    profile = Profile(
        "",
        "A language model scores answers by a rubric; for ScoreAnswers only.",
        0.0,  # the threshold is each rubric's own
        (
            MODEL,
            samples_of("score"),
            TEMPERATURE,
            Parameter("max_tokens", 1024, "The longest reply.", 1, 32768),
            Parameter(
                "max_context_tokens",
                8192,
                "The contexts of an item that are shown, together; a token counts 4 bytes.",
                1,
                1_000_000,
            ),
        ),
    )

    def __init__(
        self, models: ChatModels | None, rubrics: Mapping[str, Rubric], model_caller: ModelCaller
    ) -> None:
        self._models = models
        self.rubrics = rubrics
        self.model_caller = model_caller

    def build(
        self,
        rubric: Rubric,
        min_score: float,
        parameters: Mapping[str, ParameterScalar],
        weights: Mapping[str, float],
    ) -> AnswerScorer:
        """Return the scorer of a rubric; all parameters are set.

        Raises ModelNotConfigured if the model is unknown here.
        """
        asked = asked_rubric(self._models, rubric, parameters)
        return AnswerScorer(asked, min_score, weights, int(parameters["max_context_tokens"]))


class AnswerScorer:
    """Scores items by one rubric; `asked` has the rubric, the model and the sampling."""

    def __init__(
        self,
        asked: AskedRubric,
        min_score: float,
        weights: Mapping[str, float],
        max_context_tokens: int,
    ) -> None:
        self.asked = asked
        self._min_score = min_score
        self._weights = weights
        self._max_context_tokens = max_context_tokens
        self._calibrator: Calibrator | None = None
        rubric, parts = asked.rubric, asked.signature_parts()
        if "contexts" in rubric.fields:
            parts.append(("max_context_tokens", str(max_context_tokens)))
        if rubric.dimensions:
            # Normalized by their sum, so that equal proportions have the same key.
            shares = assessable(rubric, weights, has_contexts=True)
            printed = ",".join(f"{name}={share:.12g}" for name, share in shares.items())
            parts.append(("weights", printed))
        self.identity = JudgeIdentity.build(KIND, "", min_score, parts, VERSION, asked.key_parts())

    def calibrate(self, calibrator: Calibrator, field: str) -> None:
        """Add probabilities to scores. Raises InvalidField for a calibration of another judge."""
        check_fits(calibrator, self.identity, field)
        self._calibrator = calibrator
        self.identity = self.identity.calibrated(calibrator)

    def texts_of(self, item: AnswerItem) -> tuple[FieldValue, ...]:
        """Return the texts that can change the item's score: all that the rubric shows, uncut."""
        return tuple(value_of(name, item) for name in self.asked.rubric.fields)

    def planned_calls(self, item: AnswerItem) -> Iterator[PlannedCall]:
        """Yield all model calls that `score` may make for the item.

        The number of claims is not known before the text is read: the most allowed is assumed.
        """
        asked = self.asked
        rendered = self._rendered(item)
        if isinstance(rendered, VerdictFault):
            return
        times, step, fields = 1, asked.rubric, rendered.fields
        if step.form == "claims":
            (extraction, texts), (step, fields) = most_asked(step, fields, asked.max_tokens)
            yield PlannedCall(asked.model, asked.question(texts, 0, extraction))
            times = MAX_CLAIMS
        for number in range(asked.samples):
            question = asked.question(fields, number, step)
            yield PlannedCall(asked.model, question, times)

    async def score(self, item: AnswerItem, asking: Asking) -> AnswerScore:
        """Return the item's score, or why it is missing, by the caller's deadline.

        Cancelling it closes the calls in flight.
        """
        rendered = self._rendered(item)
        if isinstance(rendered, VerdictFault):
            return self.missing(item, rendered, Status.NOT_ASSESSABLE)
        session = Session(asking, self.asked)
        finding = await self._find(session, rendered)
        warnings = [*rendered.warnings, *finding.warnings]
        if named := ", ".join(session.fallbacks):
            warnings.append(f"answered by a fallback: {named}")
        if session.is_cut:
            warnings.append(
                "the provider counted fewer tokens than the texts have words, so the model read "
                "only part of them; raise its context length, or send shorter texts"
            )
        model, system_fingerprint = session.answered_by
        found = replace(
            self.missing(item, finding.fault, finding.status),
            reasoning=finding.reasoning,
            raw_replies=session.raw_replies() if asking.keep_replies else (),
            usage=session.usage,
            source=session.source,
            dimensions=finding.dimensions,
            reported_overall=finding.reported_overall,
            claims=finding.claims,
            warnings=tuple(warnings),
            model=model,
            system_fingerprint=system_fingerprint,
        )
        if finding.status is not Status.OK:
            return found
        probability, calibrator = None, self._calibrator
        if calibrator is not None:
            scores = Platt.of(calibrator).probabilities(np.array([finding.score]))
            probability = float(scores[0])
        return replace(
            found,
            score=finding.score,
            probability=probability,
            passed=finding.yes and finding.score + TIE_TOLERANCE >= self._min_score,
            agreement=finding.agreement,
        )

    def missing(
        self, item: AnswerItem, why: VerdictFault | None, status: Status = Status.ERROR
    ) -> AnswerScore:
        """Return the answer score of an item without a score, with the reason."""
        return AnswerScore(
            item.item_id,
            self.asked.rubric.id,
            status,
            min_score=self._min_score,
            usage=self.asked.nothing,
            samples=self.asked.samples,
            source=Source.COMPUTED,
            error=None if why is None else VerdictError(0, why.reason, why.message, why.retryable),
            judge=self.identity,
        )

    def _rendered(self, item: AnswerItem) -> RenderedText | VerdictFault:
        rubric, weights = self.asked.rubric, self._weights
        rendered = show(rubric, item, self._max_context_tokens)
        if isinstance(rendered, VerdictFault) or not rubric.dimensions:
            return rendered
        if assessable(rubric, weights, has_contexts=rendered.has_contexts):
            return rendered
        return VerdictFault(
            0,
            Reason.NO_CONTEXT,
            "the item brings no contexts, and no dimension without them has a weight",
        )

    async def _find(self, session: Session, rendered: RenderedText) -> SampleResult:
        rubric, fields, threshold = self.asked.rubric, rendered.fields, self._min_score
        if rubric.form == "claims":
            return await find_claims(session, rubric, fields, self.asked.samples)
        parsed_replies = await session.ask_samples(fields)
        if rubric.form == "dimensions":
            weights, has_contexts = self._weights, rendered.has_contexts
            return weigh_dimensions(
                parsed_replies, rubric, threshold, weights, has_contexts=has_contexts
            )
        if rubric.form in {"score", "grade"}:
            parsed_replies = by_threshold(parsed_replies, threshold, lambda parsed: parsed.score)
        return voted(parsed_replies)


BYTES_A_TOKEN = 4
"""Bytes in a typical English token, used to estimate the budget of contexts."""


@dataclass(frozen=True, slots=True)
class RenderedText:
    """The texts of one item by the names in `rubric.fields`, and warnings for the user.

    `has_contexts` is False if the item has no contexts, or only blank ones.
    """

    fields: Mapping[str, FieldValue]
    has_contexts: bool
    warnings: tuple[str, ...] = ()


def show(rubric: Rubric, item: AnswerItem, max_context_tokens: int) -> RenderedText | VerdictFault:
    """Return the texts to show, with contexts cut to the budget; or the fault if one is missing.

    Blank texts count as missing, and so does an answer of punctuation only: many models pass ":" as
    right (Zhao et al., One Token to Fool LLM-as-a-Judge, arXiv:2507.08794). A rubric with
    dimensions does not require contexts here.
    """
    fields = {name: value_of(name, item) for name in rubric.fields}
    if "answer" in fields and not any(map(_says_something, item.answer)):
        what = "nothing but punctuation" if item.answer.strip() else "no text"
        return VerdictFault(0, Reason.EMPTY_ANSWER, f"the answer holds {what}")
    has_contexts = any(text.strip() for text in item.contexts)
    optional = {"contexts"} if rubric.dimensions else set()
    for name, value in fields.items():
        texts = (value,) if isinstance(value, str) else value
        if name not in optional and not any(text.strip() for text in texts):
            return VerdictFault(
                0, Reason.NO_CONTEXT, f"the item brings no {name}, which {rubric.id} reads"
            )
    warnings = []
    if "contexts" in fields:
        kept = within(item.contexts, BYTES_A_TOKEN * max_context_tokens)
        if kept is not item.contexts:
            fields["contexts"] = kept
            is_cut = bool(kept) and kept[-1] != item.contexts[len(kept) - 1]
            warnings.append(
                f"the contexts were truncated to max_context_tokens ({max_context_tokens}): "
                f"{len(kept)} of {len(item.contexts)} were shown" + ", the last in part" * is_cut
            )
    if "reference" in fields and len(item.references) > 1:
        warnings.append(
            f"{rubric.id} reads one reference: the first of {len(item.references)} was shown"
        )
    suspicious = [
        name
        for name, value in fields.items()
        if any(map(holds_reserved, (value,) if isinstance(value, str) else value))
    ]
    if suspicious:
        warnings.append(
            "tokens of chat templates, or characters that only a model reads, stand in: "
            + ", ".join(suspicious)
        )
    return RenderedText(fields, has_contexts, tuple(warnings))


def _says_something(character: str) -> bool:
    """Return whether a character may be an answer: a letter, digit, or symbol such as ∞."""
    if character.isalnum():
        return True
    return not character.isascii() and unicodedata.category(character)[0] in "LMNS"


def within(texts: Sequence[str], max_bytes: int) -> Sequence[str]:
    """Return the texts themselves if they fit; else as many as do, the last one cut if needed.

    Bytes are those of UTF-8; no character is cut in two, and no text is cut to nothing.
    """
    kept: list[str] = []
    left = max_bytes
    for text in texts:
        raw = text.encode(errors="replace")
        if len(raw) > left:
            part = raw[:left].decode(errors="ignore")
            return [*kept, part] if part else kept
        kept.append(text)
        left -= len(raw)
    return texts


def value_of(name: str, item: AnswerItem) -> FieldValue:
    """Return the value of an item's field by the name that rubrics use."""
    if name == "reference":
        return item.references[0] if item.references else ""
    if name == "confidence":
        return "" if item.confidence is None else f"{item.confidence:g}"
    value: FieldValue = getattr(item, name)
    return value if isinstance(value, str) else tuple(value)
