"""`judged-server cache`: what the operator reads, and what is left."""

import pytest
from judged_server.__main__ import run
from judged_server.store.kept_rows import REPLIES, KeptRows

from tests.unit.server.store.test_kept_rows import CAP, entry


@pytest.fixture
def folder(tmp_path):
    file = KeptRows(tmp_path, REPLIES, CAP)
    file.write([entry(number) for number in range(3)])
    file.close()
    return tmp_path


@pytest.fixture
def cache(folder, capsys):
    def command(*arguments):
        status = run(["--llm-cache-dir", str(folder), "cache", *arguments])
        said = capsys.readouterr()
        return status, said.out + said.err

    return command


def test_purge_deletes_all(cache):
    status, said = cache("purge")
    assert (status, said.split()[0]) == (0, "3")
    assert cache("show")[1].splitlines()[-1].split()[0] == "0"


def test_what_was_moved_aside_goes_too(cache, folder):
    aside = [folder / f"damaged.sqlite3{suffix}" for suffix in ("", "-wal", "-shm")]
    for path in aside:
        path.write_bytes(b"perhaps it is in here")
    assert cache("purge")[0] == 0
    assert not any(path.exists() for path in aside)
