from __future__ import annotations

from pathlib import Path

import pytest
from judged_server.process.memory import (
    FOLLOW_UP_LOOKS,
    UNLIMITED,
    MemoryWatch,
    Pressure,
    group_limit,
    heap_in_use,
    resident_bytes,
)

MIB = 1 << 20


def group(tmp_path: Path, line: str, limits: dict[str, str]) -> int:
    """Return the limit of a process whose /proc/self/cgroup is `line`."""
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    proc.mkdir()
    (proc / "cgroup").write_text(line)
    for path, text in limits.items():
        (groups / path).parent.mkdir(parents=True, exist_ok=True)
        (groups / path).write_text(text)
    return group_limit(proc, groups)


@pytest.mark.parametrize(
    ("line", "limits", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "1000\n"}, 1000),
        ("0::/a/b\n", {"a/b/memory.max": "500\n", "a/memory.max": "1000\n"}, 500),
        ("0::/of/the/host\n", {"memory.max": "700\n"}, 700),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": "900\n"}, 900),
        ("4:cpu,memory:/x\n", {"memory/memory.limit_in_bytes": "800\n"}, 800),
        ("3:cpu:/a\n0::/\n", {"cpu/a/memory.limit_in_bytes": "1"}, UNLIMITED),
        ("", {}, UNLIMITED),
    ],
)
def test_the_limit_is_the_smallest_up_to_the_root(
    tmp_path: Path, line: str, limits: dict[str, str], expected: int
):
    assert group_limit(Path("/nonexistent")) == UNLIMITED
    assert group(tmp_path, line, limits) == expected


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="not run: Linux alone")
def test_the_resident_memory_is_that_of_this_process():
    before = resident_bytes()
    block = bytearray(64 * MIB)
    block[::4096] = b"x" * len(block[::4096])
    assert resident_bytes() - before > 48 * MIB


class Heap:
    """Memory of a process that grows as told, and is trimmed to what is used."""

    def __init__(self) -> None:
        self.held = self.used = 100 * MIB
        self.trims = 0

    def trim(self) -> None:
        self.trims += 1
        self.held = self.used


@pytest.mark.parametrize(
    ("held", "pressure"),
    [(800, Pressure.NONE), (860, Pressure.HIGH), (960, Pressure.CRITICAL)],
)
async def test_pressure_is_by_the_share_of_the_limit(held: int, pressure: Pressure):
    heap = Heap()
    watch = MemoryWatch(1000 * MIB, lambda: heap.held, heap.trim)
    heap.held = heap.used = held * MIB
    await watch.look(idle=False)
    assert watch.pressure is pressure
    heap.held = heap.used = 100 * MIB
    await watch.look(idle=False)
    assert watch.pressure is Pressure.NONE


async def test_the_heap_is_trimmed_after_a_burst_once_nothing_is_in_work():
    heap = Heap()
    watch = MemoryWatch(UNLIMITED, lambda: heap.held, heap.trim)
    heap.held = 500 * MIB
    await watch.look(idle=False)
    assert heap.trims == 0
    await watch.look(idle=True)
    assert (heap.trims, heap.held) == (1, 100 * MIB)
    heap.held += 1 * MIB
    await watch.look(idle=True)
    assert heap.trims == 1


async def test_what_is_in_use_is_not_trimmed_over_and_over():
    heap = Heap()
    watch = MemoryWatch(UNLIMITED, lambda: heap.held, heap.trim)
    heap.held = heap.used = 500 * MIB
    for _ in range(5 * FOLLOW_UP_LOOKS):
        await watch.look(idle=True)
    assert heap.trims == 2


async def test_what_was_freed_after_a_trim_goes_back_too():
    heap = Heap()
    watch = MemoryWatch(UNLIMITED, lambda: heap.held, heap.trim)
    heap.held = heap.used = 500 * MIB
    await watch.look(idle=True)
    heap.used = 100 * MIB
    for _ in range(FOLLOW_UP_LOOKS):
        assert heap.held == 500 * MIB
        await watch.look(idle=False)  # work holds it up
        await watch.look(idle=True)
    assert heap.held == 100 * MIB


async def test_memory_that_is_short_is_trimmed_amid_work():
    heap = Heap()
    watch = MemoryWatch(1000 * MIB, lambda: heap.held, heap.trim)
    heap.held = 900 * MIB
    await watch.look(idle=False)
    assert (heap.trims, watch.pressure) == (1, Pressure.NONE)


def test_the_heap_in_use_is_what_was_given_out_and_not_got_back():
    before = heap_in_use()
    if before is None:
        pytest.skip("not run: glibc tells no counts of its heap before 2.33")
    kept = [bytearray(MIB) for _ in range(64)]
    during = heap_in_use()
    del kept
    after = heap_in_use()
    assert during is not None
    assert after is not None
    assert during - before > 60 * MIB
    assert after - before < 8 * MIB
