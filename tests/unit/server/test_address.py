from __future__ import annotations

from pathlib import Path

import pytest
from judged_server.address import Address, AddressError


@pytest.mark.parametrize(
    ("text", "printed", "local"),
    [
        ("127.0.0.1:8470", "127.0.0.1:8470", True),
        ("localhost:0", "localhost:0", True),
        (":8470", "127.0.0.1:8470", True),
        ("[::1]:8470", "[::1]:8470", True),
        ("0.0.0.0:1", "0.0.0.0:1", False),
        ("[::]:1", "[::]:1", False),
        ("127.0.0.1.example.com:1", "127.0.0.1.example.com:1", False),
        ("unix:/tmp/x.sock", "unix:/tmp/x.sock", True),
    ],
)
def test_addresses_print_as_they_parse_and_know_who_reaches_them(text, printed, local):
    address = Address.parse(text)
    assert str(address) == printed
    assert address.is_local is local


@pytest.mark.parametrize(
    "text",
    ["", "host", "host:", "host:port", "host:65536", "unix:", "h:-1", "h:\uff18\uff14\uff17\uff10"],
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(AddressError, match="listen"):
        Address.parse(text)


def test_a_plain_file_is_not_a_live_socket(tmp_path: Path):
    path = tmp_path / "file"
    path.touch()
    Address(path=path).refuse_taken()
    Address(path=tmp_path / "missing").refuse_taken()
