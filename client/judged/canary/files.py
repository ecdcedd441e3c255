"""The files of a canary: what was recorded, once, and what every check since has found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from judged._files import (
    FileError,
    Record,
    parse_json,
    read_bytes,
    read_records,
    writing,
)
from judged._views import plain
from judged._writing import replace_text
from judged.canary.evidence import FlipEvidence
from judged.values import Judge, PanelMember

FORMAT = "judged canary"
VERSION = 1


class Outcome(StrEnum):
    """What a judge made of an item. A judge that failed has no outcome."""

    RELEVANT = "relevant"
    """The judge found it relevant."""
    NOT_RELEVANT = "not relevant"
    """The judge did not find it relevant."""
    ABSTAINED = "abstained"
    """It answered, but not with a verdict."""


@dataclass(frozen=True, slots=True)
class CanaryItem:
    """An item, its recorded verdict, and how often the judge gave another one while recording.

    `flips` of `asks` were other than `verdict`; these asks had no part in choosing the verdict.
    """

    item_id: str
    query: str
    expected: Sequence[str]
    retrieved: str
    verdict: Outcome = Outcome.ABSTAINED
    flips: int = 0
    asks: int = 0


@dataclass(frozen=True, slots=True)
class Canary:
    """Items with the verdicts that a judge gave them, and what answered at the time.

    `models` and `system_fingerprints` are as the providers of language models reported them.
    """

    items: Sequence[CanaryItem]
    judge: Judge
    signature: str
    fingerprint: str
    recorded_at: datetime
    models: Sequence[str] = ()
    system_fingerprints: Sequence[str] = ()

    @property
    def flips(self) -> int:
        """How many asks of the recording gave another verdict than the recorded one."""
        return sum(item.flips for item in self.items)

    @property
    def asks(self) -> int:
        """How many asks of the recording could have."""
        return sum(item.asks for item in self.items)

    def evidence(self) -> FlipEvidence:
        """Return the evidence before any check."""
        return FlipEvidence(self.flips, self.asks)

    def write(self, path: Path | str) -> None:
        """Write the file. Raises FileError."""
        text = json.dumps(self._document(), ensure_ascii=False, indent=1) + "\n"
        with writing(path):
            replace_text(path, text)

    @property
    def sha256(self) -> str:
        """The hash of all that was recorded, in hex; checks of another recording don't count."""
        text = json.dumps(self._document(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _document(self) -> dict[str, Any]:
        members = [
            member if isinstance(member, PanelMember) else PanelMember(member)
            for member in self.judge.members
        ]
        whole = plain(replace(self, judge=replace(self.judge, members=members)))
        # What was recorded twice within a second is two recordings.
        whole["recorded_at"] = self.recorded_at.isoformat()
        return {"format": FORMAT, "version": VERSION, **whole}

    @classmethod
    def read(cls, path: Path | str) -> Canary:
        """Return the canary of a file. Raises FileError."""
        name = str(path)
        whole = read_bytes(path)
        try:
            file = Record(parse_json(whole, name, None), name, None, "")
        except FileError as error:
            none = "so it is no canary; `judged canary record` writes one"
            raise FileError(name, None, f"{error.problem}, {none}") from None
        if file.get("format") != FORMAT:
            raise file.error("is no canary; `judged canary record` writes one")
        if (version := file.position("version")) != VERSION:
            raise file.error(
                f"has 'version' {version}, and this judged reads {VERSION}; record it anew"
            )
        found = file.read(cls)
        if not found.items:
            raise file.error("has no items; record it anew")
        for item in found.items:
            if item.flips > item.asks:
                problem = f"item {item.item_id!r} has {item.flips} flips in {item.asks} asks"
                raise file.error(f"{problem}; record it anew")
        return found


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found: flips and asks by round, items by how often they flipped.

    `evidence` is log E after each round, with all checks before, and computed anew where a history
    is read, so that all checks have the same; `asked` says how often each item had a verdict at
    all.
    """

    checked_at: datetime
    rounds: Sequence[Sequence[int]]
    flips: Mapping[str, int]
    asked: Mapping[str, int]
    evidence: Sequence[float]
    signature: str
    fingerprint: str
    models: Sequence[str] = ()
    system_fingerprints: Sequence[str] = ()

    def flipped(self) -> list[str]:
        """Return the ids of items that flipped in more than half of their asks, as recorded."""
        return [name for name, n in self.asked.items() if 2 * self.flips.get(name, 0) > n]


@dataclass(slots=True)
class History:
    """The checks of one canary, in their order. Those that its file has of others are kept there.

    `others` is how many checks of another recording the file holds; they do not count.
    """

    path: Path | None
    canary: Canary
    checks: list[Check] = field(default_factory=list)
    others: int = 0

    @classmethod
    def read(cls, path: Path | str | None, canary: Canary) -> History:
        """Return the history in a file, empty without one. Raises FileError."""
        found = cls(None if path is None else Path(path), canary)
        if found.path is None or not found.path.exists():
            return found
        own, evidence = canary.sha256, canary.evidence()
        for line in read_records(found.path):
            if line.text("canary") == own:
                found.checks.append(_read_check(line, evidence))
            else:
                found.others += 1
        return found

    def evidence(self) -> FlipEvidence:
        """Return the evidence after all checks so far."""
        evidence = self.canary.evidence()
        for check in self.checks:
            for flips, asks in check.rounds:
                evidence.add(flips, asks)
        return evidence

    @property
    def highest(self) -> float:
        """The highest log E after any round of any check; 0.0 before the first."""
        return max((value for check in self.checks for value in check.evidence), default=0.0)

    def add(self, check: Check) -> None:
        """Add a check, and write it to the file, if there is one. Raises FileError."""
        self.checks.append(check)
        if self.path is None:
            return
        line = {
            "canary": self.canary.sha256,
            **plain(check),
            "checked_at": check.checked_at.isoformat(timespec="seconds"),
            "flips": {name: n for name, n in check.flips.items() if n},
            "evidence": [round(value, 6) for value in check.evidence],
        }
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _read_check(line: Record, evidence: FlipEvidence) -> Check:
    """Return a check, and take its rounds into the evidence of all before it."""
    check = line.read(Check)
    values = []
    for pair in check.rounds:
        if len(pair) != 2 or pair[0] > pair[1]:
            raise line.error("has 'rounds' that are not pairs of flips and asks")
        evidence.add(*pair)
        values.append(evidence.log_value)
    return replace(check, rounds=list(map(tuple, check.rounds)), evidence=values)
