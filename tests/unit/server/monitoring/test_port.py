"""The operator's port: what it measures by itself."""

from __future__ import annotations

import asyncio
import re
import time

from judged_server.address import Address
from judged_server.monitoring.port import MonitoringPort
from judged_server.monitoring.prometheus import PrometheusMetrics, Readings

STANDS_S = 0.3


async def test_how_late_the_loop_was_is_told():
    metrics = PrometheusMetrics(Readings("1", {}, dict))
    opened = MonitoringPort(Address("127.0.0.1", 0), metrics, lambda: True, lag_every_s=0.01)
    await opened.open()
    await asyncio.sleep(0)  # it has begun to wait
    time.sleep(STANDS_S)  # noqa: ASYNC251 - the fault: nothing else runs meanwhile
    await asyncio.sleep(0.02)  # the measuring is due before
    await opened.close()
    (lag_s,) = re.findall(
        r"^judged_loop_lag_seconds_sum (\S+)$", metrics.text().decode(), re.MULTILINE
    )
    assert float(lag_s) > STANDS_S / 2
