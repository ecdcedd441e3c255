"""The values of a server that are read when somebody asks for its metrics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from judged_server.api.certificates import Certificates
from judged_server.api.interceptor import CallInterceptor
from judged_server.api.requests import Admission
from judged_server.audit import AuditLog
from judged_server.domain.usage import to_amount
from judged_server.embedding.registry import StoredEmbedders
from judged_server.llm.budget.budgets import Budgets
from judged_server.monitoring.prometheus import Reading, Readings
from judged_server.process.memory import heap_in_use
from judged_server.tenants.directory import FileDirectory

if TYPE_CHECKING:  # its import brings a library that most servers never need
    from judged_server.llm.models import ChatModels


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The parts of a server that values are read of."""

    version: str
    is_ready: Callable[[], bool]
    interceptor: CallInterceptor
    admission: Admission
    embedders: StoredEmbedders
    budgets: Budgets
    chat_models: ChatModels | None
    certificates: Certificates | None
    directory: FileDirectory | None
    audit_log: AuditLog | None
    reload_failures: Mapping[str, int]


def readings(parts: ServerParts) -> Readings:
    """Return what can be read of a server."""
    gauges = {
        "judged_ready": Reading(
            "1 while the server is ready for calls.", lambda: {"": float(parts.is_ready())}
        ),
        "judged_calls_in_work": Reading(
            "Calls that have begun and not ended.", lambda: {"": parts.interceptor.in_work}
        ),
        "judged_request_bytes_in_work": Reading(
            "Bytes of the requests in work.", lambda: {"": parts.admission.pending_bytes}
        ),
        "judged_queued_tokens": Reading(
            "Tokens of texts that wait for an embedding model, by estimate.",
            parts.embedders.queued_tokens,
            "model",
        ),
    }
    if heap_in_use() is not None:
        gauges["judged_heap_in_use_bytes"] = Reading(
            "Bytes that the C heap has given out; resident memory has what it keeps too.",
            lambda: {"": heap_in_use() or 0},
        )
    gauges["judged_python_blocks"] = Reading(
        "Blocks of at most 512 bytes that Python's objects take.",
        lambda: {"": sys.getallocatedblocks()},
    )
    if parts.chat_models is not None:
        gauges["judged_provider_breaker_open"] = Reading(
            "1 while requests to a provider are held until it answers again.",
            parts.chat_models.open_breakers,
            "provider",
        )
    if parts.budgets.day_left() is not None:
        gauges["judged_budget_left"] = Reading(
            "What is left of the budget of the day, as this process last saw it.",
            lambda: {parts.budgets.currency: to_amount(parts.budgets.day_left() or 0)},
            "currency",
        )
    certificates = parts.certificates
    if certificates is not None:
        gauges["judged_certificate_expiry_timestamp_seconds"] = Reading(
            "When the server's certificate ends, in seconds since 1970.",
            lambda: {"": certificates.now.ends.timestamp()},
        )
    return Readings(parts.version, gauges, lambda: _failures(parts))


def _failures(parts: ServerParts) -> Mapping[str, int]:
    return {
        "certificate": 0 if parts.certificates is None else parts.certificates.failures,
        "audit log": 0 if parts.audit_log is None else parts.audit_log.failures,
        "tenants": 0 if parts.directory is None else parts.directory.failures,
        **parts.reload_failures,
    }
