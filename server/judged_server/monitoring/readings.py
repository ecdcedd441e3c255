"""The values of a server that are read when somebody asks for its metrics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from judged_server.api.certificates import Certificates
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.requests import Admission
from judged_server.domain import to_amount
from judged_server.embedding.registry import StoredEmbedders
from judged_server.llm.budgets import Budgets
from judged_server.monitoring.prometheus import Reading
from judged_server.process import heap_in_use

if TYPE_CHECKING:  # its import brings a library that most servers never need
    from judged_server.llm.models import ChatModels


def readings(
    is_ready: Callable[[], bool],
    interceptor: CallInterceptor,
    admission: Admission,
    embedders: StoredEmbedders,
    budgets: Budgets,
    chat_models: ChatModels | None,
    certificates: Certificates | None,
) -> Mapping[str, Reading]:
    """Return what can be read of the parts of a server, by the name of its metric."""
    gauges = {
        "judged_ready": Reading(
            "1 while the server is ready for calls.", lambda: {"": float(is_ready())}
        ),
        "judged_calls_in_work": Reading(
            "Calls that have begun and not ended.", lambda: {"": interceptor.in_work}
        ),
        "judged_request_bytes_in_work": Reading(
            "Bytes of the requests in work.", lambda: {"": admission.pending_bytes}
        ),
        "judged_queued_tokens": Reading(
            "Tokens of texts that wait for an embedding model, by estimate.",
            embedders.queued_tokens,
            "model",
        ),
        "judged_python_blocks": Reading(
            "Blocks of at most 512 bytes that Python's objects take.",
            lambda: {"": sys.getallocatedblocks()},
        ),
    }
    if heap_in_use() is not None:
        gauges["judged_heap_in_use_bytes"] = Reading(
            "Bytes that the C heap has given out; resident memory has what it keeps too.",
            lambda: {"": heap_in_use() or 0},
        )
    if chat_models is not None:
        gauges["judged_provider_breaker_open"] = Reading(
            "1 while requests to a provider are held until it answers again.",
            chat_models.open_breakers,
            "provider",
        )
    if budgets.day_left() is not None:
        gauges["judged_budget_left"] = Reading(
            "What is left of the budget of the day, as this process last saw it.",
            lambda: {budgets.currency: to_amount(budgets.day_left() or 0)},
            "currency",
        )
    if certificates is not None:
        gauges["judged_certificate_expiry_timestamp_seconds"] = Reading(
            "When the server's certificate ends, in seconds since 1970.",
            lambda: {"": certificates.now.ends.timestamp()},
        )
    return gauges
