"""The files of a canary: what was recorded, once, and what every check since has found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from judged._writing import replace_text
from judged.canary.evidence import FlipEvidence
from judged.canary.judge_json import read_judge, write_judge
from judged.evaluation.datasets.files import (
    FileError,
    Record,
    parse_json,
    read_bytes,
    read_records,
    writing,
)
from judged.values import Judge

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
        return {
            "format": FORMAT,
            "version": VERSION,
            # What was recorded twice within a second is two recordings.
            "recorded_at": self.recorded_at.isoformat(),
            "judge": write_judge(self.judge),
            "signature": self.signature,
            "fingerprint": self.fingerprint,
            "models": list(self.models),
            "system_fingerprints": list(self.system_fingerprints),
            "items": [
                {
                    "id": item.item_id,
                    "query": item.query,
                    "expected": list(item.expected),
                    "retrieved": item.retrieved,
                    "verdict": item.verdict.value,
                    "flips": item.flips,
                    "asks": item.asks,
                }
                for item in self.items
            ],
        }

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
        items = [_read_item(record) for record in file.records("items")]
        if not items:
            raise file.error("has no items; record it anew")
        return cls(
            items,
            read_judge(file),
            file.text("signature"),
            file.text("fingerprint"),
            _time(file, "recorded_at"),
            file.texts("models"),
            file.texts("system_fingerprints"),
        )


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found: flips and asks by round, items by how often they flipped.

    `evidence` is log E after each round, with all checks before, and computed anew where a history
    is read, so that all checks have the same; `asked` says how often each item had a verdict at
    all.
    """

    checked_at: datetime
    rounds: Sequence[tuple[int, int]]
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
        for _, line in read_records(found.path):
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
            "checked_at": check.checked_at.isoformat(timespec="seconds"),
            "rounds": [list(pair) for pair in check.rounds],
            "flips": {name: n for name, n in check.flips.items() if n},
            "asked": dict(check.asked),
            "evidence": [round(value, 6) for value in check.evidence],
            "signature": check.signature,
            "fingerprint": check.fingerprint,
            "models": list(check.models),
            "system_fingerprints": list(check.system_fingerprints),
        }
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _read_item(record: Record) -> CanaryItem:
    verdict = record.text("verdict")
    if verdict not in set(Outcome):
        raise record.error(f"has 'verdict' {verdict!r}; it is one of {', '.join(Outcome)}")
    flips, asks = record.position("flips"), record.position("asks")
    if flips > asks:
        raise record.error(f"has {flips} flips in {asks} asks; record it anew")
    expected = record.texts("expected")
    return CanaryItem(
        record.identifier("id"),
        record.text("query"),
        expected,
        record.text("retrieved"),
        Outcome(verdict),
        flips,
        asks,
    )


def _read_check(line: Record, evidence: FlipEvidence) -> Check:
    """Return a check, and take its rounds into the evidence of all before it."""
    rounds, values = [], []
    for pair in line.items("rounds"):
        match pair:
            case [int(flips), int(asks)] if 0 <= flips <= asks:
                rounds.append((flips, asks))
                evidence.add(flips, asks)
                values.append(evidence.log_value)
            case _:
                raise line.error("has 'rounds' that are not pairs of flips and asks")
    return Check(
        _time(line, "checked_at"),
        rounds,
        _counts(line, "flips"),
        _counts(line, "asked"),
        values,
        line.text("signature"),
        line.text("fingerprint"),
        line.texts("models"),
        line.texts("system_fingerprints"),
    )


def _counts(line: Record, name: str) -> dict[str, int]:
    inner = line.record(name)
    return {} if inner is None else {key: inner.position(key) for key in inner.fields}


def _time(record: Record, name: str) -> datetime:
    try:
        return datetime.fromisoformat(record.text(name))
    except ValueError:
        raise record.error(f"has {name!r} that is no time, as 2026-01-31T12:00:00+00:00") from None
