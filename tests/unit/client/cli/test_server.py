"""Which server a command talks to."""

import pytest
from judged import _local
from judged.cli.output import Problem
from judged.cli.server import ServerCommand


def test_both_ways_are_named_where_no_server_is_installed(monkeypatch):
    monkeypatch.setattr(_local, "find_spec", lambda name: None)
    both = r"judged\[server\].*--target ADDR"
    with pytest.raises(Problem, match=both), ServerCommand().connect():
        pass


@pytest.mark.parametrize("target", ["http://judge:8470", "grpc://judge:8470", "judge"])
def test_addresses_that_mean_another_server_say_how_to_write_them(target):
    with (
        pytest.raises(Problem, match=f"--target: '{target}': write HOST:PORT"),
        ServerCommand(target=target).connect(),
    ):
        pass
