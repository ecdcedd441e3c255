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
    return name == other or (one is not None and two is not None and _share(one, two))


def is_metric(asked: str, name: str, signature: str) -> bool:
    """Return whether a name that somebody asks by means the metric of a name and a signature."""
    if asked == name:
        return True
    one, two = _read(asked), _read(name)
    if one is None or two is None or not _share(one, two):
        return False
    every, (_, given) = _of_signature(signature), one
    return two[1].keys() <= given.keys() and all(every.get(key) == given[key] for key in given)


def _share(one: _Name, two: _Name) -> bool:
    """Return whether both are of one metric, and no parameter of both differs."""
    (metric, given), (other, known) = one, two
    return metric == other and all(
        given[name] == known[name] for name in given.keys() & known.keys()
    )


def _read(name: str) -> _Name | None:
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    parameters: dict[str, float | str] = {}
    written = parts["parameters"]
    for part in [] if written is None else written.split(","):
        key, equals, value = part.partition("=")
        if not equals or key in parameters:
            return None
        parameters[key] = _value(value)
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
