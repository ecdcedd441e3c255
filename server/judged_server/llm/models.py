"""The language models of a server, by the operator's names.

A model whose key is missing is still listed, with what to do.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
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
"""Of usual English text; for the estimate that the rate limit of tokens needs before a reply."""

MOST_HIDDEN_TOKENS = 100_000
"""Most tokens that a provider may add to a request, or use for reasoning before a reply."""
MOST_OUTPUT_SHARE = 10
"""A count of output tokens above this many times `max_tokens`, plus MOST_HIDDEN_TOKENS, is not
believed: some providers do not apply `max_tokens` to reasoning."""

_MAY_BE_CUT = (FinishReason.STOP, FinishReason.OTHER, FinishReason.UNTOLD)

_log = Logger("llm")


@dataclass(frozen=True, slots=True)
class ConfiguredModel:
    """A model of the configuration; `fallback` is asked in its place when its provider fails.

    `problem` is set if its key is missing; then it answers only from the reply cache.
    """

    card: ChatModelCard
    model: ModelConfiguration
    dialect: Dialect
    headers: Mapping[str, str] = field(repr=False)  # with the key
    endpoint: Endpoint
    clock: Clock
    problem: str = ""
    fallback: ChatModel | None = None

    @property
    def unavailable(self) -> str:
        """What to do before it can be asked; "" if it, or a fallback, can be asked now."""
        return self.problem or ("" if self.fallback else self.endpoint.queue.key_problem)

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        """Return the reply within `timeout_s` seconds, retries included.

        Raises ProviderFault, and ModelNotConfigured if the key is missing.
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
        reply, attempts = await self.endpoint.ask(call, timeout_s, waits=self.fallback is None)
        usage = reply.usage
        most_output = request.max_tokens * MOST_OUTPUT_SHARE + MOST_HIDDEN_TOKENS
        if usage.input_tokens > len(body) + MOST_HIDDEN_TOKENS or usage.output_tokens > most_output:
            _log.warning("llm usage not believed", model=self.card.name, counted=str(usage))
            reply = reply._replace(usage=TokenUsage())
        elif usage.output_tokens >= request.max_tokens and reply.finish_reason in _MAY_BE_CUT:
            # Some servers report "stop" for a reply that they cut off.
            reply = reply._replace(finish_reason=FinishReason.LENGTH)
        return Completed(reply, attempts, self.clock.now() - began)


ChatModel = ConfiguredModel | FakeModel


def in_turn(model: ChatModel | None) -> Iterator[ChatModel]:
    """Yield a model and its fallbacks, in the order in which they are asked."""
    while model is not None:
        yield model
        model = model.fallback


def missing_key_fault(model: ChatModel) -> ModelNotConfigured | None:
    """Return the error of a model whose key is missing, None for other models."""
    return ModelNotConfigured(model.card.name, model.problem) if model.problem else None


def check_api_keys(model: ChatModel, cache: CacheMode) -> None:
    """Raise ModelNotConfigured when a model may have to be asked and its key is missing."""
    if cache is not CacheMode.ONLY and (fault := missing_key_fault(model)) is not None:
        raise fault


class ChatModels:
    """All models of a configuration."""

    def __init__(
        self,
        configuration: Configuration,
        environ: Mapping[str, str],
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        """Open no connection yet. Raises SettingsError if a file that is named can't be read."""
        clock = clock or Clock()
        random = random or Random()  # noqa: S311 - it spreads retries and keeps no secret
        self.configuration = configuration
        self._endpoints: dict[str, Endpoint] = {}
        made: dict[str, ChatModel] = {}
        for provider in configuration.providers:
            models = [each for each in configuration.models if each.provider == provider.name]
            if provider.replies is not None:
                script = read_script(provider.replies)
                for model in models:
                    card = _card(model, provider, script.sha256)
                    made[model.name] = FakeModel(card, script, clock)
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
                card = _card(model, provider, provider.base_url)
                made[model.name] = ConfiguredModel(
                    card, model, dialect, headers, endpoint, clock, problem
                )
        self._models = {
            each.name: _with_fallbacks(made, [each.name, *each.fallback])
            for each in configuration.models
        }

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str] = os.environ) -> ChatModels:
        """Return the models of a file. Raises SettingsError, which names the file and the place."""
        return cls(read_configuration(path), environ)

    def listed(self) -> tuple[ChatModel, ...]:
        """Return the models, the default first, including those that can't be asked."""
        return tuple(self._models.values())

    def only(self, names: Collection[str]) -> ChatModels | None:
        """Return some of the models, on the same connections; None if no name is known."""
        kept = {name: each for name, each in self._models.items() if name in names}
        some = copy(self)
        some._models = kept  # noqa: SLF001 - its own
        return some if kept else None

    def open_breakers(self) -> dict[str, float]:
        """Return 1 for each provider whose breaker is open, 0 for the others."""
        return {name: float(each.queue.breaker.is_open) for name, each in self._endpoints.items()}

    def get(self, name: str) -> ChatModel:
        """Return a model by name, "" for the default; `problem` is set if its key is missing.

        Raises ModelNotConfigured, with the known names, if there is no such model.
        """
        name = name or next(iter(self._models))
        model = self._models.get(name)
        if model is None:
            raise ModelNotConfigured(name, "this server knows " + ", ".join(self._models))
        return model

    async def close(self) -> None:
        """Close all connections."""
        for endpoint in self._endpoints.values():
            await endpoint.transport.close()


def _with_fallbacks(made: Mapping[str, ChatModel], names: Sequence[str]) -> ChatModel:
    """Return the first of some models, with those of the others that have a key as fallbacks.

    All of them, with a key or without, are part of the conditions that can change a verdict.
    """
    model, *others = (made[name] for name in names)
    if not others:
        return model
    fallback: ChatModel | None = None
    for other in reversed(others):
        fallback = fallback if other.problem else replace(other, fallback=fallback)
    fallbacks = [
        [c.name, c.provider, c.dialect, c.model, c.conditions] for c in (o.card for o in others)
    ]
    conditions = orjson.dumps([model.card.conditions, fallbacks]).decode()
    return replace(model, card=replace(model.card, conditions=conditions), fallback=fallback)


def _card(
    model: ModelConfiguration,
    provider: ProviderConfiguration,
    where: str,
) -> ChatModelCard:
    return ChatModelCard(
        name=model.name,
        provider=model.provider,
        dialect=provider.dialect,
        model=model.model,
        structured=model.structured is not Structured.NONE,
        prices=model.prices,
        takes_temperature=model.send_temperature,
        conditions=orjson.dumps(
            [
                where,
                model.structured,
                model.send_temperature,
                model.send_seed,
                model.max_tokens_parameter,
                model.schema_bounds,
            ]
        ).decode(),
    )
