"""`judged-server cache`: what the operator reads, and what is left."""

import pytest
from judged_server.__main__ import run
from judged_server.store.kept_rows import REPLIES, KeptRows

from tests.unit.server.store.test_kept_rows import CAP, entry


@pytest.fixture
def folder(tmp_path):
    file = KeptRows(tmp_path, REPLIES, CAP, 0)
    kinds = [("faithfulness", 1, "a"), ("faithfulness", 2, "a"), ("harmlessness", 1, "b")]
    file.write([entry(number, *kind) for number, kind in enumerate(kinds)])
    file.close()
    return tmp_path


@pytest.fixture
def cache(folder, capsys):
    def command(*arguments):
        status = run(["--llm-cache-dir", str(folder), "cache", *arguments])
        said = capsys.readouterr()
        return status, said.out + said.err

    return command


@pytest.mark.parametrize(
    ("flags", "deleted"),
    [
        (["--all"], 3),
        (["--rubric", "faithfulness"], 2),
        (["--rubric", "faithfulness@2"], 1),
        (["--model", "b"], 1),
        (["--model", "a", "--rubric", "faithfulness@1"], 1),
        (["--model", "b", "--rubric", "faithfulness"], 0),
    ],
)
def test_purge_deletes_what_fits_all_flags(cache, flags, deleted):
    status, said = cache("purge", *flags)
    assert (status, said.split()[0]) == (0, str(deleted))
    assert cache("show")[1].splitlines()[-1].split()[0] == str(3 - deleted)


def test_what_was_moved_aside_goes_too(cache, folder):
    aside = [folder / f"damaged.sqlite3{suffix}" for suffix in ("", "-wal", "-shm")]
    for path in aside:
        path.write_bytes(b"perhaps it is in here")
    assert cache("purge", "--model", "b")[0] == 0
    assert not any(path.exists() for path in aside)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ([], "say which, by --rubric or --model, or say --all"),
        (["--all", "--model", "a"], "drop --rubric and --model"),
        (["--rubric", "@1"], "ID or ID@VERSION"),
        (["--rubric", "faithfulness@x"], "ID or ID@VERSION"),
    ],
)
def test_purge_without_a_clear_choice_deletes_nothing(cache, flags, says):
    status, said = cache("purge", *flags)
    assert status == 2
    assert says in said
    assert cache("show")[1].splitlines()[-1].startswith("3 replies")
