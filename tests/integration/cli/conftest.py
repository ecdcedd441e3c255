from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli_process import Commands, fill


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a good file of every kind."""
    return fill(tmp_path)


@pytest.fixture
def judged(folder: Path, target: str) -> Commands:
    """Runs `judged` in the folder, against the server of its module."""
    return Commands(folder, target)
