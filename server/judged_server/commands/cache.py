"""`judged-server cache`: shows and purges the stored replies of language models.

The file is in `store.kept_rows`.
"""

from __future__ import annotations

import argparse
import os
import re
from datetime import UTC, datetime
from pathlib import Path

from judged_server.settings import Settings, SettingsError, cache_folder
from judged_server.store.kept_rows import DAMAGED, REPLIES, SIDE_FILES, KeptRows, Selection

BUSY_S = 10.0
"""How long a server that runs may hold the file before this gives up."""

_RUBRIC = re.compile(r"([^@]+)(?:@(\d{1,9}))?")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    cache = commands.add_parser("cache", help="show and purge stored replies of language models")
    actions = cache.add_subparsers(dest="action", required=True)
    actions.add_parser("show", help="count the stored replies by rubric and model")
    purge = actions.add_parser(
        "purge",
        help="delete stored replies",
        description="Deletes the replies that fit all flags given. Servers that run on the same "
        "folder hold some of them in memory until they are restarted.",
    )
    purge.add_argument("--rubric", metavar="ID[@VERSION]", help="replies to this rubric")
    # The setting `model` names the embedding model; this is another one.
    purge.add_argument("--model", dest="purged_model", metavar="NAME", help="replies of this model")
    purge.add_argument("--all", action="store_true", help="every reply")


def manage_cache(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run one of the cache commands; return the exit status. Raises SettingsError."""
    folder = settings.llm_cache_dir or cache_folder(os.environ, "replies")
    if arguments.action == "purge":
        return _purge(_selection(arguments), folder, settings)
    return _show(folder, settings)


def _show(folder: Path, settings: Settings) -> int:
    file = _open(folder, settings)
    if file is None:
        print(f"no replies are stored in {folder}")
        return 0
    tallies = file.tally()
    file.close()
    for tally in tallies:
        print(
            f"{tally.rubric}@{tally.version}  {tally.model}  {_replies(tally.replies)}  "
            f"{tally.payload_bytes / 1000:.0f} kB  {_day(tally.oldest)} to {_day(tally.newest)}"
        )
    print(f"{_replies(sum(tally.replies for tally in tallies))} in {folder}")
    return 0


def _purge(selection: Selection, folder: Path, settings: Settings) -> int:
    file = _open(folder, settings)
    if file is None:
        print(f"no replies are stored in {folder}")
        return 0
    deleted = file.purge(selection)
    file.close()
    if deleted is not None and not _drop_damaged(folder):
        deleted = None
    if deleted is None:
        raise SettingsError(
            f"the replies in {folder} can't be changed; is the disk full or read-only, or does "
            "another process hold the file? Try again, or delete the folder"
        )
    print(f"{_replies(deleted)} deleted from {folder}; restart the servers that run on it")
    return 0


def _drop_damaged(folder: Path) -> bool:
    """Delete what was moved aside: nobody can tell whether it holds what is to go."""
    try:
        for suffix in SIDE_FILES:
            (folder / f"{DAMAGED}{suffix}").unlink(missing_ok=True)
    except OSError:
        return False
    return True


def _open(folder: Path, settings: Settings) -> KeptRows | None:
    if not (folder / REPLIES.name).is_file():
        return None
    return KeptRows(folder, REPLIES, settings.llm_cache_disk_bytes, 0, BUSY_S)


def _selection(arguments: argparse.Namespace) -> Selection:
    if arguments.all:
        if arguments.rubric is not None or arguments.purged_model is not None:
            raise SettingsError("cache purge: --all is every reply; drop --rubric and --model")
        return Selection()
    if arguments.rubric is None and arguments.purged_model is None:
        raise SettingsError("cache purge: say which, by --rubric or --model, or say --all")
    if arguments.rubric is None:
        return Selection(model=arguments.purged_model)
    match = _RUBRIC.fullmatch(arguments.rubric)
    if match is None:
        raise SettingsError("cache purge: --rubric is ID or ID@VERSION, as retrieval_match@1")
    version = None if match[2] is None else int(match[2])
    return Selection(match[1], version, arguments.purged_model)


def _replies(n: int) -> str:
    return f"{n} {'reply' if n == 1 else 'replies'}"


def _day(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).date().isoformat()
    except (OverflowError, ValueError, OSError):  # a damaged row
        return "an unknown day"
