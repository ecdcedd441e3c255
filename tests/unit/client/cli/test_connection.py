"""Addresses that a command refuses before it calls anybody."""

import pytest
from judged.cli.connection import check_target
from judged.cli.problems import Problem


@pytest.mark.parametrize(
    "target", ["127.0.0.1:8470", "unix:/run/judged.sock", "[::1]:8470", "dns:///judge:8470"]
)
def test_addresses_pass(target):
    check_target(target)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("http://judge:8470", r"--target http://judge:8470: write HOST:PORT .* as in judge:8470$"),
        ("grpc://judge:8470", "without grpc://"),
        ("judge", "--target judge: has no port; write HOST:PORT, as in judge:8470"),
    ],
)
def test_others_say_how_to_write_them(target, message):
    with pytest.raises(Problem, match=message):
        check_target(target)
