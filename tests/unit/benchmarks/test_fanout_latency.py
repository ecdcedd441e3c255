"""Small calls at a rate: every way to send them reaches the model, and every call is counted."""

from pathlib import Path

import pytest

from benchmarks.fanout import latency, processes
from benchmarks.fanout.worker import configuration
from benchmarks.harness import serving

CALLS = 20


@pytest.fixture(scope="module")
def provider():
    with processes.running("benchmarks.fanout.provider", "0.02") as process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"


@pytest.fixture(scope="module")
def server(provider, tmp_path_factory):
    config = Path(tmp_path_factory.mktemp("fanout"), "llm.toml")
    config.write_text(processes.to_toml(configuration(provider, 64)), encoding="utf-8")
    flags = ("--llm-config", str(config), "--llm-cache", "memory")
    with serving("judged_server", *flags, "--max-chunks-in-flight", "64") as running:
        yield running


@pytest.fixture(scope="module")
def address(server):
    return server.address


def test_calls_of_their_own_and_what_the_server_says_of_them(server):
    log = latency.AccessLog(server.log)
    seen = latency.called(server.address, CALLS, seed=1)
    own = log.overheads(CALLS)
    assert seen.answered == own.answered == CALLS
    # What the server had of a call is a part of it, provider's time left out on both sides.
    for percentile in (1, 50, 100):
        assert 0 < own.milliseconds(percentile) < seen.milliseconds(percentile)


def test_chunks_of_one_stream(address):
    tally = latency.streamed(address, CALLS, seed=2)
    assert tally.answered == CALLS


def test_a_bare_loop(provider):
    tally = latency.bare(provider, CALLS, seed=3)
    assert tally.answered == CALLS


def test_a_judge_that_is_not_there_ends_it(address):
    with pytest.raises(SystemExit, match=r"calls failed: .*NOT_FOUND"):
        latency.called(address, CALLS, seed=4, kind="no_such_judge")
