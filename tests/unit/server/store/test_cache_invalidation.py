"""Word of a purge: heard once by each who was there, and by nobody who came later."""

from __future__ import annotations

import pytest
from judged_server.store.replies import PURGE_FILE, CacheInvalidation


def test_is_heard_once_by_each(tmp_path):
    servers = [CacheInvalidation(tmp_path), CacheInvalidation(tmp_path)]
    assert [server.changed() for server in servers] == [False, False]
    for _ in range(2):
        CacheInvalidation(tmp_path).publish()
        assert [server.changed() for server in servers] == [True, True]
        assert [server.changed() for server in servers] == [False, False]


def test_is_not_heard_by_who_came_later(tmp_path):
    CacheInvalidation(tmp_path).publish()
    assert not CacheInvalidation(tmp_path).changed()


def test_half_of_one_or_none_at_all_says_nothing(tmp_path):
    CacheInvalidation(tmp_path).publish()
    server = CacheInvalidation(tmp_path)
    (tmp_path / PURGE_FILE).write_bytes(b"")
    assert not server.changed()
    (tmp_path / PURGE_FILE).unlink()
    assert not server.changed()


def test_where_nothing_can_be_written_it_raises(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        CacheInvalidation(tmp_path / "none").publish()
    assert not CacheInvalidation(tmp_path / "none").changed()
