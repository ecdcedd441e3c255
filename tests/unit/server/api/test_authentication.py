from __future__ import annotations

import pytest
from judged_server.api.authentication import MOST_ADDRESSES, WINDOW_S, FailedCalls, address_of
from judged_server.errors import AuthenticationLimit

A, B = "ipv4:192.0.2.1:40001", "ipv4:192.0.2.2:40001"


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def fails(calls: FailedCalls, peer: str, times: int) -> None:
    for _ in range(times):
        calls.note(peer)


def test_an_address_is_held_off_until_its_minute_is_over():
    clock = Clock()
    calls = FailedCalls(3, clock)
    fails(calls, A, 3)
    clock.now += 20
    with pytest.raises(AuthenticationLimit) as refused:
        calls.note("ipv4:192.0.2.1:50002")
    assert refused.value.retry_after_s == WINDOW_S - 20
    fails(calls, B, 3)  # another address is not
    clock.now += WINDOW_S - 20
    fails(calls, A, 3)
    with pytest.raises(AuthenticationLimit):
        calls.note(A)


def test_the_addresses_that_are_remembered_are_bounded():
    calls = FailedCalls(1)
    for number in range(MOST_ADDRESSES + 500):
        calls.note(f"ipv4:10.{number >> 16}.{number >> 8 & 255}.{number & 255}:1")
    assert 0 < len(calls._failed) <= MOST_ADDRESSES
    last = MOST_ADDRESSES + 499
    with pytest.raises(AuthenticationLimit):
        calls.note(f"ipv4:10.0.{last >> 8}.{last & 255}:1")
    calls.note("ipv4:10.0.0.0:1")  # forgotten


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.7:1234", "192.0.2.7"),
        ("ipv6:%5B2001:db8:1:2:3:4:5:6%5D:1234", "2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2:ffff::1]:1234", "2001:db8:1:2::/64"),
        ("ipv6:%5B::ffff:192.0.2.7%5D:1234", "192.0.2.7"),
        ("ipv6:%5Bfe80::1%25eth0%5D:1234", "fe80::/64"),
        ("unix:", ""),
        ("unix:/run/judged.sock", ""),
    ],
)
def test_what_counts_as_one_address(peer: str, address: str):
    assert address_of(peer) == address
