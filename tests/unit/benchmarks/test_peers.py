"""Peers: made once, asked by lines, and never silent about why they can't run."""

import subprocess
import sys

import pytest

from benchmarks.peers import environments


def test_an_environment_that_is_ready_is_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setattr(subprocess, "run", None)  # calling it would fail
    (tmp_path / "peer").mkdir()
    (tmp_path / "peer" / ".ready").write_text("a==1 b==2")
    python = environments.environment("peer", ("a==1", "b==2"))
    assert python == tmp_path / "peer" / "bin" / "python"
    with pytest.raises(TypeError):
        environments.environment("peer", ("a==1", "b==3"))


def test_what_pip_can_not_install_is_not_run(tmp_path, monkeypatch):
    def refuse(command, **_):
        failed = "pip" in command
        return subprocess.CompletedProcess(command, int(failed), "", "x\nERROR: no such a\n")

    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    monkeypatch.setattr(subprocess, "run", refuse)
    with pytest.raises(environments.NotRun, match="peer can't be installed: ERROR: no such a"):
        environments.environment("peer", ("a==1",))
    assert not (tmp_path / "peer" / ".ready").exists()


def test_a_worker_that_ends_says_why():
    with pytest.raises(environments.NotRun, match="KeyError: 'fp64'"):
        environments.Worker(sys.executable, "benchmarks.embed.gemm_worker", "fp64")


def test_a_worker_answers_each_line():
    worker = environments.Worker(sys.executable, "benchmarks.embed.gemm_worker", "fp32")
    try:
        assert worker.facts == {"precision": "fp32"}
        assert worker.ask()["gflops"] > 0
    finally:
        worker.close()
