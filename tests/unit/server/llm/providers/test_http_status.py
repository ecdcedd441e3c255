from __future__ import annotations

import pytest
from judged_server.llm.chat import Reason
from judged_server.llm.providers.reading import fault_of


@pytest.mark.parametrize(
    ("status", "reason", "retryable"),
    [
        (201, Reason.PROVIDER_ERROR, False),
        (307, Reason.PROVIDER_ERROR, False),
        (400, Reason.PROVIDER_ERROR, False),
        (401, Reason.PROVIDER_REFUSED_KEY, False),
        (402, Reason.RATE_LIMITED, False),
        (403, Reason.PROVIDER_REFUSED_KEY, False),
        (404, Reason.PROVIDER_ERROR, False),
        (408, Reason.PROVIDER_ERROR, True),
        (409, Reason.PROVIDER_ERROR, True),
        (413, Reason.PROVIDER_ERROR, False),
        (422, Reason.PROVIDER_ERROR, False),
        (429, Reason.RATE_LIMITED, True),
        (500, Reason.PROVIDER_ERROR, True),
        (529, Reason.PROVIDER_ERROR, True),
    ],
)
def test_what_may_pass_and_what_may_not(status, reason, retryable):
    fault = fault_of(status, b'{"error": "no"}')
    assert (fault.reason, fault.retryable, fault.status) == (reason, retryable, status)
    assert str(status) in fault.message
