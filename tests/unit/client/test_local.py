"""The private server's life, with other programs in its place."""

import subprocess
import sys

import pytest
from judged import FailedPrecondition, _local, local


@pytest.fixture
def acts(monkeypatch):
    """Let a Python program play the server; it finds the path of its port file in sys.argv[1]."""
    started = []

    def act(program):
        def start(folder, log):
            server = subprocess.Popen(
                [sys.executable, "-c", program, str(folder / "address")], stdout=log, stderr=log
            )
            started.append(server)
            return server

        monkeypatch.setattr(_local, "_start", start)
        return started

    return act


# Whole at once, as the server writes its own: the file is read as soon as it is there.
READY = """
import pathlib, sys
new = pathlib.Path(sys.argv[1] + ".new")
new.write_text("here:1\\n")
new.rename(sys.argv[1])
"""


class TestPrivateServer:
    def test_yields_the_address_and_stops_the_process(self, acts):
        started = acts(READY + "import time; time.sleep(60)")
        with local() as address:
            assert address == "here:1"
        assert started[0].returncode < 0

    def test_kills_a_process_that_hangs(self, acts, monkeypatch):
        monkeypatch.setattr(_local, "STOP_S", 0.05)
        deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        started = acts(deaf + READY + "time.sleep(60)")
        with local():
            pass
        assert started[0].returncode == -9

    def test_shows_why_it_did_not_start(self, acts):
        acts("import sys; sys.stderr.write('one\\nno model\\n'); sys.exit(2)")
        with pytest.raises(FailedPrecondition, match=r"did not start: no model"), local():
            pass

    def test_does_not_wait_for_ever(self, acts, monkeypatch):
        monkeypatch.setattr(_local, "START_S", 0.05)
        started = acts("import time; time.sleep(60)")
        with (
            pytest.raises(FailedPrecondition, match=r"did not start: it wrote no error"),
            local(),
        ):
            pass
        assert started[0].returncode < 0

    def test_says_what_to_install_where_no_server_is(self, monkeypatch):
        monkeypatch.setattr(_local, "find_spec", lambda name: None)
        with pytest.raises(ImportError, match=r"pip install 'judged\[server\]'"), local():
            pass
