"""The language models of one server, as the operator named them.

A model whose key is missing is listed all the same, with what to do.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import orjson
from pydantic import SecretStr

from judged_server.errors import ModelNotConfigured
from judged_server.llm.chat import (
    ChatModel,
    ChatModelCard,
    ChatRequest,
    Completed,
    FinishReason,
    TokenUsage,
)
from judged_server.llm.config.configuration import chain_of, read_configuration
from judged_server.llm.config.configured import (
    Configuration,
    ModelConfiguration,
    ProviderConfiguration,
    Structured,
)
from judged_server.llm.config.secrets import KeyMissing, key_of
from judged_server.llm.fallback import FallbackModel, with_chain
from judged_server.llm.providers import DIALECTS, Dialect
from judged_server.llm.providers.fake import FakeModel, Script, read_script
from judged_server.llm.transport.clock import Clock
from judged_server.llm.transport.endpoint import Call, Endpoint
from judged_server.llm.transport.http import HttpTransport
from judged_server.telemetry import logger

BYTES_A_TOKEN = 4
"""A usual English token; for the estimate that the rate of tokens needs before a reply."""

MOST_HIDDEN_TOKENS = 100_000
"""Tokens that a provider may add to a request, or think in before a reply, of its own accord."""
MOST_OUTPUT_SHARE = 10
"""Output tokens over `max_tokens` from which, beside those, a count is not believed: some providers
do not count what a model thinks among them."""

_MAY_BE_CUT = (FinishReason.STOP, FinishReason.OTHER, FinishReason.UNTOLD)

_log = logger("llm")


class ConfiguredModel:
    """A model of the configuration; implements chat.ChatModel."""

    def __init__(
        self,
        card: ChatModelCard,
        model: ModelConfiguration,
        dialect: Dialect,
        headers: Mapping[str, str],
        endpoint: Endpoint,
        clock: Clock,
        *,
        waits: bool = True,
    ) -> None:
        """Ask `endpoint`; wait while it is unhealthy, unless `waits` is false."""
        self._model = model
        self._dialect = dialect
        self._path = dialect.path(model)
        self._headers = headers
        self._endpoint = endpoint
        self._clock = clock
        self._waits = waits
        self.card = card
        self.cards = (card,)
        self.problem = ""

    def before_fallback(self) -> ConfiguredModel:
        """Return the same model, which gives up sooner: another one stands behind it."""
        return ConfiguredModel(
            self.card,
            self._model,
            self._dialect,
            self._headers,
            self._endpoint,
            self._clock,
            waits=False,
        )

    async def complete(self, request: ChatRequest, timeout_s: float) -> Completed:
        """Return the reply within `timeout_s` seconds, retries included. Raises ProviderFault."""
        began = self._clock.now()
        body = orjson.dumps(self._dialect.write_request(self._model, request))
        call = Call(
            self._path,
            self._headers,
            body,
            self._dialect.read_reply,
            len(body) // BYTES_A_TOKEN + request.max_tokens,
            request.receipt,
        )
        reply, attempts = await self._endpoint.ask(call, timeout_s, waits=self._waits)
        usage = reply.usage
        most_output = request.max_tokens * MOST_OUTPUT_SHARE + MOST_HIDDEN_TOKENS
        if usage.input_tokens > len(body) + MOST_HIDDEN_TOKENS or usage.output_tokens > most_output:
            _log.warning("llm usage not believed", model=self.card.name, counted=str(usage))
            reply = reply._replace(usage=TokenUsage())
        elif usage.output_tokens >= request.max_tokens and reply.finish_reason in _MAY_BE_CUT:
            # Whatever it says: some servers say "stop" of a reply that they cut.
            reply = reply._replace(finish_reason=FinishReason.LENGTH)
        return Completed(reply, attempts, self._clock.now() - began)


class MissingKeyModel:
    """A model whose key is missing; implements chat.ChatModel.

    It stands for its kept replies. `problem` says what to do to have it asked.
    """

    def __init__(self, card: ChatModelCard, problem: str) -> None:
        self.card = card
        self.cards = (card,)
        self.problem = problem

    async def complete(
        self,
        request: ChatRequest,  # noqa: ARG002 - of the protocol
        timeout_s: float,  # noqa: ARG002
    ) -> Completed:
        """Raise ModelNotConfigured."""
        raise ModelNotConfigured(self.card.name, self.problem)


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model as the server lists it: `problem` is "" when it can be asked, else what to do."""

    card: ChatModelCard
    problem: str


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
        self._endpoints = {
            provider.name: Endpoint(provider, clock, random, HttpTransport(provider))
            for provider in configuration.providers
            if provider.dialect in DIALECTS
        }
        scripts = {
            provider.name: read_script(provider.replies)
            for provider in configuration.providers
            if provider.replies is not None
        }
        keys, problems = _keys(configuration.providers, environ)
        providers = {provider.name: provider for provider in configuration.providers}
        named = {model.name: model for model in configuration.models}
        cards: dict[str, ChatModelCard] = {}
        alone: dict[str, ChatModel] = {}
        for model in configuration.models:
            provider = providers[model.provider]
            script = scripts.get(provider.name)
            card = cards[model.name] = _card(model, provider, script)
            if script is not None:
                alone[model.name] = FakeModel(card, script, clock)
            elif provider.name in keys:
                dialect = DIALECTS[provider.dialect]
                alone[model.name] = ConfiguredModel(
                    card,
                    model,
                    dialect,
                    dialect.headers(provider, keys[provider.name]),
                    self._endpoints[provider.name],
                    clock,
                )
        self._listed: dict[str, ListedModel] = {}
        self._models: dict[str, ChatModel] = {}
        for model in configuration.models:
            chain = chain_of(model.name, named)
            card = with_chain(cards[model.name], [cards[name] for name in chain])
            self._listed[model.name] = ListedModel(card, problems.get(model.provider, ""))
            if model.name not in alone:
                self._models[model.name] = MissingKeyModel(card, problems[model.provider])
                continue
            # Those behind it whose key is missing are left out; that was logged above.
            able = [alone[name] for name in (model.name, *chain) if name in alone]
            able[:-1] = [
                one.before_fallback() if isinstance(one, ConfiguredModel) else one
                for one in able[:-1]
            ]
            self._models[model.name] = (
                FallbackModel(card, able, clock) if chain else alone[model.name]
            )

    @classmethod
    def load(cls, path: Path, environ: Mapping[str, str] = os.environ) -> ChatModels:
        """Return the models of a file. Raises SettingsError, which names the file and the place."""
        return cls(read_configuration(path), environ)

    def listed(self) -> tuple[ListedModel, ...]:
        """Return the models as they are now, the default first, those that can't be asked too."""
        return tuple(
            replace(listed, problem=listed.problem or self._refused_key(listed.card))
            for listed in self._listed.values()
        )

    def open_breakers(self) -> dict[str, float]:
        """Return 1 for each provider that is not asked until it answers again, 0 for the others."""
        return {name: float(each.is_unhealthy) for name, each in self._endpoints.items()}

    def _refused_key(self, card: ChatModelCard) -> str:
        """Return what to do about a model's key, "" while a fallback may answer."""
        endpoint = self._endpoints.get(card.provider)
        if endpoint is None or isinstance(self._models[card.name], FallbackModel):
            return ""
        return endpoint.problem

    def get(self, name: str) -> ChatModel:
        """Return a model by name, "" for the default; one without its key has a `problem`.

        Raises ModelNotConfigured with the next step when there is none.
        """
        name = name or next(iter(self._listed))
        model = self._models.get(name)
        if model is None:
            raise ModelNotConfigured(name, "this server knows " + ", ".join(self._listed))
        return model

    async def close(self) -> None:
        """Close all connections."""
        for endpoint in self._endpoints.values():
            await endpoint.close()


def _keys(
    providers: tuple[ProviderConfiguration, ...], environ: Mapping[str, str]
) -> tuple[dict[str, SecretStr | None], dict[str, str]]:
    """Return the keys of the providers that can be asked, and the problems of the others."""
    keys: dict[str, SecretStr | None] = {}
    problems: dict[str, str] = {}
    for provider in providers:
        if provider.dialect not in DIALECTS:
            continue
        try:
            keys[provider.name] = key_of(provider, environ)
        except KeyMissing as missing:
            problems[provider.name] = f"{missing}, and start the server again"
            _log.warning("llm provider unavailable", provider=provider.name, reason=str(missing))
    return keys, problems


def _card(
    model: ModelConfiguration, provider: ProviderConfiguration, script: Script | None
) -> ChatModelCard:
    return ChatModelCard(
        name=model.name,
        provider=model.provider,
        dialect=provider.dialect,
        model=model.model,
        structured=model.structured is not Structured.NONE,
        logprobs=model.logprobs,
        prices=model.prices,
        takes_temperature=model.send_temperature,
        conditions=orjson.dumps(
            [
                provider.base_url if script is None else script.sha256,
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
