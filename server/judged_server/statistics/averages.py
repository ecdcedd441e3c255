"""The mean over queries."""

from __future__ import annotations

import math

from judged_server.domain import FloatArray


def mean(values: FloatArray) -> float | None:
    """Return the mean, None of nothing. The sum is exact, so no order of the queries changes it."""
    return math.fsum(values.tolist()) / len(values) if len(values) else None
