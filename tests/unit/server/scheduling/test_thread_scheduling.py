"""The policy of threads: asked of the kernel, by the threads themselves."""

from __future__ import annotations

import os
import threading

import pytest
from judged_server.scheduling.concurrency import batch_scheduling

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="not run: Linux alone")


def policy_of_a_new_thread() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
    thread.start()
    thread.join()
    return found[0]


def test_threads_begun_inside_wait_and_others_do_not():
    with batch_scheduling():
        assert policy_of_a_new_thread() == os.SCHED_BATCH
    assert policy_of_a_new_thread() == os.sched_getscheduler(0) == os.SCHED_OTHER


def test_the_policy_is_given_back_after_a_failure():
    with pytest.raises(OSError, match="the port is taken"), batch_scheduling():
        raise OSError("the port is taken")
    assert os.sched_getscheduler(0) == os.SCHED_OTHER


@pytest.mark.parametrize("name", ["sched_setscheduler", "sched_getscheduler"])
def test_where_it_is_forbidden_threads_are_as_ever(monkeypatch: pytest.MonkeyPatch, name: str):
    def forbidden(*_: object) -> None:
        raise PermissionError

    with monkeypatch.context() as sandbox:
        sandbox.setattr(os, name, forbidden)
        with batch_scheduling():
            thread_id = threading.get_native_id()
    assert os.sched_getscheduler(thread_id) == policy_of_a_new_thread() == os.SCHED_OTHER


def test_where_it_is_unknown_threads_are_as_ever(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(os, "SCHED_BATCH")
    with batch_scheduling():
        assert policy_of_a_new_thread() == os.SCHED_OTHER


def test_a_policy_that_the_process_was_given_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "sched_getscheduler", lambda _: os.SCHED_IDLE)
    monkeypatch.setattr(os, "sched_setscheduler", lambda *_: pytest.fail("it was changed"))
    with batch_scheduling():
        pass
