"""What docs/tutorial.md shows is what its commands print, over the files that it has."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli_process import run_in

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
FILES = re.compile(r"^`([\w.]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CONSOLES = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMANDS = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
DECIMAL = re.compile(r"\d+\.\d+")


def _run(folder: Path, command: str, address: str) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    if program == "judged":
        return run_in(folder, *arguments, JUDGED_TARGET=address)
    assert program == "python"
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


def _assert_alike(printed: str, shown: str) -> None:
    """Compare texts; of decimals, those of embeddings among them, the last digits may differ."""
    assert DECIMAL.sub("#", printed) == DECIMAL.sub("#", shown)
    numbers = [float(number) for number in DECIMAL.findall(printed)]
    assert numbers == pytest.approx([float(number) for number in DECIMAL.findall(shown)], abs=1e-3)


def test_commands_print_what_the_tutorial_shows(tmp_path: Path, server_address: str):
    for name, content in FILES.findall(PAGE):
        (tmp_path / name).write_text(content.replace("127.0.0.1:8470", server_address))
    status, ran = 0, 0
    for console in CONSOLES.findall(PAGE):
        for command, shown in COMMANDS.findall(console):
            if command == "echo $?":
                assert shown == f"{status}\n"
                continue
            done = _run(tmp_path, command, server_address)
            status, ran = done.returncode, ran + 1
            lines = shown.splitlines(keepends=True)
            messages = [line for line in lines if line.startswith("judged: ")]
            _assert_alike(done.stderr, "".join(messages))
            _assert_alike(done.stdout, "".join(line for line in lines if line not in messages))
    assert ran == 7
