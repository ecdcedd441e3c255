"""The collector as a server wants it: seldom, over little, and still at work; and the C heap."""

import ctypes
import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
from judged_server.process import gc_tuning


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
    gc_tuning.settle()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold() == gc_tuning.THRESHOLDS
    knot = weakref.ref(Knot())
    keep: list[list[object]] = []
    for _ in range(gc_tuning.THRESHOLDS[0] + 1000):
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


@GLIBC
@pytest.mark.usefixtures("_as_it_was")
def test_holes_are_given_back():
    """20,000 blocks of which a few keep the rest from being given back by the heap itself."""
    blocks = [bytes([n % 256]) * 5_000 for n in range(20_000)]
    kept = blocks[::200]
    del blocks
    before = heap_mb()
    gc_tuning.settle()
    assert heap_mb() < before - 50
    assert len(kept) == 100


@pytest.mark.usefixtures("_as_it_was")
def test_other_c_libraries_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    gc_tuning.settle()


FREES = """
import threading
from judged_server.process import gc_tuning
from tests.unit.server.process.test_gc_tuning import heap_mb

def work():
    large = bytearray(24 << 20)  # once it is freed, glibc would keep 48 MB
    del large
    small = [bytes(1500) for _ in range(30_000)]
    small.clear()
    done.set()
    stay.wait()

gc_tuning.settle()
before, done, stay = heap_mb(), threading.Event(), threading.Event()
threading.Thread(target=work).start()
done.wait()
print(heap_mb() - before)
stay.set()
"""
