"""How a private server ends with whoever started it, and how commands end by Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.integration.server_process import until

# Each says the address of its server, once whatever is to be over by then is over.
STARTS = {
    "a command": """
with local() as address:
    print(address, flush=True)
    sys.stdin.read()
""",
    "a thread that has ended": """
def start():
    addresses.append(servers.enter_context(local()))
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(addresses[0], flush=True)
sys.stdin.read()
""",
    "the loop of a notebook's kernel": """
async def cell():
    addresses.append(await asyncio.to_thread(servers.enter_context, local()))
with concurrent.futures.ThreadPoolExecutor() as pool:
    pool.submit(asyncio.run, cell()).result()
print(addresses[0], flush=True)
sys.stdin.read()
""",
    "one who started others too": """
with local() as address:
    subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    print(address, flush=True)
    sys.stdin.read()
""",
}
BEGIN = """
import asyncio, concurrent.futures, contextlib, subprocess, sys, threading
from judged import local
addresses, servers = [], contextlib.ExitStack()
"""


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def serves(pid: int) -> bool:
    return b"judged_server" in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("name", STARTS)
def test_a_server_ends_with_its_process_and_not_before(name: str, tmp_path: Path):
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", BEGIN + STARTS[name]]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) as owner:
        address = owner.stdout.readline().decode().strip()
        started = children(owner.pid)
        (server,) = (pid for pid in started if serves(pid))
        asked = [sys.executable, "-m", "judged.cli", "judges", "--target", address]
        answered = subprocess.run(asked, capture_output=True, timeout=100, check=False)
        assert answered.returncode == 0, "it goes on while its process does"
        owner.kill()
    try:
        until(lambda: not runs(server), 100)
    finally:
        for pid in filter(runs, started):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("library", ["cygrpc", "_hashlib", "orjson"])
@pytest.mark.parametrize(
    "arguments", [["judged.cli", "judges"], ["judged_server", "--listen", "127.0.0.1:0"]]
)
def test_ctrl_c_while_a_command_starts_leaves_no_traceback(arguments: list[str], library: str):
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        until(lambda: library in maps.read_text() or process.poll() is not None)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=100)
    assert b"Traceback" not in said
    assert b"KeyboardInterrupt" not in said
    assert process.returncode in {-signal.SIGINT, 130, 0}
