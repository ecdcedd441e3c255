"""Annotations of a data set's lines, as GitHub and as GitLab read them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MOST = 10
"""GitHub shows ten of a step."""
_ID = re.compile(rb'"(?:query_id|id)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')


@dataclass(frozen=True, slots=True)
class Annotation:
    """What is to be said of a query at its line."""

    query_id: str
    message: str


def lines_of_queries(content: bytes) -> dict[str, int]:
    """Return the line, from 1, on which each id stands in a data set; the first where it repeats.

    It reads JSON as text, so that lines are known, whichever way the file is laid out.
    """
    found: dict[str, int] = {}
    line, read = 1, 0
    for match in _ID.finditer(content):
        line += content.count(b"\n", read, match.start())
        read = match.start()
        try:
            value = json.loads(match[1])
        except ValueError:
            continue
        found.setdefault(str(value), line)
    return found


def for_github(path: str, lines: Mapping[str, int], annotations: Iterable[Annotation]) -> list[str]:
    """Return workflow commands that annotate the file."""
    return [
        f"::warning file={_property(path)},line={lines.get(one.query_id, 1)},"
        f"title={_property('judged: ' + one.query_id)}::{_message(one.message)}"
        for one in list(annotations)[:MOST]
    ]


def for_gitlab(
    path: str, lines: Mapping[str, int], annotations: Iterable[Annotation]
) -> list[dict[str, Any]]:
    """Return a code quality report, which GitLab shows beside the changed lines."""
    return [
        {
            "description": one.message,
            "check_name": "judged",
            "fingerprint": _digest(path, one),
            "severity": "minor",
            "location": {"path": path, "lines": {"begin": lines.get(one.query_id, 1)}},
        }
        for one in annotations
    ]


def _digest(path: str, one: Annotation) -> str:
    return hashlib.sha256(f"{path}\0{one.query_id}\0{one.message}".encode()).hexdigest()


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
