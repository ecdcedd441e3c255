"""`judged-server cache`: shows and purges the stored replies of language models.

They are in a file (`store.kept_rows`), or in the store that servers share (`store.postgres`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from judged._views import plural

from judged_server.settings import Settings, SettingsError, cache_folder
from judged_server.store.kept_rows import DAMAGED, REPLIES, SIDE_FILES, KeptRows

BUSY_S = 10.0
"""How long to wait for a running server to release the file."""


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
    purges, where = arguments.action == "purge", "the store"
    replies: int | None
    if settings.store is not None:
        from judged_server.store.postgres import stored_replies  # noqa: PLC0415 - of an extra

        replies, payload_bytes = stored_replies(settings.store, purge=purges)
    else:
        folder = settings.llm_cache_dir or cache_folder("replies")
        where = str(folder)
        if not (folder / REPLIES.name).is_file():
            print(f"no replies are stored in {folder}")
            return 0
        file = KeptRows(folder, REPLIES, settings.llm_cache_disk_bytes, BUSY_S)
        replies, payload_bytes = (file.purge(), 0) if purges else file.count()
        file.close()
        if replies is None or (purges and not _drop_damaged(folder)):
            raise SettingsError(
                f"the replies in {folder} can't be changed; is the disk full or read-only, or does "
                "another process hold the file? Try again, or delete the folder"
            )
    counted = plural(replies, "reply", "replies")
    if purges:
        print(f"{counted} deleted from {where}; restart the servers that run on it")
    else:
        print(f"{counted}, {payload_bytes / 1000:.0f} kB, in {where}")
    return 0


def _drop_damaged(folder: Path) -> bool:
    """Delete damaged files, which may hold replies to purge; return False if one can't be."""
    try:
        for suffix in SIDE_FILES:
            (folder / f"{DAMAGED}{suffix}").unlink(missing_ok=True)
    except OSError:
        return False
    return True
