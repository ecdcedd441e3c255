"""Baselines in a repository; `tests/integration/cli/test_ci_action.py` keeps and reads them."""

import pytest
from judged.cli.baselines import read
from judged.cli.problems import Problem


def test_outside_a_repository_it_says_what_to_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(Problem, match=r"ls-remote .* has --remote, or name a --baseline FILE$"):
        read("result", "origin", "main")
