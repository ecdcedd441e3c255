"""Which server the command line talks to, and what all of its commands share."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.integration.cli_process import lines_of, run_in


class TestJudges:
    def test_shows_what_the_server_offers(self, folder, server_address):
        done = run_in(folder, "judges", "--json", "out.json", JUDGED_TARGET=server_address)
        assert done.returncode == 0
        assert "token_overlap unicode" in done.stdout
        document = json.loads((folder / "out.json").read_text())
        assert document["default_judge"] == "token_overlap"
        classic = document["judges"][0]
        assert (classic["kind"], classic["profile"]) == ("token_overlap", "classic")
        assert classic["parameters"][0]["name"] == "min_tokens"
        assert "ndcg" in [metric["name"] for metric in document["metrics"]]


class TestServers:
    def test_starts_a_private_server_and_leaves_nothing_behind(self, folder):
        scratch = folder / "tmp"
        scratch.mkdir()
        done = run_in(folder, "judge", "contexts.jsonl", "--judge", "exact", TMPDIR=str(scratch))
        assert done.returncode == 0
        assert len(lines_of(done.stdout)) == 2
        assert list(scratch.glob("judged-*")) == []

    def test_says_why_a_private_server_does_not_start(self, folder):
        done = run_in(folder, "judges", JUDGED_MAX_GROUPS="many")
        assert done.returncode == 2
        assert done.stderr.startswith("judged: the private server did not start: ")
        assert "max_groups" in done.stderr


class TestStreams:
    """What a shell may do to the streams of a command."""

    def status(self, folder, address: str, line: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/bash", "-c", f'judged() {{ "$PYTHON" -m judged.cli "$@"; }}; {line}'],
            cwd=folder,
            env={**os.environ, "PYTHON": sys.executable, "JUDGED_TARGET": address},
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    def test_a_reader_who_leaves_is_no_shortfall(self, folder, server_address):
        line = {"query": "q", "expected_text": "a", "retrieved_text": "a"}
        lines = [json.dumps({"id": str(at), **line}) + "\n" for at in range(6000)]
        (folder / "many.jsonl").write_text("".join(lines))
        command = "judged judge many.jsonl --judge exact 2>/dev/null | head -1 >/dev/null"
        status, said = self.status(folder, server_address, f"{command}; exit ${{PIPESTATUS[0]}}")
        assert (status, said) == (141, "")

    @pytest.mark.parametrize("command", ["judges", "judge contexts.jsonl --judge exact"])
    def test_a_full_disk_is_a_problem(self, folder, server_address, command):
        status, said = self.status(folder, server_address, f"judged {command} >/dev/full")
        assert status == 2
        assert said == "judged: standard output: can't be written: No space left on device\n"

    def test_closed_streams(self, folder, server_address):
        status, said = self.status(folder, server_address, "judged judges >&-")
        assert (status, said.startswith("judged: standard output is closed; ")) == (2, True)
        judge = "judged judge contexts.jsonl --judge exact 2>&-"
        status, said = self.status(folder, server_address, judge)
        assert (status, said.count("\n")) == (0, 2)


class TestUsage:
    @pytest.mark.parametrize(
        "arguments", [["nope"], ["judge"], ["judge", "contexts.jsonl", "--nope"]]
    )
    def test_is_explained_with_exit_status_2(self, folder, arguments):
        done = run_in(folder, *arguments)
        assert done.returncode == 2
        assert "--help" in done.stderr
        assert "Traceback" not in done.stderr
