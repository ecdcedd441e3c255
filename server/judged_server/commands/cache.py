"""`judged-server cache`: shows and purges the stored replies of language models.

The file is in `store.kept_rows`, the store of several servers in `store.postgres`.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from judged_server.settings import Settings, SettingsError, cache_folder
from judged_server.store.kept_rows import DAMAGED, REPLIES, SIDE_FILES, KeptRows

BUSY_S = 10.0
"""How long a server that runs may hold the file before this gives up."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    cache = commands.add_parser("cache", help="show and purge stored replies of language models")
    actions = cache.add_subparsers(dest="action", required=True)
    actions.add_parser("show", help="count the stored replies")
    actions.add_parser(
        "purge",
        help="delete every stored reply",
        description="Deletes every reply. Servers that run on the same folder hold some of them "
        "in memory until they are restarted.",
    )


def manage_cache(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run one of the cache commands; return the exit status. Raises SettingsError."""
    purges = arguments.action == "purge"
    if settings.store is not None:
        from judged_server.store.postgres import stored_replies  # noqa: PLC0415 - of an extra

        replies, payload_bytes = stored_replies(settings.store, purge=purges)
        if purges:
            print(f"{_replies(replies)} deleted from the store; restart the servers that share it")
        else:
            print(f"{_replies(replies)}, {payload_bytes / 1000:.0f} kB, in the store")
        return 0
    folder = settings.llm_cache_dir or cache_folder(os.environ, "replies")
    if purges:
        return _purge(folder, settings)
    return _show(folder, settings)


def _show(folder: Path, settings: Settings) -> int:
    file = _open(folder, settings)
    if file is None:
        print(f"no replies are stored in {folder}")
        return 0
    replies, payload_bytes = file.count()
    file.close()
    print(f"{_replies(replies)}, {payload_bytes / 1000:.0f} kB, in {folder}")
    return 0


def _purge(folder: Path, settings: Settings) -> int:
    file = _open(folder, settings)
    if file is None:
        print(f"no replies are stored in {folder}")
        return 0
    deleted = file.purge()
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
    return KeptRows(folder, REPLIES, settings.llm_cache_disk_bytes, BUSY_S)


def _replies(n: int) -> str:
    return f"{n} {'reply' if n == 1 else 'replies'}"
