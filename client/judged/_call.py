"""What both clients share around a call: the deadline, the one retry loop, what a failure means.

Owns the decisions and no I/O: a client asks, then sends or sleeps in its own way. gRPC's own
retries are off (`_channel`).
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass

from judged import errors
from judged._status import REQUEST_ID, may_retry
from judged.v1 import judge_service_pb2 as pb

MAX_TRIES = 6
FIRST_DELAY_S = 0.1
MAX_DELAY_S = 5.0
CHUNKS_IN_FLIGHT = 4
IDENTIFIED = (pb.BatchJudgeRequest, pb.EvaluateRequest)
"""Requests that have a request_id."""


@dataclass(slots=True)
class RetryBudget:
    """Lets about one call in ten be a retry, so that a sick server is not finished off.

    Starts with room for a few retries; every answered call earns a tenth of one.
    """

    tokens: float = 10.0
    limit: float = 10.0
    earn: float = 0.1

    def answered(self) -> None:
        """Note a call that was answered."""
        self.tokens = min(self.limit, self.tokens + self.earn)

    def take(self) -> bool:
        """Take one retry from the budget; say whether there was one."""
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Deadline:
    """The time a call has as a whole: all its chunks, tries and waits."""

    def __init__(self, timeout: float) -> None:
        if not timeout > 0:
            raise ValueError("timeout must be a positive number of seconds")
        self.timeout = timeout
        self._ends = time.monotonic() + timeout

    def left(self) -> float:
        """Return the seconds left; raise DeadlineExceeded when there are none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise errors.DeadlineExceeded(
                f"no answer within {self.timeout:g} s; allow more with timeout=, or send less",
                code="DEADLINE_EXCEEDED",
            )
        return left


class Attempts:
    """The tries of one message. Ask `wait_after` for every failure."""

    def __init__(
        self, deadline: Deadline, budget: RetryBudget, request: object | None = None
    ) -> None:
        """Give the tries one id, by which the server answers them as one call where it can."""
        self._deadline = deadline
        self._budget = budget
        self._failed = 0
        request_id = str(uuid.uuid4())
        self.metadata = ((REQUEST_ID, request_id),)
        if isinstance(request, IDENTIFIED):
            request.request_id = request_id

    def timeout(self) -> float:
        """Return the seconds the next try may take."""
        return self._deadline.left()

    def wait_after(self, error: errors.JudgedError) -> float:
        """Return the seconds to wait before the next try; raise the error when there is none.

        There is none for failures that would repeat, after MAX_TRIES, without budget, or when the
        wait would leave less than a quarter of the deadline.
        """
        self._failed += 1
        if not may_retry(error) or self._failed >= MAX_TRIES:
            raise error
        backoff = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** (self._failed - 1))
        # Full jitter, so that callers turned away together do not come back together.
        wait = random.uniform(0, backoff)  # noqa: S311 - jitter is no secret
        wished = getattr(error, "retry_after", None)
        if wished is not None:
            wait += wished
        if self._deadline.left() - wait < self._deadline.timeout / 4 or not self._budget.take():
            raise error
        return wait
