"""A TOML table read key by key, so that nothing in it goes unread and every fault has a place.

What the keys mean is up to `configuration`, and in a rubric to `rubrics.loading`, whose tables may
come from YAML as well. Messages name the table and the key, and never a value: a value may be a key
that was put in the wrong place.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from datetime import date, time
from typing import Any

from judged_server.errors import did_you_mean
from judged_server.settings import SettingsError


def read_toml(
    raw: bytes, source: str, tell: Callable[[tomllib.TOMLDecodeError], str] = str
) -> object:
    """Return what a file holds; `source` is named in errors, `tell` says what is wrong.

    Raises SettingsError.
    """
    text = text_of(raw, source)
    try:
        return tomllib.loads(text)
    except RecursionError:
        why = "it nests too deep"
    except tomllib.TOMLDecodeError as error:
        why = tell(error)
    except ValueError:
        why = "a number in it has too many digits"
    raise SettingsError(f"{source} is not TOML: {why}")


def text_of(raw: bytes, source: str) -> str:
    """Return a file's text, without the mark that some editors begin UTF-8 with.

    Raises SettingsError.
    """
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{source}: the file is not UTF-8; save it as that") from None


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

    def text(
        self,
        key: str,
        pattern: str,
        rule: str,
        default: str | None = None,
        longest: int | None = None,
    ) -> str:
        """Return a string that matches `pattern` as a whole; required without a default.

        `longest` is the most characters it may have, which `rule` then need not say.
        """
        value = self._take(key, default)
        if value is None:
            raise self._missing(key, rule)
        if not isinstance(value, str):
            raise self.fault(key, f"must be {rule}{_quote_hint(value)}")
        if longest is not None and len(value) > longest:
            raise self.fault(key, f"has {len(value):,} characters; make it {longest:,} at most")
        if value != default and not re.fullmatch(pattern, value):
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
            raise self.fault(key, f"must be true or false{_for_its_quotes(value)}")
        return value

    def integer(self, key: str, lowest: int, highest: int, default: int | None = None) -> int:
        """Return a whole number from `lowest` to `highest`; required without a default."""
        value = self._take(key, default)
        rule = f"a whole number from {lowest} to {highest}"
        if value is None:
            raise self._missing(key, rule)
        if value == default and isinstance(default, int) and not isinstance(value, bool):
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
            raise self.fault(key, f"must be {rule}{_for_its_quotes(value)}")
        return value

    def number(
        self, key: str, lowest: float, highest: float, default: float | None
    ) -> float | None:
        """Return a number from `lowest` to `highest`, or the default."""
        value = self._take(key, default)
        if value is None:
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        # In this order: a number of hundreds of digits is not too large to compare.
        if not fits or not lowest <= value <= highest or not math.isfinite(value):
            rule = f"must be a number from {lowest:g} to {highest:g}"
            raise self.fault(key, rule + _for_its_quotes(value))
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
            rendered = key if re.fullmatch(r"[\w-]{1,40}", key) else "a key"
            if hints and key in hints:
                raise self.fault(rendered, hints[key])
            hint = did_you_mean(key, self._known, "known: " + ", ".join(self._known))
            raise self.fault(rendered, f"is not known; {hint}")

    def _take(self, key: str, default: object) -> Any:  # noqa: ANN401 - TOML holds anything
        self._known.append(key)
        return self._content.get(key, default)

    def _missing(self, key: str, rule: str) -> SettingsError:
        return self.fault(key, f"is missing; it must be {rule}")


def _quote_hint(value: object) -> str:
    """Return what to add where a text was wanted and something else was read."""
    if isinstance(value, bool):
        read = "true or false"
    elif isinstance(value, int | float):
        read = "a number"
    elif isinstance(value, date | time):
        read = "a date or a time"
    else:
        return ""
    return f"; put it in quotes, for without them it is read as {read}"


def _for_its_quotes(value: object) -> str:
    """Return what to add where something else was wanted than the text that was read."""
    return ", without quotes" if isinstance(value, str) else ""


def _named(item: object, name: str) -> str:
    """Return the name of a table in brackets, where it has one that can be shown."""
    value = item.get(name) if isinstance(item, dict) else None
    return (
        f" ({value})" if isinstance(value, str) and re.fullmatch(r"[\w.:/-]{1,60}", value) else ""
    )
