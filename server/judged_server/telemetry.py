"""Structured logs: one JSON object a line on standard error.

Owns the format and the levels. What is worth a line is up to the caller; texts that are judged
never are.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog

Logger = structlog.typing.FilteringBoundLogger


def _dump(event: dict[str, Any], **_: object) -> bytes:
    return orjson.dumps(event, default=repr)


def configure(level: str) -> None:
    """Send every log line of the process to standard error from `level` on."""
    structlog.configure(
        cache_logger_on_first_use=True,
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_dump),
        ],
        logger_factory=structlog.BytesLoggerFactory(file=sys.stderr.buffer),
    )


def logger(name: str) -> Logger:
    """Return a logger whose lines carry `name` as "part"."""
    bound: Logger = structlog.get_logger(part=name)
    return bound
