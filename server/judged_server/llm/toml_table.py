"""A TOML table read key by key, so that nothing in it goes unread and every fault has a place.

Owns types, ranges and unknown keys. What the keys mean is up to `configuration`. Messages name the
table and the key, and never a value: a value may be a key that was put in the wrong place.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Mapping
from typing import Any

from judged_server.settings import SettingsError


class TomlTable:
    """One table of a TOML file; `where` names the file and the table."""

    def __init__(self, content: object, where: str) -> None:
        if not isinstance(content, dict):
            raise SettingsError(f"{where} must be a table")
        self._content: dict[str, Any] = content
        self.where = where
        self._known: list[str] = []

    def fault(self, key: str, rule: str) -> SettingsError:
        """Return the error of a key that breaks a rule."""
        return SettingsError(f"{self.where}: {key} {rule}")

    def text(self, key: str, pattern: str, rule: str, default: str | None = None) -> str:
        """Return a string that matches `pattern` as a whole; required without a default."""
        value = self._take(key, default)
        if not isinstance(value, str) or (value != default and not re.fullmatch(pattern, value)):
            raise self.fault(key, f"must be {rule}")
        return value

    def choice(self, key: str, choices: Collection[str], default: str) -> str:
        """Return one of some words."""
        value = self._take(key, default)
        if value not in choices:
            raise self.fault(key, "must be one of " + ", ".join(choices))
        return str(value)

    def flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        value = self._take(key, default)
        if not isinstance(value, bool):
            raise self.fault(key, "must be true or false")
        return value

    def integer(self, key: str, lowest: int, highest: int, default: int) -> int:
        """Return a whole number from `lowest` to `highest`."""
        value = self._take(key, default)
        if value == default and not isinstance(value, bool):
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise self.fault(key, f"must be a whole number from {lowest} to {highest}")
        return value

    def number(
        self, key: str, lowest: float, highest: float, default: float | None
    ) -> float | None:
        """Return a number from `lowest` to `highest`, or the default."""
        value = self._take(key, default)
        if value is None:
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not math.isfinite(value) or not lowest <= value <= highest:
            raise self.fault(key, f"must be a number from {lowest:g} to {highest:g}")
        return float(value)

    def names(self, key: str, pattern: str, rule: str) -> tuple[str, ...]:
        """Return strings that match `pattern` as a whole and differ; none without the key."""
        value = self._take(key, [])
        fits = isinstance(value, list) and all(
            isinstance(item, str) and re.fullmatch(pattern, item) for item in value
        )
        if not fits or len(set(value)) < len(value):
            raise self.fault(key, f"must be an array of {rule}, each one once")
        return tuple(value)

    def refuse(self, keys: Mapping[str, str], where: str) -> None:
        """Refuse keys that make no sense here, each with the reason why."""
        for key, why in keys.items():
            if key in self._content:
                raise self.fault(key, f"is not for {where}: {why}")

    def tables(self, key: str, name: str) -> list[TomlTable]:
        """Return the tables of an array of tables, each with its place and name in `where`."""
        value = self._take(key, [])
        if not isinstance(value, list):
            raise self.fault(key, f"must be tables; begin each with [[{key}]]")
        return [
            TomlTable(item, f"{self.where}: {key}[{place}]{_named(item, name)}")
            for place, item in enumerate(value)
        ]

    def table(self, key: str) -> TomlTable | None:
        """Return the table under a key, None when there is none."""
        value = self._take(key, None)
        return None if value is None else TomlTable(value, f"{self.where}: {key}")

    def end(self, hints: Mapping[str, str] | None = None) -> None:
        """Refuse the keys that nobody asked for, with a likely one, or the hint for this one."""
        for key in self._content:
            if key in self._known:
                continue
            shown = key if re.fullmatch(r"[\w-]{1,40}", key) else "a key"
            if hints and key in hints:
                raise self.fault(shown, hints[key])
            close = difflib.get_close_matches(key, self._known, 1)
            known = f"did you mean {close[0]}?" if close else "known: " + ", ".join(self._known)
            raise self.fault(shown, f"is not known; {known}")

    def _take(self, key: str, default: object) -> Any:  # noqa: ANN401 - TOML holds anything
        self._known.append(key)
        return self._content.get(key, default)


def _named(item: object, name: str) -> str:
    """Return the name of a table in brackets, where it has one that can be shown."""
    value = item.get(name) if isinstance(item, dict) else None
    return (
        f" ({value})" if isinstance(value, str) and re.fullmatch(r"[\w.:/-]{1,60}", value) else ""
    )
