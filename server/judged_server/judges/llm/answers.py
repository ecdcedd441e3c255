"""The judge `answers`: a language model scores an answer by a rubric."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from judged_server.domain import (
    TIE_TOLERANCE,
    Calibrator,
    JudgeIdentity,
    ParameterScalar,
    Status,
)
from judged_server.domain.answers import AnswerItem, AnswerScore
from judged_server.errors import ModelNotConfigured
from judged_server.judges.base import Parameter, Profile
from judged_server.judges.llm.answer_texts import MissingInput, RenderedText, show, texts_of
from judged_server.judges.llm.claims import find_claims, most_asked
from judged_server.judges.llm.dimensions import assessable, find_dimensions
from judged_server.judges.llm.judge import NO_CONFIGURATION, VOTES_ABOVE_ZERO, AskableModels
from judged_server.judges.llm.scoring_session import (
    Asking,
    SampleResult,
    ScoringSession,
    fault,
    find_by_vote,
    no_usage,
)
from judged_server.llm.budget import prices_of
from judged_server.llm.caller import ModelCaller
from judged_server.llm.chat import ChatModel
from judged_server.llm.faults import Reason
from judged_server.llm.parsing import PARSER_VERSION
from judged_server.llm.question import MAX_SAMPLES, PlannedCall, Question
from judged_server.llm.rubrics import PROMPT_VERSION, FieldValue, Rubric
from judged_server.llm.rubrics.rubric import MAX_CLAIMS
from judged_server.statistics.calibration import Platt

KIND = "answers"
VERSION = 1


@dataclass(frozen=True, slots=True)
class SettledRubric:
    """A rubric of a request with every parameter settled; `weights` by dimension, if it has any.

    `calibrator` makes probabilities of its scores, None for none.
    """

    rubric: Rubric
    min_score: float
    parameters: Mapping[str, ParameterScalar]
    weights: Mapping[str, float]
    calibrator: Calibrator | None = None


class AnswersKind:
    """Builds scorers over the language models of this server, None if it has none."""

    kind = KIND

    def __init__(
        self, models: AskableModels | None, rubrics: Mapping[str, Rubric], model_caller: ModelCaller
    ) -> None:
        self._models = models
        self._rubrics = rubrics
        self.model_caller = model_caller

    @property
    def rubrics(self) -> Mapping[str, Rubric]:
        """The rubrics that read answers, by id, and those that do not."""
        return self._rubrics

    @property
    def profile(self) -> Profile:
        """The one profile; the threshold is each rubric's own, so that it has none."""
        parameters = (
            Parameter("model", "", "The language model; empty for the server's default."),
            Parameter(
                "samples",
                0,
                "Votes on each score; 0 stands for 1 at temperature 0 and for 3 above.",
                0,
                MAX_SAMPLES,
            ),
            Parameter("temperature", 0.0, "Chance in the model's choice of words.", 0.0, 2.0),
            Parameter("max_tokens", 1024, "The longest reply.", 1, 32768),
            Parameter(
                "max_context_tokens",
                8192,
                "The contexts of an item that are shown, together; a token counts 4 bytes.",
                1,
                1_000_000,
            ),
        )
        description = "A language model scores answers by a rubric; for ScoreAnswers only."
        return Profile("", description, 0.0, parameters)

    def build(self, settled: SettledRubric) -> AnswerScorer:
        """Return the scorer. Raises ModelNotConfigured when there is no such model here."""
        name = str(settled.parameters["model"])
        if self._models is None:
            raise ModelNotConfigured(name, NO_CONFIGURATION)
        return AnswerScorer(self._models.get(name), settled)


class AnswerScorer:
    """Scores items by one rubric."""

    def __init__(self, model: ChatModel, settled: SettledRubric) -> None:
        given = settled.parameters
        self._model = model
        self._settled = settled
        self._temperature = float(given["temperature"])
        self._samples = int(given["samples"]) or (VOTES_ABOVE_ZERO if self._temperature else 1)
        self._max_tokens = int(given["max_tokens"])
        self._max_context_tokens = int(given["max_context_tokens"])
        self.bare_identity = self._identity()
        self.identity = self.bare_identity
        if settled.calibrator is not None:
            self.identity = self.identity.calibrated(settled.calibrator)

    @property
    def rubric(self) -> Rubric:
        """What is asked."""
        return self._settled.rubric

    @property
    def samples(self) -> int:
        """How often each question is asked."""
        return self._samples

    @property
    def model(self) -> ChatModel:
        """Who is asked."""
        return self._model

    def texts_of(self, item: AnswerItem) -> tuple[FieldValue, ...]:
        """Return all of the item that can change its score."""
        return texts_of(self.rubric, item)

    @property
    def priced(self) -> bool:
        """Whether the prices of all models that may answer are known."""
        return bool(prices_of(self._model))

    def planned_calls(self, item: AnswerItem) -> Iterator[PlannedCall]:
        """Yield all that `score` may ask of the item.

        How many claims a text makes is not known before it is read: as many as may be listed.
        """
        rendered = self._rendered(item)
        if isinstance(rendered, MissingInput):
            return
        times = 1
        if self.rubric.form == "claims":
            listing, check = most_asked(self.rubric, rendered.fields, self._max_tokens)
            yield PlannedCall(self._model, self._question(*listing, 0))
            asked, times = check, MAX_CLAIMS
        else:
            asked = self.rubric, rendered.fields
        for number in range(self._samples):
            question = self._question(*asked, number)
            yield PlannedCall(self._model, question, times, settled=times == 1)

    def _question(self, rubric: Rubric, fields: Mapping[str, FieldValue], number: int) -> Question:
        return Question(rubric, fields, number, self._temperature, self._max_tokens)

    async def score(self, item: AnswerItem, asking: Asking) -> AnswerScore:
        """Return the score of the item, whatever comes of it, in time for the caller.

        Cancelling it closes the calls under way.
        """
        rendered = self._rendered(item)
        if isinstance(rendered, MissingInput):
            return AnswerScore(
                item.item_id,
                self.rubric.id,
                Status.NOT_ASSESSABLE,
                self.identity,
                usage=no_usage(self._model),
                samples=self._samples,
                fault=fault(rendered.reason, rendered.message),
            )
        session = ScoringSession(
            asking, self._model, temperature=self._temperature, max_tokens=self._max_tokens
        )
        finding = await self._find(session, rendered)
        ok = finding.status is Status.OK
        threshold = self._settled.min_score
        return AnswerScore(
            item.item_id,
            self.rubric.id,
            finding.status,
            self.identity,
            score=finding.score if ok else None,
            probability=self._probability(finding.score) if ok else None,
            passed=finding.yes and finding.score + TIE_TOLERANCE >= threshold if ok else None,
            reasoning=finding.reasoning,
            raw_replies=session.raw_replies(),
            usage=session.usage,
            samples=self._samples,
            agreement=finding.agreement if ok else None,
            source=session.source,
            dimensions=finding.dimensions,
            reported_overall=finding.reported_overall,
            claims=finding.claims,
            fault=finding.fault,
            warnings=rendered.warnings + finding.warnings + session.warnings,
            model=session.model,
            system_fingerprint=session.system_fingerprint,
        )

    def _probability(self, score: float) -> float | None:
        calibrator = self._settled.calibrator
        if calibrator is None:
            return None
        platt = Platt(calibrator.slope, calibrator.intercept)
        return float(platt.probabilities(np.array([score]))[0])

    def _rendered(self, item: AnswerItem) -> RenderedText | MissingInput:
        rendered = show(self.rubric, item, self._max_context_tokens)
        if isinstance(rendered, RenderedText) and not self._has_whole(rendered):
            rendered = MissingInput(
                Reason.NO_CONTEXT,
                "the item brings no contexts, and no dimension without them has a weight",
            )
        return rendered

    def _has_whole(self, rendered: RenderedText) -> bool:
        rubric, weights = self.rubric, self._settled.weights
        if not rubric.dimensions:
            return True
        return bool(assessable(rubric, weights, has_contexts=rendered.has_contexts))

    async def _find(self, session: ScoringSession, rendered: RenderedText) -> SampleResult:
        rubric, samples, threshold = self.rubric, self._samples, self._settled.min_score
        if rubric.form == "claims":
            return await find_claims(session, rubric, rendered.fields, samples)
        if rubric.form == "dimensions":
            return await find_dimensions(
                session,
                rubric,
                rendered.fields,
                samples,
                threshold,
                self._settled.weights,
                has_contexts=rendered.has_contexts,
            )
        return await find_by_vote(session, rubric, rendered.fields, samples, threshold)

    def _identity(self) -> JudgeIdentity:
        rubric, card = self.rubric, self._model.card
        parts = [
            ("rubric", f"{rubric.id}@{rubric.version}"),
            ("sha", rubric.sha256[:8]),
            ("model", card.name),
            ("structured", str(card.structured).lower()),
            ("samples", str(self._samples)),
            ("temperature", card.shown_temperature(self._temperature)),
            ("max_tokens", str(self._max_tokens)),
        ]
        if "contexts" in rubric.fields:
            parts.append(("max_context_tokens", str(self._max_context_tokens)))
        if rubric.dimensions:
            # Divided by their sum: weights that say the same have one key.
            shares = assessable(rubric, self._settled.weights, has_contexts=True)
            printed = ",".join(f"{name}={share:.12g}" for name, share in shares.items())
            parts.append(("weights", printed))
        return JudgeIdentity.build(
            KIND,
            "",
            self._settled.min_score,
            parts,
            VERSION,
            [
                ("provider", card.provider),
                ("dialect", card.dialect),
                ("provider_model", card.model),
                ("conditions", card.conditions),
                ("rubric_sha256", rubric.sha256),
                ("prompt_version", str(PROMPT_VERSION)),
                ("parser_version", str(PARSER_VERSION)),
            ],
        )
