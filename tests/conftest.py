from __future__ import annotations

import os
import signal
import tempfile

import pytest
from hypothesis import settings

from tests.offline import NETWORK

# Servers of tests begin with what they were given: no vectors of an earlier run, none left behind.
os.environ.setdefault("JUDGED_VECTOR_CACHE", "memory")
# Nor replies of language models.
os.environ.setdefault("JUDGED_LLM_CACHE", "memory")
# Nor what tenants spent, which is not to stand among what the user's own servers did.
_state = tempfile.TemporaryDirectory()
os.environ["XDG_STATE_HOME"] = _state.name
# And they compute alike on every machine; what may be chosen instead has tests of its own.
os.environ.setdefault("JUDGED_EMBEDDING_BACKEND", "onnxruntime")

# A script's background job is started with SIGINT ignored, and so is all that its tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says nothing on a shared machine; benchmarks measure time.
# Where a failure turns a change away, the examples are those of the run before; at a desk they are
# new each time, which is how they find something.
settings.register_profile("judged", deadline=None, max_examples=50, derandomize="CI" in os.environ)
settings.load_profile("judged")


def pytest_report_header() -> str:
    """Say whether the network is denied: `make test` denies it, a bare pytest does not."""
    return f"network: {os.environ.get(NETWORK, 'open')}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Fail a test that was skipped for want of a tool where JUDGED_TOOLS_INSTALLED is set.

    Such a test names the tool's package in its reason: "not run: no nginx (apt-get install nginx)".
    """
    report = yield
    if report.skipped and "JUDGED_TOOLS_INSTALLED" in os.environ:
        reason = str(report.longrepr)
        if "apt-get install" in reason:
            report.outcome = "failed"
            report.longrepr = f"skipped, though its tools should be installed: {reason}"
    return report
