"""Switches a guard of the server off in every Python process that has this folder in PYTHONPATH.

The variable GUARD_OFF names which. `test_guards.py` starts tests like that, and expects them to
fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any


def budget_of_a_day() -> None:
    """Reserve whatever is asked for."""
    from judged_server.llm.budget.account import BudgetAccount

    def take(self: Any, amount: int) -> Any:
        self._roll_over()
        self._held[self._now] = self._held.get(self._now, 0) + amount
        return self._now

    BudgetAccount.take = take


def usable_certificate() -> None:
    """Take any files for a certificate."""
    from judged_server.api import certificates

    forever: Any = datetime.max.replace(tzinfo=UTC)
    certificates.load = lambda files: certificates.Loaded(files, forever)


def rotated_certificates() -> None:
    """Show the first certificate for ever."""
    from judged_server.api.certificates import Certificates

    Certificates._take = lambda self, state: ""


def ends_of_tokens() -> None:
    """Let tokens count for ever."""
    from judged_server.tenants.token_file import StoredToken

    StoredToken.live = lambda self, now: True


def revoked_tokens() -> None:
    """Let calls of a revoked token go on."""
    from judged_server.tenants.directory import FileDirectory

    FileDirectory.counts = lambda self, identity: True


def failed_calls() -> None:
    """Let strangers go on for ever."""
    from judged_server.api.authentication import FailedCalls

    FailedCalls.note = lambda self, peer: None


def credentials_of_calls() -> None:
    """Take every caller for somebody."""
    from judged_server.api.authentication import Authenticator
    from judged_server.tenant import EVERYBODY
    from judged_server.tenants.directory import Identity

    somebody = Identity(EVERYBODY, uri="somebody")
    Authenticator.identify = lambda self, metadata, context: somebody


def urls_of_providers() -> None:
    """Take any URL for that of a provider."""
    from judged_server.llm.config import configuration

    configuration._check_base_url = lambda provider: None


def addresses_of_providers() -> None:
    """Take any address for one of the internet."""
    from judged_server.llm.transport import http

    http.is_public = lambda address: True


def redirects_of_providers() -> None:
    """Follow redirects."""
    import aiohttp

    post = aiohttp.ClientSession.post

    def follow(self: Any, url: Any, **options: Any) -> Any:
        return post(self, url, **{**options, "allow_redirects": True})

    aiohttp.ClientSession.post = follow


def characters_of_keys() -> None:
    """Take any text for a key, line breaks included."""
    from judged_server.llm.config import secrets

    secrets._is_key = lambda value: True


def words_of_others() -> None:
    """Quote what a library says of a failed request."""
    from judged_server.llm.chat import Reason
    from judged_server.llm.transport.http import HttpTransport

    def classify(self: Any, error: Exception) -> Any:
        return self._fault(f"failed: {error}", Reason.PROVIDER_UNREACHABLE)

    HttpTransport._classify = classify


def reflection_by_flag() -> None:
    """Offer reflection to everybody."""
    from judged_server.settings import Settings

    Settings.model_fields["reflection"].default = True
    Settings.model_rebuild(force=True)


def repeated_requests() -> None:
    """Keep no reply for the next try of a call."""
    from judged_server.api.idempotency import IdempotentCalls

    IdempotentCalls._find = lambda self, request_id: None


def usable_tenants() -> None:
    """Take a file of tenants at the first look, though it may be half written."""
    from judged_server.tenants.directory import FileDirectory

    refresh = FileDirectory.refresh

    def at_once(self: FileDirectory) -> bool:
        self._before = self._look()
        return refresh(self)

    FileDirectory.refresh = at_once


def numbers_of_settings() -> None:
    """Let settings be infinite."""
    from judged_server.settings import Settings

    Settings.model_config["allow_inf_nan"] = True
    for field in Settings.model_fields.values():
        field.metadata.clear()
    Settings.model_rebuild(force=True)


def want_of_memory() -> None:
    """Take want of memory for a fault of the model."""
    from judged_server.embedding.batching import workers

    workers._is_memory = lambda error: False


def halved_batches() -> None:
    """Give a failed batch up as a whole, and never call the model unwell."""
    from judged_server.embedding.batching import workers

    workers._fault = lambda result: None


def stacks_of_a_standing_loop() -> None:
    """Write nothing of a loop that stands."""
    from judged_server.process.watchdog import Watchdog

    Watchdog._watch = lambda self: None


def end_of_a_standing_loop() -> None:
    """Let a loop stand for ever."""
    import judged_server.process.watchdog

    watchdog: Any = judged_server.process.watchdog
    watchdog.faulthandler.dump_traceback_later = lambda *_, **__: None


def unread_replies() -> None:
    """Wait for ever until a reply is read."""
    from judged_server.api.interceptor import CallInterceptor

    async def written(self: Any, context: Any, reply: Any) -> None:
        await context.write(reply)

    CallInterceptor._written = written


def line_of_health_checks() -> None:
    """Let health checks wait behind all calls that came before them."""
    import grpc
    from judged_server.api.listeners import HEALTH, Services

    def register(self: Any, server: Any) -> None:
        handlers = dict(self.interceptor.handlers(HEALTH, self.health, limited=False))
        finder = grpc.method_handlers_generic_handler(HEALTH.full_name, handlers)
        server.add_generic_rpc_handlers((finder,))

    Services.register_health = register


def chunks_in_flight() -> None:
    """Let a stream have as many chunks read and not answered as its caller sends."""
    from judged_server.api import streams

    window = streams.work_in_window

    def endless(requests: Any, _: int, begin: Any) -> Any:
        return window(requests, 1 << 20, begin)

    streams.work_in_window = endless


def lag_of_the_loop() -> None:
    """Measure nothing of the loop."""
    from judged_server.monitoring.port import MonitoringPort

    async def nothing(self: Any) -> None:
        pass

    MonitoringPort._measure_lag = nothing


def calls_that_have_ended() -> None:
    """Keep what a call that has ended held."""
    from judged_server.api.interceptor import CallInterceptor

    CallInterceptor._end = lambda self, call: None


def addresses_of_listeners() -> None:
    """Listen wherever it is asked for, reflection and all."""
    from judged_server import wiring

    wiring.refuse_open_address = lambda settings, setting, address, *, tls: None


def core_dumps() -> None:
    """Let a crash write the memory of the server to a disk."""
    import resource

    limit = resource.setrlimit

    def unless_core(kind: int, limits: tuple[int, int]) -> None:
        if kind != resource.RLIMIT_CORE:
            limit(kind, limits)

    resource.setrlimit = unless_core


def deadlines_at_the_door() -> None:
    """Let work in that can't be done before its deadline."""
    from judged_server.scheduling.admission import Admission

    admit = Admission.admit

    def patient(self: Any, call: Any, now: float) -> Any:
        call.deadline = None
        return admit(self, call, now)

    Admission.admit = patient


def deadlines_of_others() -> None:
    """Give calls without a deadline none."""
    from judged_server.api.interceptor import CallInterceptor

    let_in = CallInterceptor._let_in

    def for_ever(self: Any, call: Any, *given: Any, **how: Any) -> None:
        let_in(self, call, *given, **how)
        call.limit_s = None

    CallInterceptor._let_in = for_ever


def memory_of_requests() -> None:
    """Let requests in whatever memory those in work take."""
    from contextlib import ExitStack

    from judged_server.api.requests import Admission

    Admission.admit = lambda self, memory, sender=None: ExitStack()


def size_when_inflated() -> None:
    """Inflate whatever it becomes."""
    from judged_server.api.requests import Unread

    size = Unread.size
    Unread.size = lambda self, most: size(self, 1 << 40)


def end_of_a_drain() -> None:
    """Stop without waiting for calls."""
    from judged_server.api.interceptor import CallInterceptor

    async def at_once(self: Any, *_: Any) -> None:
        pass

    CallInterceptor.wait_quiet = CallInterceptor.cut_short = at_once


def calls_of_a_connection() -> None:
    """Let a connection have as many calls in work as it likes."""
    import judged_server.api.listeners

    connections: Any = judged_server.api.listeners
    options = connections.connection_options

    def generous(*given_options: int) -> Any:
        given = options(*given_options)
        return tuple(each for each in given if each[0] != "grpc.max_concurrent_streams")

    connections.connection_options = generous


def pings_of_a_connection() -> None:
    """Let a connection ping as often as it likes."""
    import judged_server.api.listeners

    connections: Any = judged_server.api.listeners
    options = connections.connection_options

    def patient(*given_options: int) -> Any:
        return (*options(*given_options), ("grpc.http2.max_ping_strikes", 0))

    connections.connection_options = patient


GUARDS: dict[str, Callable[[], None]] = {
    guard.__name__: guard
    for guard in (
        budget_of_a_day,
        usable_certificate,
        ends_of_tokens,
        revoked_tokens,
        failed_calls,
        credentials_of_calls,
        urls_of_providers,
        addresses_of_providers,
        redirects_of_providers,
        characters_of_keys,
        words_of_others,
        reflection_by_flag,
        repeated_requests,
        usable_tenants,
        numbers_of_settings,
        want_of_memory,
        halved_batches,
        rotated_certificates,
        stacks_of_a_standing_loop,
        end_of_a_standing_loop,
        unread_replies,
        line_of_health_checks,
        chunks_in_flight,
        lag_of_the_loop,
        calls_that_have_ended,
        addresses_of_listeners,
        core_dumps,
        deadlines_at_the_door,
        deadlines_of_others,
        memory_of_requests,
        size_when_inflated,
        end_of_a_drain,
        calls_of_a_connection,
        pings_of_a_connection,
    )
}

if name := os.environ.get("GUARD_OFF"):
    GUARDS[name]()
