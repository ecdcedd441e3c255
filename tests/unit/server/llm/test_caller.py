"""The asker over a model that is scripted: what is kept, what is shared, what is asked anew."""

from __future__ import annotations

import asyncio
import dataclasses
import json

import pytest
from judged.values.choices import CacheMode, Source, Status
from judged.values.judges import Usage
from judged_server.llm.caller import Answer, CallOptions, ModelCaller
from judged_server.llm.chat import (
    ChatModelCard,
    ChatReply,
    ChatRequest,
    Completed,
    FinishReason,
    Prices,
    ProviderFault,
    Reason,
    TokenUsage,
)
from judged_server.llm.question import Question
from judged_server.llm.reply_cache import ReplyCache
from judged_server.llm.rubrics.rubric import load_builtin

CARD = ChatModelCard("small", "p", "openai", "gpt", True, Prices(1.0, 2.0))
RUBRIC = load_builtin()["retrieval_match"]
YES = json.dumps({"reasoning": "so it is", "verdict": "yes"})
REFUSED = ChatReply("", FinishReason.REFUSAL, TokenUsage(), "gpt-1", "I can't")
UNREADABLE = ChatReply("", FinishReason.UNTOLD, TokenUsage(10, 2), "", unreadable="it is odd")


def says(text: str) -> ChatReply:
    return ChatReply(text, FinishReason.STOP, TokenUsage(100, 10), "gpt-1", None, "fp")


class Model:
    """Gives its replies in turn, the last one for ever; a fault is raised, a future waited for."""

    card = CARD

    def __init__(self, *replies: object, fallback: Model | None = None) -> None:
        self.problem, self.fallback = "", fallback
        self.replies = list(replies) or [says(YES)]
        self.asked: list[ChatRequest] = []
        self.timeouts: list[float] = []
        self.in_flight = 0

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        self.asked.append(request)
        self.timeouts.append(timeout_s)
        reply = self.replies[min(len(self.asked), len(self.replies)) - 1]
        self.in_flight += 1
        try:
            if isinstance(reply, asyncio.Future):
                reply = await asyncio.shield(reply)
        finally:
            self.in_flight -= 1
        if isinstance(reply, Exception):
            raise reply
        return Completed(reply, 1, 0.5)


QUESTION = Question(
    RUBRIC, {"query": "q", "expected_text": "e", "retrieved_text": "r"}, 0, 0.0, 256
)


async def ask(
    model_caller: ModelCaller, model: Model, cache: CacheMode = CacheMode.USE, seconds: float = 10.0
) -> Answer:
    ends = asyncio.get_running_loop().time() + seconds
    return await model_caller.ask(model, QUESTION, CallOptions(ends, cache=cache))


def keeping() -> ModelCaller:
    return ModelCaller(cache=ReplyCache(1 << 20))


async def turns(n: int = 5) -> None:
    for _ in range(n):
        await asyncio.sleep(0)


class TestCache:
    @pytest.mark.parametrize(
        "bad",
        [
            REFUSED,
            says('{"verdict": "maybe"}'),
            says("Well, that depends."),
            says('{"reasoning": "it')._replace(finish_reason=FinishReason.LENGTH),
            ProviderFault(Reason.PROVIDER_ERROR, "no", retryable=True),
            ProviderFault(Reason.TIMEOUT, "no", retryable=True),
        ],
        ids=["refused", "schema", "prose", "cut", "error", "timeout"],
    )
    async def test_only_verdicts_are_kept(self, bad: object):
        model_caller, model = keeping(), Model(bad)
        first = await ask(model_caller, model)
        assert first.parsed.status in {Status.ERROR, Status.ABSTAINED}
        tries = len(model.asked)
        again = await ask(model_caller, model)
        assert again.source is Source.COMPUTED
        assert len(model.asked) == 2 * tries
        missed = await ask(model_caller, model, CacheMode.ONLY)
        assert missed.parsed.reason is Reason.NOT_CACHED

    async def test_refresh_asks_anew_and_replaces_what_was_kept(self):
        no = json.dumps({"reasoning": "so it is", "verdict": "no"})
        model_caller, model = keeping(), Model(says(YES), says(no))
        assert (await ask(model_caller, model)).parsed.yes
        fresh = await ask(model_caller, model, CacheMode.REFRESH)
        assert (fresh.source, fresh.parsed.yes) == (Source.COMPUTED, False)
        kept = await ask(model_caller, model)
        assert (kept.source, kept.parsed.yes) == (Source.CACHE, False)


class TestForms:
    @pytest.mark.parametrize(
        "bad",
        [
            says('{"verdict": "maybe"}'),
            says("Well, that depends."),
            says('{"reasoning": "it')._replace(finish_reason=FinishReason.LENGTH),
        ],
        ids=["schema", "prose", "cut"],
    )
    async def test_a_reply_in_the_wrong_form_is_asked_for_again_with_what_was_wrong(self, bad):
        model = Model(bad, says(YES))
        answer = await ask(ModelCaller(), model)
        assert answer.parsed.yes
        first, second = model.asked
        assert "could not be used" not in first.user
        assert "could not be used" in second.user
        assert "depends" not in second.user
        assert answer.usage.calls == 2

    @pytest.mark.parametrize(
        ("replies", "status"),
        [
            ((UNREADABLE, says(YES)), Status.OK),
            ((UNREADABLE, says("no JSON")), Status.ABSTAINED),
            ((says("no JSON"), UNREADABLE), Status.ERROR),
        ],
    )
    async def test_an_unreadable_one_is_one_of_two(self, replies, status):
        model = Model(*replies)
        answer = await ask(ModelCaller(), model)
        assert (answer.parsed.status, len(model.asked), answer.usage.calls) == (status, 2, 2)


class TestSharing:
    @pytest.mark.parametrize("build", [keeping, ModelCaller], ids=["cache", "no cache"])
    async def test_fifty_who_ask_the_same_at_once_are_one_call(self, build):
        gate = asyncio.get_running_loop().create_future()
        model_caller, model = build(), Model(gate)
        asking = [asyncio.create_task(ask(model_caller, model)) for _ in range(50)]
        await turns()
        gate.set_result(says(YES))
        answers = await asyncio.gather(*asking)
        assert len(model.asked) == 1
        assert {answer.parsed.yes for answer in answers} == {True}
        sources = [answer.source for answer in answers]
        assert (sources.count(Source.COMPUTED), sources.count(Source.SHARED)) == (1, 49)
        usage = sum((answer.usage for answer in answers), Usage())
        assert (usage.calls, usage.shared, usage.cached) == (1, 49, 0)
        assert usage.cost == pytest.approx(120e-6)

    async def test_a_leader_who_leaves_does_not_end_it_for_others_and_it_is_kept(self):
        gate = asyncio.get_running_loop().create_future()
        model_caller, model = keeping(), Model(gate)
        leader = asyncio.create_task(ask(model_caller, model))
        await turns()
        follower = asyncio.create_task(ask(model_caller, model))
        await turns()
        leader.cancel()
        await turns()
        assert model.in_flight == 1
        gate.set_result(says(YES))
        assert (await follower).source is Source.SHARED
        assert (await ask(model_caller, model)).source is Source.CACHE
        assert len(model.asked) == 1

    async def test_one_with_more_time_asks_again_after_the_leaders_time_out(self):
        gate = asyncio.get_running_loop().create_future()
        model_caller, model = keeping(), Model(gate, says(YES))
        leader = asyncio.create_task(ask(model_caller, model, seconds=1))
        await turns()
        waits = asyncio.create_task(ask(model_caller, model, seconds=60))
        await turns()
        gate.set_result(ProviderFault(Reason.TIMEOUT, "too slow", retryable=True))
        assert (await leader).parsed.reason is Reason.TIMEOUT
        answer = await waits
        assert (answer.source, answer.parsed.yes) == (Source.COMPUTED, True)
        assert model.timeouts[1] > 50
        assert len(model.asked) == 2

    async def test_a_fault_of_the_provider_is_shared_and_not_asked_again(self):
        gate = asyncio.get_running_loop().create_future()
        model_caller, model = keeping(), Model(gate)
        asking = [asyncio.create_task(ask(model_caller, model)) for _ in range(9)]
        await turns()
        gate.set_result(ProviderFault(Reason.PROVIDER_ERROR, "no", retryable=True))
        answers = await asyncio.gather(*asking)
        assert {answer.parsed.reason for answer in answers} == {Reason.PROVIDER_ERROR}
        assert len(model.asked) == 1
        assert sum((answer.usage for answer in answers), Usage()).attempts == 1


def fails(reason: Reason, *, retryable: bool = True, unsent: bool = False) -> ProviderFault:
    fault = ProviderFault(reason, "no", retryable=retryable, attempts=3)
    fault.unsent = unsent
    return fault


class TestFallbacks:
    SPARE = dataclasses.replace(CARD, name="spare", prices=Prices(10.0, 10.0))

    def spare(self, *replies: object) -> Model:
        model = Model(*replies)
        model.card = self.SPARE
        return model

    @pytest.mark.parametrize(
        "fault",
        [
            fails(Reason.TIMEOUT),
            fails(Reason.RATE_LIMITED),
            fails(Reason.PROVIDER_UNREACHABLE, retryable=False),
            fails(Reason.PROVIDER_REFUSED_KEY, retryable=False),
            fails(Reason.BREAKER_OPEN),
            fails(Reason.PROVIDER_ERROR),
            fails(Reason.PROVIDER_ERROR, retryable=False, unsent=True),
        ],
        ids=str,
    )
    async def test_answer_at_their_own_price_and_are_not_kept(self, fault: ProviderFault):
        model_caller, spare = keeping(), self.spare()
        model = Model(fault, fallback=spare)
        found = await ask(model_caller, model)
        assert (found.parsed.yes, found.fallback) == (True, "spare")
        assert (found.usage.calls, found.usage.attempts) == (1, 4)
        assert found.usage.cost == pytest.approx((100 + 10) * 10.0 / 1e6)
        assert 4 < model.timeouts[0] <= 5 < spare.timeouts[0] <= 10
        missed = await ask(model_caller, model, CacheMode.ONLY)
        assert missed.parsed.reason is Reason.NOT_CACHED

    @pytest.mark.parametrize(
        "first",
        [
            says(YES),
            REFUSED,
            says("Well, that depends."),
            fails(Reason.PROVIDER_ERROR, retryable=False),
        ],
        ids=["answered", "refused", "prose", "turned down"],
    )
    async def test_are_not_asked_about_an_answer_or_a_bad_question(self, first: object):
        spare = self.spare()
        found = await ask(keeping(), Model(first, fallback=spare))
        assert (found.fallback, spare.asked) == ("", [])

    async def test_are_asked_in_turn_and_the_first_fault_is_told(self):
        last = self.spare(fails(Reason.RATE_LIMITED))
        second = Model(fails(Reason.BREAKER_OPEN), fallback=last)
        found = await ask(keeping(), Model(fails(Reason.TIMEOUT), fallback=second))
        assert (found.parsed.reason, found.fallback) == (Reason.TIMEOUT, "")
        assert found.usage.attempts == 9
        assert [len(model.asked) for model in (second, last)] == [1, 1]
        last.replies = [says(YES)]
        found = await ask(keeping(), Model(fails(Reason.TIMEOUT), fallback=second))
        assert (found.parsed.yes, found.fallback) == (True, "spare")
