"""The collector as a server wants it: seldom, over little, and still at work; and the C heap."""

import asyncio
import ctypes
import gc
import itertools
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged_server import garbage


@pytest.fixture
def _as_it_was():
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


GLIBC = pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library has no malloc_trim"
)


class Knot:
    def __init__(self):
        self.itself = self


@pytest.mark.usefixtures("_as_it_was")
def test_what_is_there_is_left_out_and_new_cycles_are_collected():
    garbage.settle()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold() == garbage.THRESHOLDS
    knot = weakref.ref(Knot())
    keep: list[list[object]] = []
    for _ in range(garbage.THRESHOLDS[0] + 1000):
        keep.append([])
    assert knot() is None


def heap_mb() -> float:
    """Return the memory of this process that no file backs."""
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("RssAnon")
    )
    return int(line.split()[1]) / 1024


@GLIBC
def test_a_thread_keeps_little_of_what_it_freed():
    """In a process of its own: it changes how that one allocates for good."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:] = {sys.path!r}\n{FREES}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert float(ran.stdout) < 16


FREES = """
import threading
from judged_server import garbage
from tests.unit.server.test_garbage import heap_mb

def work():
    large = bytearray(24 << 20)  # once it is freed, glibc would keep 48 MB
    del large
    small = [bytes(1500) for _ in range(30_000)]
    small.clear()
    done.set()
    stay.wait()

garbage.settle()
before, done, stay = heap_mb(), threading.Event(), threading.Event()
threading.Thread(target=work).start()
done.wait()
print(heap_mb() - before)
stay.set()
"""


@GLIBC
class TestReturnMemory:
    @staticmethod
    def leave_holes() -> list[bytes]:
        """Return a few blocks that keep 100 MB of free ones beneath them from being given back."""
        blocks = [bytes([n % 256]) * 5_000 for n in range(20_000)]
        return blocks[::200]

    async def until_asked(self, times: int, counts: Iterator[int]) -> None:
        """Let it look at the work that was done so often, the first time at its start."""
        looked = asyncio.Event()
        left = itertools.count(times - 1, -1)

        def work() -> int:
            if next(left) <= 0:
                looked.set()
            return next(counts)

        task = asyncio.create_task(garbage.return_memory(work, every_s=0.001))
        await asyncio.wait_for(looked.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def test_free_memory_goes_back_when_there_was_work(self):
        kept = self.leave_holes()
        before = heap_mb()
        # It looks a third time only when it is done with what it saw the second time.
        await self.until_asked(3, itertools.chain([0], itertools.repeat(1)))
        assert heap_mb() < before - 50
        assert len(kept) == 100

    async def test_nothing_is_done_where_there_was_none(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(asyncio, "to_thread", None)  # which would raise
        await self.until_asked(5, itertools.repeat(7))


async def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    await asyncio.wait_for(garbage.return_memory(lambda: 0), 60)
