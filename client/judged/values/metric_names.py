"""Whether two names mean one metric: `rbp(p=0.8)@2` is `rbp@2` where 0.8 is the default.

A result's name leaves defaults out; its signature has every parameter, in front of how it was
measured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(r"(?P<metric>\w+)(?:\((?P<parameters>[^()]*)\))?(?:@(?P<k>.*))?", re.ASCII)
_SETTINGS = ("judge", "matching", "source")
"""What a signature tells first of how a metric was measured, behind its parameters."""


_Name = tuple[tuple[str, str], Mapping[str, float | str]]
"""A metric with its cutoff, and its parameters."""


def may_be(name: str, other: str) -> bool:
    """Return whether two names mean one metric, if what one leaves out is the default."""
    one, two = _read(name), _read(other)
    if one is None or two is None:
        return name == other
    (metric, given), (of, known) = one, two
    return metric == of and all(given[key] == known[key] for key in given.keys() & known.keys())


def is_metric(asked: str, name: str, signature: str) -> bool:
    """Return whether a name that somebody asks by means the metric of a name and a signature."""
    one, two = _read(asked), _read(name)
    if asked == name or one is None or two is None:
        return asked == name
    (metric, given), (of, shown), every = one, two, _of_signature(signature)
    return metric == of and shown.keys() <= given.keys() and given.items() <= every.items()


def _read(name: str) -> _Name | None:
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    written = parts["parameters"]
    pairs = [] if written is None else [part.partition("=") for part in written.split(",")]
    parameters = {key: _value(value) for key, equals, value in pairs if equals}
    if len(parameters) < len(pairs):
        return None
    return (parts["metric"], parts["k"] or ""), parameters


def _of_signature(signature: str) -> dict[str, float | str]:
    found: dict[str, float | str] = {}
    for part in signature.split("|")[1:]:
        key, colon, value = part.partition(":")
        if key in _SETTINGS or not colon:
            break
        found[key] = _value(value)
    return found


def _value(text: str) -> float | str:
    """Return a number where people write one, as 0.80 for 0.8; else the text."""
    try:
        return text if "_" in text or not text.isascii() else float(text)
    except ValueError:
        return text
