"""Differences from the recording that are meant, until it is recorded anew."""

from __future__ import annotations

MEANT: dict[str, str] = {}
"""Why a difference is meant, by a pattern of the lines that tell it."""

RENAMED: dict[str, str] = {}
"""New names of fields in replies and documents, by those of the recording."""
