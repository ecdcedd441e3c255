"""The models that are asked in place of one whose provider fails.

The reply says who gave it, so that it is paid by its own prices and not taken for an answer of the
model that was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import orjson

from judged_server.llm.chat import ChatModel, ChatModelCard, ChatRequest, Completed
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.transport.clock import Clock
from judged_server.telemetry import logger

_OF_THE_PROVIDER = {
    Reason.TIMEOUT,
    Reason.RATE_LIMITED,
    Reason.PROVIDER_UNREACHABLE,
    Reason.PROVIDER_REFUSED_KEY,
    Reason.BREAKER_OPEN,
}

OWN_SHARE = 0.5
"""What a model may take of the time that is left, while others stand behind it."""

_log = logger("llm")


class FallbackModel:
    """A model with others behind it, in order; implements chat.ChatModel."""

    def __init__(self, card: ChatModelCard, models: Sequence[ChatModel], clock: Clock) -> None:
        """Ask the first of `models` first; `card` is its card, with the chain in its conditions."""
        self.card = card
        self.cards = tuple(model.card for model in models)
        self.problem = ""
        self._models = models
        self._clock = clock

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        """Return the first reply within `timeout_s` seconds, of which each model leaves a share.

        Raises the ProviderFault of the model that was asked when none can answer, with the attempts
        of all.
        """
        began = self._clock.now()
        attempts = 0
        fault: ProviderFault | None = None
        first, *others = self._models
        chain = [first, *(m for m in others if m.card.logprobs or not request.logprobs)]
        for place, model in enumerate(chain):
            left_s = timeout_s - (self._clock.now() - began)
            if fault is not None:
                if left_s <= 0:
                    break
                _log.warning(
                    "llm fallback",
                    model=self.card.name,
                    fallback=model.card.name,
                    reason=str(fault.reason),
                )
            if place < len(chain) - 1:
                left_s *= OWN_SHARE
            try:
                done = await model.complete(request, left_s)
            except ProviderFault as failed:
                attempts += failed.attempts
                fault = fault or failed
                if not passes_on(failed):
                    break
                continue
            return Completed(
                done.reply,
                attempts + done.attempts,
                self._clock.now() - began,
                None if fault is None else model.card,
            )
        if fault is None:
            raise RuntimeError("a chain holds one model at least")
        fault.attempts = attempts
        raise fault


def passes_on(fault: ProviderFault) -> bool:
    """Return whether another provider may do better.

    A request that this one turned down as such, too long say, is not sent to another.
    """
    return fault.reason in _OF_THE_PROVIDER or fault.retryable or fault.unsent


def with_chain(card: ChatModelCard, chain: Sequence[ChatModelCard]) -> ChatModelCard:
    """Return the card of a model whose replies may be those of a chain as well."""
    if not chain:
        return card
    behind = [
        [other.name, other.provider, other.dialect, other.model, other.conditions]
        for other in chain
    ]
    return replace(card, conditions=orjson.dumps([card.conditions, behind]).decode())
