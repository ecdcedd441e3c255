"""A loop that stands: its stacks are written, and the process ends when that does not help."""

from __future__ import annotations

import subprocess
import sys

HELD_UP = """
import asyncio, time
from judged_server.process.watchdog import Watchdog

def held_up_here():
    time.sleep({held})

async def main():
    watch = asyncio.create_task(Watchdog({dump}, {end}).run())
    await asyncio.sleep(0)
    held_up_here()
    await asyncio.sleep(0)
    watch.cancel()
    print("goes on")

asyncio.run(main())
"""


def run(held: float, dump: float, end: float) -> subprocess.CompletedProcess[str]:
    """Return what became of a process whose loop stands for `held` seconds."""
    program = HELD_UP.format(held=held, dump=dump, end=end)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_stacks_of_a_loop_that_stands_are_written_once():
    done = run(held=1.5, dump=0.2, end=30)
    assert done.returncode == 0
    assert done.stdout.endswith("goes on\n")
    assert done.stderr.count("in held_up_here") == 1


def test_a_process_whose_loop_stands_for_long_ends_with_its_stacks():
    done = run(held=10, dump=0, end=0.5)
    assert done.returncode == 1
    assert "goes on" not in done.stdout
    assert "in held_up_here" in done.stderr


def test_nothing_happens_where_both_are_off():
    done = run(held=0.6, dump=0, end=0)
    assert (done.returncode, done.stdout, done.stderr) == (0, "goes on\n", "")
