"""Word of a purge: heard once by each who was there, and by nobody who came later."""

from __future__ import annotations

import pytest
from judged_server.store.purge_notice import FILE, PurgeNotice


def test_is_heard_once_by_each(tmp_path):
    servers = [PurgeNotice(tmp_path), PurgeNotice(tmp_path)]
    assert [server.heard() for server in servers] == [False, False]
    for _ in range(2):
        PurgeNotice(tmp_path).give()
        assert [server.heard() for server in servers] == [True, True]
        assert [server.heard() for server in servers] == [False, False]


def test_is_not_heard_by_who_came_later(tmp_path):
    PurgeNotice(tmp_path).give()
    assert not PurgeNotice(tmp_path).heard()


def test_half_of_one_or_none_at_all_says_nothing(tmp_path):
    PurgeNotice(tmp_path).give()
    server = PurgeNotice(tmp_path)
    (tmp_path / FILE).write_bytes(b"")
    assert not server.heard()
    (tmp_path / FILE).unlink()
    assert not server.heard()


def test_where_nothing_can_be_written_it_raises(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        PurgeNotice(tmp_path / "none").give()
    assert not PurgeNotice(tmp_path / "none").heard()
