"""The process: limits of control groups, memory, the event loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from judged_server import process
from judged_server.process import (
    UNLIMITED,
    MemoryWatch,
    Pressure,
    available_cores,
    memory_limit,
)

MIB = 1 << 20


class Groups:
    """Files of the process's control groups."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.proc, self.groups = folder / "proc", folder / "groups"
        self.proc.mkdir()
        monkeypatch.setattr(process, "_PROC", self.proc)
        monkeypatch.setattr(process, "_GROUPS", self.groups)

    def write(self, line: str, files: dict[str, str]) -> None:
        (self.proc / "cgroup").write_text(line)
        for path, text in files.items():
            (self.groups / path).parent.mkdir(parents=True, exist_ok=True)
            (self.groups / path).write_text(text)


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    return Groups(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("line", "limits", "expected"),
    [
        ("0::/a/b\n", {"a/b/memory.max": "max\n", "a/memory.max": "1000\n"}, 1000),
        ("0::/a/b\n", {"a/b/memory.max": "500\n", "a/memory.max": "1000\n"}, 500),
        ("0::/of/the/host\n", {"memory.max": "700\n"}, 700),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": "900\n"}, 900),
        ("3:cpu:/a\n0::/\n", {"cpu/a/memory.limit_in_bytes": "1"}, UNLIMITED),
        ("0::/a\n", {"a/memory.max": "junk"}, UNLIMITED),
    ],
)
def test_the_memory_limit_is_the_smallest_up_to_the_root(
    groups: Groups, line: str, limits: dict[str, str], expected: int
):
    assert memory_limit() == UNLIMITED
    groups.write(line, limits)
    assert memory_limit() == expected


@pytest.mark.parametrize(
    ("line", "quotas", "expected"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "200000 100000\n"}, 2),
        ("0::/\n", {"cpu.max": "20000 100000\n"}, 1),
        ("0::/\n", {"cpu.max": "9900000 100000\n"}, 8),
        ("0::/\n", {"cpu.max": "100000 0\n"}, 8),
        ("0::/a/b\n", {"a/cpu.max": "max 100000\n", "a/b/cpu.max": "300000 100000\n"}, 3),
        (
            "5:cpu,cpuacct:/x\n0::/y\n",
            {"cpu/x/cpu.cfs_quota_us": "250000\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            2,
        ),
        (
            "5:cpu,cpuacct:/x\n",
            {"cpu/x/cpu.cfs_quota_us": "-1\n", "cpu/x/cpu.cfs_period_us": "100000\n"},
            8,
        ),
    ],
)
def test_a_quota_anywhere_above_the_process_bounds_the_cores(
    groups: Groups, line: str, quotas: dict[str, str], expected: int
):
    assert available_cores() == 8
    groups.write(line, quotas)
    assert available_cores() == expected


class Heap:
    """Memory of a process that grows as told, and is trimmed to what is used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held = self.used = 100 * MIB
        self.trims = 0
        monkeypatch.setattr(process, "resident_bytes", lambda: self.held)
        monkeypatch.setattr(process, "trim_heap", self.trim)

    def trim(self) -> None:
        self.trims += 1
        self.held = self.used


@pytest.fixture
def heap(monkeypatch: pytest.MonkeyPatch) -> Heap:
    return Heap(monkeypatch)


@pytest.mark.parametrize(
    ("held", "pressure"),
    [(800, Pressure.NONE), (860, Pressure.HIGH), (960, Pressure.CRITICAL)],
)
async def test_pressure_is_by_the_share_of_the_limit(heap: Heap, held: int, pressure: Pressure):
    watch = MemoryWatch(1000 * MIB)
    heap.held = heap.used = held * MIB
    await watch.look(idle=False)
    assert watch.pressure is pressure
    heap.held = heap.used = 100 * MIB
    await watch.look(idle=False)
    assert watch.pressure is Pressure.NONE


async def test_the_heap_is_trimmed_after_a_burst_once_nothing_is_in_work(heap: Heap):
    watch = MemoryWatch(UNLIMITED)
    heap.held = 500 * MIB
    await watch.look(idle=False)
    assert heap.trims == 0
    await watch.look(idle=True)
    assert (heap.trims, heap.held) == (1, 100 * MIB)
    heap.held += 1 * MIB
    await watch.look(idle=True)
    assert heap.trims == 1


HELD_UP = """
import asyncio, time
from judged_server.process import watch_loop

def held_up_here():
    time.sleep(10)

async def main():
    watch = asyncio.create_task(watch_loop(0.5))
    await asyncio.sleep(0)
    held_up_here()
    await asyncio.sleep(0)
    print("goes on")

asyncio.run(main())
"""


def test_a_process_whose_loop_stands_for_long_ends_with_its_stacks():
    command = [sys.executable, "-c", HELD_UP]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "goes on" not in done.stdout
    assert "in held_up_here" in done.stderr
