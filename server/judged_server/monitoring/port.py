"""The port of an operator: /metrics, /healthz, /readyz. For this machine only, by GET only."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from judged_server.address import Address, AddressError
from judged_server.http_server import runner_of, wrong_host
from judged_server.monitoring.prometheus import PrometheusMetrics

LAG_EVERY_S = 0.25
"""How often it is looked how late the event loop is."""
_TIMEOUT_S = 5.0
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class MonitoringPort:
    """Serves metrics and readiness over HTTP. Used on one event loop."""

    def __init__(
        self,
        address: Address,
        metrics: PrometheusMetrics,
        is_ready: Callable[[], bool],
        lag_every_s: float = LAG_EVERY_S,
    ) -> None:
        """Measure every `lag_every_s` seconds how late the event loop is.

        Raises AddressError for an address that others can reach: nobody is asked who calls.
        """
        if not address.is_local or address.path is not None:
            raise AddressError(
                f"metrics_listen {address}: is for this machine only; name a port of 127.0.0.1"
            )
        self.address = address
        self._metrics = metrics
        self._is_ready = is_ready
        self._lag_every_s = lag_every_s
        self._runner: web.AppRunner | None = None
        self._lag: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listen. Raises AddressError when that fails."""
        application = web.Application()
        application.router.add_get("/metrics", self._tell_metrics, allow_head=False)
        runner = runner_of(application, self._is_ready, keepalive_timeout=_TIMEOUT_S)
        await runner.setup()
        site = web.TCPSite(runner, self.address.host, self.address.port)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise AddressError(
                f"metrics_listen: can't listen on {self.address}: {error.strerror}; pick another "
                "port, or 0 for any"
            ) from None
        self.address = Address(self.address.host, runner.addresses[0][1])
        self._runner = runner
        self._lag = asyncio.create_task(self._measure_lag())

    async def close(self) -> None:
        """Stop listening."""
        if self._lag is not None:
            self._lag.cancel()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _measure_lag(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._lag_every_s
            await asyncio.sleep(self._lag_every_s)
            self._metrics.lag(max(0.0, loop.time() - due))

    async def _tell_metrics(self, request: web.Request) -> web.Response:
        if refused := wrong_host(request):
            raise web.HTTPForbidden(text=f"{refused}\n")
        text = await asyncio.to_thread(self._metrics.text)
        return web.Response(body=text, headers={"Content-Type": _TEXT})
