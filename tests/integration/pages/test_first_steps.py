"""What a newcomer runs first: `judged demo`, `judged doctor`, completion."""

from __future__ import annotations

import json

import pytest

from tests.integration.cli_process import run_in


def test_the_demo_judges_compares_and_writes_a_report(tmp_path):
    done = run_in(tmp_path, "demo", "--json", "demo.json")
    assert done.returncode == 0, done.stderr
    assert "The report is in judged-demo.html" in done.stdout
    page = (tmp_path / "judged-demo.html").read_text()
    assert "all words beside the baseline first words" in page
    runs = json.loads((tmp_path / "demo.json").read_text())["runs"]
    means = {name: run["metrics"]["mrr"]["mean"] for name, run in runs.items()}
    assert 0 < means["first words"] < means["all words"] <= 1


def test_doctor_finds_a_server_and_shows_no_secret(tmp_path, server_address):
    settings = {"JUDGED_TARGET": server_address, "JUDGED_PROBE_TOKEN": "hidden"}
    done = run_in(tmp_path, "doctor", "--json", "found.json", **settings)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["problems"] == 0
    assert {"packages", "server", "judges"} <= {one["check"] for one in found["findings"]}
    assert "JUDGED_PROBE_TOKEN=***" in done.stdout
    assert "hidden" not in done.stdout


def test_doctor_says_what_to_do_about_a_server_that_is_not_there(tmp_path):
    done = run_in(tmp_path, "doctor", "--target", "127.0.0.1:9")
    assert done.returncode == 2
    assert "is judged-server running there" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_offered(tmp_path, shell):
    done = run_in(tmp_path, _JUDGED_COMPLETE=f"{shell}_source")
    assert done.returncode == 0, done.stderr
    assert "_JUDGED_COMPLETE" in done.stdout


def test_completion_knows_the_commands(tmp_path):
    asked = {"_JUDGED_COMPLETE": "bash_complete", "COMP_WORDS": "judged co", "COMP_CWORD": "1"}
    done = run_in(tmp_path, **asked)
    assert set(done.stdout.split()) >= {"plain,compare", "plain,convert"}
