"""Word of a purge, from the process that purges to the servers that run on the same folder.

Whoever keeps replies in memory looks at it now and then, and forgets them when it has changed. What
is purged is up to `replies`.
"""

from __future__ import annotations

import secrets
from pathlib import Path

FILE = "purged"


class CacheInvalidation:
    """The file in a folder of stored replies, and what it was when this process looked last."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._seen = self._content()

    def publish(self) -> None:
        """Tell everybody. Raises OSError when the folder can't be written."""
        self._path.write_text(f"{secrets.token_hex(16)}\n", "ascii")

    def changed(self) -> bool:
        """Return whether there was a purge since this was made, or since it last said so."""
        content = self._content()
        if content in {self._seen, b""}:  # empty while it is written
            return False
        self._seen = content
        return True

    def _content(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError:
            return b""
