from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from judged import Client, QueryGroup, Unavailable
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.integration.cli_process import run_server_command
from tests.integration.clients.test_stream import chunk
from tests.integration.clients.test_stream import start as start_of_stream
from tests.integration.server_process import (
    ServerProcess,
    running_server,
    start,
    until,
    wait_for_port_file,
)

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def refused(*flags: str, env: dict[str, str] | None = None) -> str:
    """Return what a server says that must not start; check that it exits with 2."""
    done = run_server_command(*flags, **(env or {}))
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def health(address: str, service: str = "") -> int:
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10).status


class TestStart:
    def test_a_second_server_on_the_same_port_does_not_start(self, server: ServerProcess):
        said = refused("--listen", server.address)
        taken = f"listen: can't listen on {server.address}; is another server there"
        assert taken in said

    @pytest.mark.skipif(
        shutil.which("prlimit") is None, reason="not run: no prlimit (apt-get install util-linux)"
    )
    def test_a_crash_would_write_no_memory_to_the_disk(self, tmp_path: Path):
        # Where a crash of whoever starts it would.
        port_file, log = tmp_path / "port", tmp_path / "log"
        command = ["prlimit", "--core=1048576:", sys.executable, "-m", "judged_server"]
        flags = ["--listen", "127.0.0.1:0", "--port-file", str(port_file)]
        with (
            log.open("wb") as stderr,
            subprocess.Popen([*command, *flags], stderr=stderr) as process,
        ):
            wait_for_port_file(process, port_file, log)
            limits = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
            process.send_signal(signal.SIGTERM)
        [core] = [line.split() for line in limits if line.startswith("Max core file size")]
        assert core[4] == "0"

    def test_a_second_server_on_the_same_socket_does_not_start(self, tmp_path: Path):
        listen = f"unix:{tmp_path}/judged.sock"
        with running_server(listen=listen) as first:
            assert "another server listens" in refused("--listen", listen)
            with Client(first.address) as client:
                assert client.server_info().default_judge == "token_overlap"

    def test_a_socket_file_of_a_dead_server_is_taken_over(self, tmp_path: Path):
        listen = f"unix:{tmp_path}/judged.sock"
        with running_server(listen=listen) as first:
            first.process.kill()
            first.process.wait()
            with running_server(listen=listen) as second, Client(second.address) as client:
                assert client.server_info().version

    @pytest.mark.parametrize(
        ("flags", "words"),
        [
            (("--max-groups", "0"), "max_groups"),
            (("--config", "/nonexistent.toml"), "/nonexistent.toml"),
            (("--default-judge", "nobody"), "nobody"),
            (("--model", "nobody", "--listen", "127.0.0.1:0"), "judged-server models"),
        ],
    )
    def test_a_bad_setting_is_named(self, flags: tuple[str, ...], words: str):
        assert words in refused(*flags)

    def test_settings_come_from_flag_then_environment_then_file(self, tmp_path: Path):
        config = tmp_path / "judged.toml"
        config.write_text("max_groups = 5\nmax_contexts = 50\nmax_text_bytes = 500\n")
        env = {"JUDGED_MAX_CONTEXTS": "60", "JUDGED_MAX_TEXT_BYTES": "600"}
        flags = ("--config", str(config), "--max-text-bytes", "700")
        with running_server(*flags, env=env) as ready, Client(ready.address) as client:
            limits = client.server_info().limits
        assert (limits.max_groups, limits.max_contexts, limits.max_text_bytes) == (5, 60, 700)


class TestHealth:
    @pytest.mark.parametrize(
        "service", ["", "judged.v1.JudgeService", "judged.v1.StatisticsService"]
    )
    def test_health_is_answered_per_service(self, server_address: str, service: str):
        assert health(server_address, service) == SERVING


@contextmanager
def judging(address: str, texts: Iterator[str]) -> Iterator[Iterator[pb.StreamJudgeResponse]]:
    """A stream with a chunk for each text."""
    chunks = (chunk(number, text) for number, text in enumerate(texts))
    with grpc.insecure_channel(address) as channel:
        yield JudgeServiceStub(channel).StreamJudge(chain([start_of_stream()], chunks), timeout=60)


class TestDrain:
    def test_sigterm_lets_calls_finish_and_exits_with_0(self):
        with running_server() as ready, Client(ready.address) as client:
            drained = threading.Event()

            def texts() -> Iterator[str]:
                yield "a"
                assert drained.wait(60)
                yield "a"

            with judging(ready.address, texts()) as answers:
                assert next(answers).HasField("started")
                assert next(answers).chunk.chunk_id == 0
                ready.process.send_signal(signal.SIGTERM)
                until(lambda: health(ready.address) == NOT_SERVING)
                with pytest.raises(Unavailable) as caught:
                    client.with_options(max_retries=0).judge([QueryGroup("q", ["a"], ["a"])])
                assert (caught.value.reason, caught.value.retry_after) == ("DRAINING", 1.0)
                drained.set()
                assert [list(each.chunk.verdicts.relevant) for each in answers] == [[True]]
            assert ready.process.wait(60) == 0
            assert '"event":"stopped"' in ready.log_text()

    def test_a_second_signal_does_not_wait_for_calls(self):
        with running_server("--grace-s", "600") as ready:
            closed = threading.Event()

            def texts() -> Iterator[str]:
                yield "a"
                closed.wait(60)

            with judging(ready.address, texts()) as answers:
                next(answers)
                ready.process.send_signal(signal.SIGTERM)
                until(lambda: health(ready.address) == NOT_SERVING)
                ready.process.send_signal(signal.SIGTERM)
                assert ready.process.wait(60) == 1
                closed.set()

    def test_sighup_says_that_rubrics_are_not_read_again(self):
        with running_server() as ready:
            ready.process.send_signal(signal.SIGHUP)
            until(lambda: "SIGHUP reloads nothing" in ready.log_text())
            assert "rubrics" in ready.log_text()
            assert health(ready.address) == SERVING

    def test_a_terminal_that_closes_drains_as_sigterm_does(self, tmp_path: Path):
        path, port_file = tmp_path / "judged.sock", tmp_path / "port"
        ours, theirs = pty.openpty()
        flags = ["--listen", f"unix:{path}", "--port-file", str(port_file)]
        process = start(flags, stderr=theirs)
        wait_for_port_file(process, port_file, port_file)
        process.send_signal(signal.SIGHUP)
        assert process.wait(60) == 0
        os.close(ours)
        os.close(theirs)
        assert not path.exists()


def test_the_port_file_holds_the_address_and_goes_with_the_server(tmp_path: Path):
    port_file = tmp_path / "run" / "port"
    process = start(["--listen", "127.0.0.1:0", "--port-file", str(port_file)])
    try:
        log = tmp_path / "log"
        log.touch()
        address = wait_for_port_file(process, port_file, log)
        with Client(address) as client:
            assert client.server_info().version
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not port_file.exists()
