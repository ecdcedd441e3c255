"""The making of a file that only its owner may read.

Closing it would drop all locks that this process holds on it (fcntl(2)): the next process that
closes a SQLite file then takes itself for the last one and deletes the journal that is in use here
(https://www.sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def make_private(path: Path) -> None:
    """Make an empty file, unless there is one. Raises OSError.

    No other thread may open it before this returns.
    """
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
