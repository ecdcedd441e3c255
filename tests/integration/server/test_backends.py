"""Backends of a real server: what was asked for runs, or the server does not start."""

import subprocess

import pytest
from judged import Client, QueryGroup
from judged_server.embedding.runtime.backend import choose
from judged_server.settings import SettingsError

from tests.integration.cli_process import run_server_command
from tests.integration.server_process import running_server

BACKENDS = [("onnxruntime", "fp32"), ("openvino", "fp32"), ("openvino", "bf16")]
GROUP = QueryGroup(
    "q", ["The cat sits on the mat."], ["A cat is sitting on a mat.", "Quantum computers."]
)


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_server_command(*arguments)


def _judge(name: str, precision: str):
    flags = ("--embedding-backend", name, "--embedding-precision", precision)
    with running_server(*flags) as server, Client(server.address) as client:
        return client.judge([GROUP], "semantic"), client.server_info().models[0]


@pytest.fixture(scope="module")
def reference():
    return _judge("onnxruntime", "fp32")


@pytest.mark.parametrize(("name", "precision"), BACKENDS[1:])
def test_another_backend_says_so_and_has_verdicts_of_its_own(reference, name, precision):
    try:
        choose(name, precision)
    except SettingsError as error:
        pytest.skip(f"not run: {error}")
    verdicts, model = _judge(name, precision)
    assert (model.precision, model.execution_provider) == (precision, "OpenVINO:CPU")
    assert f"precision:{precision}" in verdicts.judge.signature
    assert verdicts.judge.scoring_key != reference[0].judge.scoring_key
    assert verdicts.judge.fingerprint != reference[0].judge.fingerprint
    assert list(verdicts.score) == pytest.approx(list(reference[0].score), abs=5e-3)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--embedding-backend", "onnxruntime", "--embedding-precision", "bf16"), "openvino"),
        (("--embedding-backend", "cuda"), "embedding_backend cuda"),
    ],
)
def test_what_can_not_be_had_stops_the_start(flags, words):
    done = _run("--listen", "127.0.0.1:0", *flags)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
