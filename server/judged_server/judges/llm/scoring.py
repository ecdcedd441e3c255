"""Asks the questions behind one verdict or score, and combines the votes of several samples.

For scores by claims, the claims of a text are listed once, and each is checked in a call of its
own. A failed check makes the score missing; it never counts as a claim without support. Scores of
several dimensions are combined here by weight; the model's own overall score is only reported.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum

from judged.values.choices import ClaimVerdict, Source, Status
from judged.values.judges import Usage
from judged.values.scores import DimensionScore, VerifiedClaim

from judged_server.domain import TIE_TOLERANCE, VerdictFault
from judged_server.llm.caller import Answer, CallOptions, ModelCaller, nothing
from judged_server.llm.chat import ChatReply, ParsedReply, Reason
from judged_server.llm.models import ChatModel, in_turn
from judged_server.llm.parsing import MAX_CLAIM_CHARACTERS, PARSER_VERSION
from judged_server.llm.question import PROMPT_VERSION, Question
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, FieldValue, Rubric
from judged_server.scheduling.concurrency import fan_out

MAX_RAW_REPLIES_BYTES = 1 << 20
"""The most bytes of replies kept for one score; later replies are left out."""
MAX_RAW_REPLY_BYTES = 64 << 10

CHECKED_AT_ONCE = 8
"""The most checks of one score in flight at once."""

_CLAIM_LETTERS_A_TOKEN = 8
"""Letters that are estimated like the largest token of a reply: a token of usual text has four
bytes, which count as up to four tokens in an estimate, and two letters count as one."""


@dataclass(frozen=True, slots=True)
class AskedRubric:
    """A rubric, the model to ask, and the sampling."""

    rubric: Rubric
    model: ChatModel
    samples: int
    temperature: float
    max_tokens: int

    @property
    def priced(self) -> bool:
        """Whether the prices of all models that may answer are known."""
        return all(model.card.prices is not None for model in in_turn(self.model))

    @property
    def nothing(self) -> Usage:
        """The usage without any call; its cost is 0, or unset if the model has no price."""
        return nothing(self.model.card.prices)

    def question(
        self, fields: Mapping[str, FieldValue], number: int, step: Rubric | None = None
    ) -> Question:
        """Return the question of sample `number`, by the rubric or by one of its steps."""
        rubric = step or self.rubric
        return Question(rubric, fields, number, self.temperature, self.max_tokens)

    def signature_parts(self) -> list[tuple[str, str]]:
        """Return the parts of a signature for the rubric, the model and the sampling."""
        rubric, card = self.rubric, self.model.card
        return [
            ("rubric", f"{rubric.id}@{rubric.version}"),
            ("sha", rubric.sha256[:8]),
            ("model", card.name),
            ("structured", str(card.structured).lower()),
            ("samples", str(self.samples)),
            ("temperature", card.shown_temperature(self.temperature)),
            ("max_tokens", str(self.max_tokens)),
        ]

    def key_parts(self) -> list[tuple[str, str]]:
        """Return the parts of a key for all else that can change a reply or its meaning."""
        card = self.model.card
        return [
            ("provider", card.provider),
            ("dialect", card.dialect),
            ("provider_model", card.model),
            ("conditions", card.conditions),
            ("rubric_sha256", self.rubric.sha256),
            ("prompt_version", str(PROMPT_VERSION)),
            ("parser_version", str(PARSER_VERSION)),
        ]


@dataclass(frozen=True, slots=True)
class Asking:
    """How the questions of a call are asked; `places` limits how many are in flight."""

    model_caller: ModelCaller
    call_options: CallOptions
    places: asyncio.Semaphore
    keep_replies: bool = False


class Session:
    """Asks the questions of one verdict or score; `answers` has their answers by place.

    `is_cut` says that a model can't have read all of a prompt.
    """

    __slots__ = ("_asked", "_asking", "_keep", "answers", "is_cut")

    def __init__(self, asking: Asking, asked: AskedRubric, *, keep: bool = True) -> None:
        """Ask the rubric and model of `asked`; without `keep`, replies are dropped once parsed."""
        self._asking = asking
        self._asked = asked
        self._keep = keep
        self.answers: dict[int, Answer] = {}
        self.is_cut = False

    async def ask(
        self, fields: Mapping[str, FieldValue], number: int, place: int, step: Rubric | None = None
    ) -> ParsedReply:
        """Return the parsed reply of sample `number`; its answer is stored at `place`."""
        asking, question = self._asking, self._asked.question(fields, number, step)
        async with asking.places:
            answer = await asking.model_caller.ask(self._asked.model, question, asking.call_options)
        if answer.reply is not None:
            shown = [fields[name] for name in question.rubric.fields]
            self.is_cut |= _is_below_words(answer.reply.usage.input_tokens, shown)
        self.answers[place] = answer if self._keep else answer._replace(reply=None)
        return answer.parsed

    async def ask_samples(self, fields: Mapping[str, FieldValue]) -> list[ParsedReply]:
        """Return the parsed reply of each sample, in order."""
        samples = self._asked.samples
        if samples == 1:
            return [await self.ask(fields, 0, 0)]
        return await fan_out(
            lambda number: self.ask(fields, number, number), range(samples), samples
        )

    @property
    def usage(self) -> Usage:
        """The total usage of the questions."""
        return sum((answer.usage for answer in self.answers.values()), self._asked.nothing)

    @property
    def source(self) -> Source:
        """COMPUTED if a model was asked for this, else SHARED if any reply was, else CACHE."""
        sources = {answer.source for answer in self.answers.values()} or {Source.COMPUTED}
        return Source.COMPUTED if Source.COMPUTED in sources else max(sources)

    @property
    def fallbacks(self) -> list[str]:
        """The models that answered in place of the requested one."""
        return sorted({answer.fallback for answer in self.answers.values()} - {""})

    @property
    def replies(self) -> list[ChatReply | None]:
        """The replies in the order of their places; None if not kept."""
        return [answer.reply for _, answer in sorted(self.answers.items())]

    @property
    def answered_by(self) -> tuple[str, str]:
        """The model and the system fingerprint that the first reply names."""
        reply = next((reply for reply in self.replies if reply is not None), None)
        return (reply.model, reply.system_fingerprint) if reply is not None else ("", "")

    def raw_replies(self) -> tuple[str, ...]:
        """Return the texts of replies in order, within the limits on each and on all of them."""
        kept: list[str] = []
        left = MAX_RAW_REPLIES_BYTES
        for raw in map(raw_text, self.replies):
            left -= len(raw.encode())
            kept.append(raw if left >= 0 else "")
        return tuple(kept)


def _is_below_words(tokens: int, values: Sequence[FieldValue]) -> bool:
    """Return whether texts have more words than `tokens`: each word is at least one token.

    Ollama, for one, cuts a prompt that is longer than its context, and does not say so.
    """
    texts = [text for value in values for text in ((value,) if isinstance(value, str) else value)]
    # Counting letters first spares short texts the count of words.
    return tokens < sum(map(len, texts)) / 2 and tokens < sum(len(text.split()) for text in texts)


def raw_text(reply: ChatReply | None) -> str:
    """Return the text of a reply, cut to MAX_RAW_REPLY_BYTES.

    UTF-8 can't encode lone surrogates: each becomes a question mark.
    """
    text = (reply.text or reply.refusal or "") if reply is not None else ""
    raw = text.encode(errors="replace")
    return raw[:MAX_RAW_REPLY_BYTES].decode(errors="ignore")


@dataclass(frozen=True, slots=True)
class SampleResult:
    """The combined result of all samples of a question, or of all questions of a score.

    `score`, `agreement` (both in [0, 1]) and `yes` (a strict majority) are valid only if `status`
    is OK; `fault` is set if it is not. `reasoning` is that of the first sample that agrees with
    the majority.
    """

    status: Status
    score: float = 0.0
    yes: bool = False
    agreement: float = 0.0
    reasoning: str = ""
    fault: VerdictFault | None = None
    dimensions: tuple[DimensionScore, ...] = ()
    reported_overall: float | None = None
    claims: tuple[VerifiedClaim, ...] = ()
    warnings: tuple[str, ...] = ()


_NO_QUORUM = SampleResult(
    Status.ABSTAINED,
    fault=VerdictFault(
        0,
        Reason.NO_QUORUM,
        "the samples tie, or fewer than half of them are votes; ask for more, or an odd number",
    ),
)


def voted(parsed_replies: Sequence[ParsedReply]) -> SampleResult:
    """Return the vote of all samples that were requested, at least one.

    Without a valid sample the result is the first failure, or else the first abstention.
    """
    return _vote(parsed_replies, lambda parsed: parsed.yes)[1]


def _vote(
    parsed_replies: Sequence[ParsedReply], choice: Callable[[ParsedReply], object]
) -> tuple[list[ParsedReply], SampleResult]:
    """Return the majority of the valid samples by `choice`, and the outcome.

    If a sample is missing from the cache there is no vote, since it might change the outcome.
    """
    valid = [parsed for parsed in parsed_replies if parsed.status is Status.OK]
    failed = [parsed for parsed in parsed_replies if parsed.status is Status.ERROR]
    unknown = [parsed for parsed in failed if parsed.reason is Reason.NOT_CACHED]
    if unknown or not valid:
        return [], _missing_for((unknown or failed or parsed_replies)[0])
    counted = Counter(map(choice, valid))
    ((most, votes),) = counted.most_common(1)
    if 2 * votes <= len(valid) or 2 * len(valid) < len(parsed_replies):
        return [], _NO_QUORUM
    winners = [parsed for parsed in valid if choice(parsed) == most]
    return winners, SampleResult(
        Status.OK,
        sum(parsed.score for parsed in valid) / len(valid),
        winners[0].yes,
        votes / len(valid),
        winners[0].reasoning,
    )


def _missing_for(parsed: ParsedReply) -> SampleResult:
    """Return the result for a parsed reply that is not OK."""
    reason = parsed.reason or Reason.UNPARSABLE
    why = VerdictFault(0, reason, parsed.message, parsed.retryable)
    return SampleResult(parsed.status, fault=why)


def by_threshold(
    parsed_replies: Sequence[ParsedReply], min_score: float, score: Callable[[ParsedReply], float]
) -> list[ParsedReply]:
    """Return the parsed replies scored by `score`, with a yes if that meets the threshold."""

    def scored(parsed: ParsedReply) -> ParsedReply:
        found = score(parsed)
        return parsed._replace(score=found, yes=found + TIE_TOLERANCE >= min_score)

    return [scored(each) if each.status is Status.OK else each for each in parsed_replies]


async def find_claims(
    session: Session, rubric: Rubric, fields: Mapping[str, FieldValue], samples: int
) -> SampleResult:
    """Return the share of supported claims; NOT_ASSESSABLE if there are no claims.

    One sample lists the claims, and `samples` samples check each; the verdict on a claim is that of
    more than half of the valid ones. If a check has no outcome, the result is the first failure,
    with the claims that were checked.
    """
    extraction, verification = rubric.steps
    listed = await session.ask(_of(extraction, fields), 0, 0, extraction)
    if listed.status is not Status.OK:
        return _missing_for(listed)
    if not listed.claims:
        none = VerdictFault(0, Reason.NO_CLAIMS, "the text makes no claim")
        return SampleResult(Status.NOT_ASSESSABLE, reasoning=listed.reasoning, fault=none)
    rendered = _of(verification, fields)

    async def check(place: int) -> ParsedReply:
        claim, number = divmod(place, samples)
        texts = {**rendered, "claim": listed.claims[claim]}
        return await session.ask(texts, number, 1 + place, verification)

    n_checks = samples * len(listed.claims)
    parsed_replies = await fan_out(check, range(n_checks), min(CHECKED_AT_ONCE, n_checks))
    checked = [
        _decide(text, parsed_replies[claim * samples : (claim + 1) * samples])
        for claim, text in enumerate(listed.claims)
    ]
    claims = tuple(claim for each in checked for claim in each.claims)
    missing = [each for each in checked if each.status is not Status.OK]
    if missing:
        missing.sort(key=lambda each: each.status is not Status.ERROR)
        return replace(missing[0], reasoning=listed.reasoning, claims=claims)
    supported = sum(claim.verdict is ClaimVerdict.SUPPORTED for claim in claims)
    return SampleResult(
        Status.OK,
        supported / len(claims),
        yes=True,
        agreement=sum(each.agreement for each in checked) / len(checked),
        reasoning=listed.reasoning,
        claims=claims,
    )


def most_asked(
    rubric: Rubric, fields: Mapping[str, FieldValue], max_tokens: int
) -> tuple[tuple[Rubric, dict[str, FieldValue]], tuple[Rubric, dict[str, FieldValue]]]:
    """Return the steps and fields of `find_claims`: listing claims, and checking an average claim.

    All claims together are at most as long as the reply of `max_tokens` that lists them, so that
    each of MAX_CLAIMS claims is estimated as an equal share of that.
    """
    extraction, verification = rubric.steps
    share = -(-_CLAIM_LETTERS_A_TOKEN * max_tokens // MAX_CLAIMS)
    claim = "x" * min(MAX_CLAIM_CHARACTERS, share)
    return (
        (extraction, _of(extraction, fields)),
        (verification, {**_of(verification, fields), "claim": claim}),
    )


def _of(step: Rubric, fields: Mapping[str, FieldValue]) -> dict[str, FieldValue]:
    """Return the fields that a step shows."""
    return {name: fields[name] for name in step.fields if name in fields}


def _decide(claim: str, parsed_replies: Sequence[ParsedReply]) -> SampleResult:
    """Return the combined result of the samples that check one claim."""
    winners, vote = _vote(parsed_replies, lambda parsed: parsed.checked)
    if not winners or winners[0].checked is None:
        return vote
    return replace(vote, claims=(VerifiedClaim(claim, winners[0].checked, winners[0].reasoning),))


def assessable(
    rubric: Rubric, weights: Mapping[str, float], *, has_contexts: bool
) -> dict[str, float]:
    """Return the dimensions that can be assessed, with weights that sum to 1.

    Empty if all of their weights are 0.
    """
    left_out = () if has_contexts else rubric.need_contexts
    kept = {name: weights.get(name, 0.0) for name, _ in rubric.dimensions if name not in left_out}
    # Divide by the largest first: a sum of huge weights could be infinite.
    largest = max(kept.values(), default=0.0)
    if largest <= 0:
        return {}
    shares = {name: weight / largest for name, weight in kept.items()}
    total = fsum(shares.values())
    return {name: share / total for name, share in shares.items()}


def weigh_dimensions(
    parsed_replies: Sequence[ParsedReply],
    rubric: Rubric,
    min_score: float,
    weights: Mapping[str, float],
    *,
    has_contexts: bool,
) -> SampleResult:
    """Return the weighted mean of the dimensions, each the mean of the samples that scored it.

    The samples vote as scores do: each is a yes if its own weighted mean meets the threshold.
    Without contexts the dimensions that need them have no score and no weight.
    """
    shares = assessable(rubric, weights, has_contexts=has_contexts)

    def weighted_mean(parsed: ParsedReply) -> float:
        return min(1.0, fsum(shares[name] * parsed.dimensions[name] for name in shares))

    finding = voted(by_threshold(parsed_replies, min_score, weighted_mean))
    if finding.status is not Status.OK:
        return finding
    valid = [parsed.dimensions for parsed in parsed_replies if parsed.status is Status.OK]
    missing = [name for name, _ in rubric.dimensions if name not in shares]
    warning = (
        f"without contexts there is no score of {', '.join(missing)}; "
        "the other dimensions make up the score"
    )

    def mean(name: str) -> float:
        return fsum(scores[name] for scores in valid) / len(valid)

    return replace(
        finding,
        dimensions=tuple(
            DimensionScore(name, mean(name) if name in shares else None, shares.get(name, 0.0))
            for name, _ in rubric.dimensions
        ),
        reported_overall=mean("overall"),
        warnings=(warning,) if missing else (),
    )
