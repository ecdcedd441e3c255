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


def test_a_file_is_not_replaced_by_a_socket(tmp_path: Path):
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(AddressError, match=r"http_listen: .*file is no socket; pick another path"):
        Address(path=path).refuse_taken("http_listen")
    Address(path=tmp_path / "missing").refuse_taken()
