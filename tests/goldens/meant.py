"""What differs from the recording on purpose; empty whenever it is recorded anew."""

from __future__ import annotations

MEANT: dict[str, str] = {
    r"entries for \d+ document": "Qrels and runs tell columns of different lengths alike.",
}
"""Why a difference is meant, by a pattern of the lines that tell it."""

RENAMED: dict[str, str] = {}
"""The names that fields of replies and documents have in the recording, by their new ones."""
