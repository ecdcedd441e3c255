"""The language models of one server, as the operator named them.

A model whose key is missing is listed all the same, with what to do. Of a model with fallbacks, the
reply says who gave it, so that it is paid by its own prices and not taken for an answer of the
model that was asked.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import orjson
from judged.values.choices import CacheMode

from judged_server.errors import ModelNotConfigured
from judged_server.llm.chat import (
    ChatModelCard,
    ChatRequest,
    Completed,
    FinishReason,
    Prices,
    ProviderFault,
    Reason,
    TokenUsage,
)
from judged_server.llm.config import (
    Configuration,
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
    key_of,
    read_configuration,
)
from judged_server.llm.providers.dialects import DIALECTS, Dialect
from judged_server.llm.providers.fake import FakeModel, read_script
from judged_server.llm.transport.endpoint import Call, Clock, Endpoint
from judged_server.llm.transport.http import HttpTransport
from judged_server.telemetry import Logger

BYTES_A_TOKEN = 4
"""A usual English token; for the estimate that the rate of tokens needs before a reply."""

MOST_HIDDEN_TOKENS = 100_000
"""Tokens that a provider may add to a request, or think in before a reply, of its own accord."""
MOST_OUTPUT_SHARE = 10
"""Output tokens over `max_tokens` from which, beside those, a count is not believed: some providers
do not count what a model thinks among them."""

_OF_THE_PROVIDER = {
    Reason.RATE_LIMITED,
    Reason.PROVIDER_UNREACHABLE,
    Reason.PROVIDER_REFUSED_KEY,
}
"""What another provider may do better, even where this one won't."""

OWN_SHARE = 0.5
"""What a model may take of the time that is left, while others stand behind it."""

_MAY_BE_CUT = (FinishReason.STOP, FinishReason.OTHER, FinishReason.UNTOLD)

_log = Logger("llm")


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """A model of the configuration, alone.

    One whose key is missing has a `problem`, and stands for its kept replies.
    """

    card: ChatModelCard
    model: ModelConfiguration
    dialect: Dialect
    headers: Mapping[str, str] = field(repr=False)  # with the key
    endpoint: Endpoint
    clock: Clock
    problem: str = ""

    async def complete(
        self, request: ChatRequest, timeout_s: float, *, waits: bool = True
    ) -> Completed:
        """Return the reply within `timeout_s` seconds, retries included.

        Raises ProviderFault, and ModelNotConfigured where the key is missing. Where another model
        stands behind it, it does not wait (`waits` is false) while its provider is unhealthy.
        """
        if self.problem:
            raise ModelNotConfigured(self.card.name, self.problem)
        began = self.clock.now()
        body = orjson.dumps(self.dialect.write_request(self.model, request))
        call = Call(
            self.dialect.path(self.model),
            self.headers,
            body,
            self.dialect.read_reply,
            len(body) // BYTES_A_TOKEN + request.max_tokens,
            request.receipt,
        )
        reply, attempts = await self.endpoint.ask(call, timeout_s, waits=waits)
        usage = reply.usage
        most_output = request.max_tokens * MOST_OUTPUT_SHARE + MOST_HIDDEN_TOKENS
        if usage.input_tokens > len(body) + MOST_HIDDEN_TOKENS or usage.output_tokens > most_output:
            _log.warning("llm usage not believed", model=self.card.name, counted=str(usage))
            reply = reply._replace(usage=TokenUsage())
        elif usage.output_tokens >= request.max_tokens and reply.finish_reason in _MAY_BE_CUT:
            # Whatever it says: some servers say "stop" of a reply that they cut.
            reply = reply._replace(finish_reason=FinishReason.LENGTH)
        return Completed(reply, attempts, self.clock.now() - began)


class ModelChain:
    """A model and those behind it, in order: what questions are put to.

    `problem` says what to do before it can be asked, "" when it can be. `cards` are those of all
    that may answer in its name, each with its own prices.
    """

    def __init__(
        self, card: ChatModelCard, models: Sequence[ConfiguredModel | FakeModel], clock: Clock
    ) -> None:
        """Ask the first of `models` first; `card` is its card, with the chain in its conditions."""
        self.card = card
        self.cards = tuple(model.card for model in models)
        self.problem = models[0].problem
        self._models = models
        self._clock = clock

    @property
    def unavailable(self) -> str:
        """What to do before it can be asked now; "" when it can, or others may answer."""
        first, *others = self._models
        refused = first.endpoint.queue.key_problem if isinstance(first, ConfiguredModel) else ""
        return self.problem or ("" if others else refused)

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        """Return the first reply within `timeout_s` seconds, of which each model leaves a share.

        Raises the ProviderFault of the model that was asked when none can answer, with the attempts
        of all.
        """
        began = self._clock.now()
        attempts = 0
        fault: ProviderFault | None = None
        first, *others = self._models
        chain = [first, *others]
        for model in chain:
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
            last = model is chain[-1]
            try:
                done = await model.complete(
                    request, left_s if last else left_s * OWN_SHARE, waits=last
                )
            except ProviderFault as failed:
                attempts += failed.attempts
                fault = fault or failed
                if not passes_on(failed):
                    break
                continue
            return done._replace(
                attempts=attempts + done.attempts,
                latency_s=self._clock.now() - began,
                answered_by=None if fault is None else model.card,
            )
        if fault is None:
            raise RuntimeError("a chain holds one model at least")
        fault.attempts = attempts
        raise fault


def prices_of(model: ModelChain) -> tuple[Prices, ...]:
    """Return the prices of all models that may answer in a model's name; () when one has none."""
    if model.card.prices is None:
        return ()
    prices = [card.prices for card in model.cards if card.prices is not None]
    return tuple(prices) if len(prices) == len(model.cards) else ()


def missing_key_fault(model: ModelChain) -> ModelNotConfigured | None:
    """Return why a model whose key is missing can't be asked; None for all others."""
    return ModelNotConfigured(model.card.name, model.problem) if model.problem else None


def check_api_keys(model: ModelChain, cache: CacheMode) -> None:
    """Raise ModelNotConfigured when a model may have to be asked and its key is missing."""
    if cache is not CacheMode.ONLY and (fault := missing_key_fault(model)) is not None:
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


class ChatModels:
    """All models of a configuration."""

    def __init__(
        self,
        configuration: Configuration,
        environ: Mapping[str, str],
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Open no connection yet. Raises SettingsError when a file that is named can't be read."""
        clock = clock or Clock()
        random = random or Random()  # noqa: S311 - it spreads retries and keeps no secret
        self.configuration = configuration
        self._endpoints: dict[str, Endpoint] = {}
        alone: dict[str, ConfiguredModel | FakeModel] = {}
        for provider in configuration.providers:
            models = [each for each in configuration.models if each.provider == provider.name]
            if provider.replies is not None:
                script = read_script(provider.replies)
                for model in models:
                    card = _card(model, provider, script.sha256, configuration.budget.unpriced)
                    alone[model.name] = FakeModel(card, script, clock)
                continue
            key, problem = key_of(provider, environ)
            if problem:
                _log.warning("llm provider unavailable", provider=provider.name, reason=problem)
                problem = f"{problem}, and start the server again"
            endpoint = Endpoint(provider, clock, random, HttpTransport(provider))
            self._endpoints[provider.name] = endpoint
            dialect = DIALECTS[provider.dialect]
            headers = dialect.headers(provider, key)
            for model in models:
                card = _card(model, provider, provider.base_url, configuration.budget.unpriced)
                alone[model.name] = ConfiguredModel(
                    card, model, dialect, headers, endpoint, clock, problem
                )
        self._models: dict[str, ModelChain] = {}
        for model in configuration.models:
            name = model.name
            own, chain = alone[name], [alone[other] for other in model.fallback]
            # Those behind it whose key is missing are left out; that was logged.
            able = [] if own.problem else [other for other in chain if not other.problem]
            card = with_chain(own.card, [other.card for other in chain])
            self._models[name] = ModelChain(card, [own, *able], clock)

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str] = os.environ) -> ChatModels:
        """Return the models of a file. Raises SettingsError, which names the file and the place."""
        return cls(read_configuration(path), environ)

    def listed(self) -> tuple[ModelChain, ...]:
        """Return the models, the default first, those that can't be asked too."""
        return tuple(self._models.values())

    def only(self, names: Collection[str]) -> ChatModels | None:
        """Return some of the models, over the same connections; None where none is left."""
        kept = {name: each for name, each in self._models.items() if name in names}
        some = copy(self)
        some._models = kept  # noqa: SLF001 - its own
        return some if kept else None

    def open_breakers(self) -> dict[str, float]:
        """Return 1 for each provider that is not asked until it answers again, 0 for the others."""
        return {name: float(each.queue.breaker.is_open) for name, each in self._endpoints.items()}

    def get(self, name: str) -> ModelChain:
        """Return a model by name, "" for the default; one without its key has a `problem`.

        Raises ModelNotConfigured with the next step when there is none.
        """
        name = name or next(iter(self._models))
        model = self._models.get(name)
        if model is None:
            raise ModelNotConfigured(name, "this server knows " + ", ".join(self._models))
        return model

    async def close(self) -> None:
        """Close all connections."""
        for endpoint in self._endpoints.values():
            await endpoint.close()


def _card(
    model: ModelConfiguration,
    provider: ProviderConfiguration,
    where: str,
    unpriced: Prices | None,
) -> ChatModelCard:
    return ChatModelCard(
        name=model.name,
        provider=model.provider,
        dialect=provider.dialect,
        model=model.model,
        structured=model.structured is not Structured.NONE,
        prices=model.prices or unpriced,
        takes_temperature=model.send_temperature,
        conditions=orjson.dumps(
            [
                where,
                provider.organization,
                provider.project,
                model.structured,
                model.send_temperature,
                model.send_seed,
                model.max_tokens_parameter,
                # Younger than files of kept replies, whose keys have these conditions.
                *([] if model.schema_bounds else ["no bounds"]),
            ]
        ).decode(),
    )
