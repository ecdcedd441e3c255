"""Canaries: fixed items whose recorded verdicts show when a judge has changed.

    from judged.canary import Canary, History, check_canary, record_canary

    canary = record_canary(client, items, "llm")
    canary.write("judge.canary.json")
    history = History.read("judge.canary.history.jsonl", canary)
    found = check_canary(client, canary, history)

Needs only the base install.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any

from judged._files import Record, json_line, read_object, read_records, replace_text, writing
from judged._inputs import refuse_below, refuse_repeated
from judged._views import plain
from judged.client import Client
from judged.errors import MissingVerdicts
from judged.values import Asking, CacheMode, Judge, QueryGroup, Status, Verdict, to_judge

__all__ = [
    "Canary",
    "CanaryItem",
    "Check",
    "FlipEvidence",
    "History",
    "MissingVerdicts",
    "Outcome",
    "check_canary",
    "record_canary",
]

_CHANGES = ((2.0, 15, 0.2), (2.0, 40, 0.4), (5.0, 10, 0.2), (50.0, 4, 0.2))
"""Changes to test for: growth of the share of flips, rounds within which it shows, and weight."""
_HORIZON = 1000  # rounds over which half of the weight on the start of a change is spread evenly


@dataclass(slots=True)
class _Window:
    """A change from some round on: weighted log E, what a flip adds to it, and the asks left."""

    log_value: float
    gain: float
    left: int


class FlipEvidence:
    """Evidence from flips that a judge has changed, valid however often it is checked.

    A flip is a verdict other than the recorded one. Items are asked in rounds, each item once a
    round. The null hypothesis: the expected share q of flips in a round, over all items, is the
    same in every round since the recording. Items may differ in how often they flip, and q is
    unknown.

    The evidence is a weighted mean over alternatives (k, r, h): from round k on, the share is r
    times what it was, and this shows within h rounds. With A asks and F flips before round k,
    and S flips in the rounds from k on, at most H = h rounds of asks, its terms are

        E = r**S / c**(F + S),  where c = (A + r * H) / (A + H).

    This is r**S relative to its mean over all orders of the flips: c is the mean of the factor
    over the asks. E does not depend on q, so that not knowing q costs nothing.

    E is below a test supermartingale. For a toss with probability p, the mean of c**-flip is 1 -
    (1 - 1/c) * p, which is at most exp(-(1 - 1/c) * p), and that of (r/c)**flip is at most
    exp((r/c - 1) * p). So E * exp(q * ((1 - 1/c) * A - (r/c - 1) * B)) after B asks of the
    window is a supermartingale that starts at 1, however q is spread over the items. Its
    exponent is q * A * (r - 1) * (H - B) / (A + r * H), which is not negative while B is at
    most H; after that the window is closed. The mean of such terms is below the mean of the
    supermartingales, so it is an e-process: the probability that it ever reaches 1 / alpha is
    at most alpha (Ville 1939). Whether to add a round may depend on the earlier rounds.

    At B = H, E is the E-variable of Turner, Ly, Grünwald (2024), "Generic E-variables for exact
    sequential k-sample tests that allow for optional stopping", arXiv 2106.02693, for rare
    flips. The weights on k are those of a mixture of e-detectors: Shin, Ramdas, Rinaldo (2024),
    arXiv 2203.03532.
    """

    def __init__(self, flips: int, asks: int) -> None:
        """Start from the recording: flips among the asks that did not choose the verdicts."""
        self._flips, self._asks = flips, asks
        self._rounds = 0
        self._open: list[_Window] = []
        self._closed = -math.inf  # log of the sum of E over closed windows
        self.doubled = 0.0
        """The highest log likelihood ratio so far of a share that doubled; at least 0.0.

        The cumulative sum of Page (1954), "Continuous inspection schemes", Biometrika 41, with the
        share of all asks before each round. It has no error rate: it only says when to ask again.
        """

    @property
    def share(self) -> float:
        """The share of flips among all asks so far; 0.0 if there are none."""
        return self._flips / self._asks if self._asks else 0.0

    @property
    def log_value(self) -> float:
        """The natural logarithm of the evidence; 0.0 before the first round."""
        if not self._rounds:
            return 0.0
        return _log_sum([self._closed, *(window.log_value for window in self._open)])

    def add(self, flips: int, asks: int) -> None:
        """Add a round: its asks, and the flips among them."""
        if not asks:
            return
        self.doubled = max(0.0, self.doubled + flips * math.log(2) - self.share * asks)
        self._rounds += 1
        starts = _log_weight(self._rounds)
        for factor, rounds, weight in _CHANGES:
            until = rounds * asks
            mean = (self._asks + factor * until) / (self._asks + until)
            value = math.log(weight) + starts - self._flips * math.log(mean)
            self._open.append(_Window(value, math.log(factor / mean), until))
        still_open = []
        for window in self._open:
            if window.left < asks:
                self._closed = _log_sum([self._closed, window.log_value])
                continue
            window.log_value += flips * window.gain
            window.left -= asks
            still_open.append(window)
        self._open = still_open
        self._flips += flips
        self._asks += asks


def _log_weight(number: int) -> float:
    """Return the log of the weight on a change from this round on; the weights sum to 1."""
    early = 0.4 if number == 1 else 0.1 / (number * (number - 1))
    return math.log(early + (0.5 / _HORIZON if number <= _HORIZON else 0.0))


def _log_sum(values: list[float]) -> float:
    top = max(values)
    return top + math.log(math.fsum(math.exp(value - top) for value in values))


FORMAT = "judged canary"
VERSION = 1


class Outcome(StrEnum):
    """What a judge said about an item. A judge that failed has no outcome."""

    RELEVANT = "relevant"
    """The judge found it relevant."""
    NOT_RELEVANT = "not relevant"
    """The judge did not find it relevant."""
    ABSTAINED = "abstained"
    """It answered, but not with a verdict."""


@dataclass(frozen=True, slots=True)
class CanaryItem:
    """An item, its recorded verdict, and how often the judge gave another one while recording.

    `flips` of `asks` differed from `verdict`; these asks had no part in choosing the verdict.
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
    """Items with a judge's verdicts, and the judge and models that gave them.

    `models` are the names that the model providers reported.
    """

    items: Sequence[CanaryItem]
    judge: Judge
    signature: str
    fingerprint: str
    recorded_at: datetime
    models: Sequence[str] = ()

    @property
    def flips(self) -> int:
        """Number of asks of the recording that gave another verdict than the recorded one."""
        return sum(item.flips for item in self.items)

    @property
    def asks(self) -> int:
        """Number of asks of the recording that did not choose verdicts."""
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
        """SHA-256 of the whole recording, in hex; checks of other recordings don't count."""
        text = json.dumps(self._document(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _document(self) -> dict[str, Any]:
        return {"format": FORMAT, "version": VERSION, **plain(self)}

    @classmethod
    def read(cls, path: Path | str) -> Canary:
        """Return the canary of a file. Raises FileError."""
        file = read_object(path)
        file.check_format(FORMAT, VERSION, "`judged canary record`")
        found = file.read(cls)
        if not len({item.item_id for item in found.items}) == len(found.items) > 0:
            raise file.error("has no items, or two with one item_id; record it again")
        for item in found.items:
            if item.flips > item.asks:
                problem = f"item {item.item_id!r} has {item.flips} flips in {item.asks} asks"
                raise file.error(f"{problem}; record it again")
        return found


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: flips and asks of each round, and of each item.

    `evidence` is log E after each round, earlier checks included. Reading a history computes it
    again, so that all checks use the same formula. `asked` counts the verdicts of each item.
    """

    checked_at: datetime
    rounds: Sequence[Sequence[int]]
    flips: Mapping[str, int]
    asked: Mapping[str, int]
    evidence: Sequence[float]
    signature: str
    fingerprint: str
    models: Sequence[str] = ()

    def flipped(self) -> list[str]:
        """Return the ids of items that flipped in more than half of their asks."""
        return [name for name, n in self.asked.items() if 2 * self.flips.get(name, 0) > n]


@dataclass(slots=True)
class History:
    """The checks of one canary, in order.

    `others` is the number of checks of other recordings in the file; they stay there, uncounted.
    """

    path: Path | None
    canary: Canary
    checks: list[Check] = field(default_factory=list)
    others: int = 0

    @classmethod
    def read(cls, path: Path | str | None, canary: Canary) -> History:
        """Return the history in a file, empty if there is no file. Raises FileError."""
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
        """Add a check, and append it to the file, if there is one. Raises FileError."""
        self.checks.append(check)
        if self.path is None:
            return
        line = {
            "canary": self.canary.sha256,
            **plain(check),
            "flips": {name: n for name, n in check.flips.items() if n},
            "evidence": [round(value, 6) for value in check.evidence],
        }
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json_line(line))


def _read_check(line: Record, evidence: FlipEvidence) -> Check:
    """Return a check, and add its rounds to the evidence of the earlier ones."""
    check = line.read(Check)
    values = []
    for pair in check.rounds:
        if len(pair) != 2 or pair[0] > pair[1]:
            raise line.error("has 'rounds' that are not pairs of flips and asks")
        evidence.add(*pair)
        values.append(evidence.log_value)
    return replace(check, rounds=list(map(tuple, check.rounds)), evidence=values)


ASKS = 36
CHOOSING = 11
"""Asks of the recording that choose the verdicts, by majority; the others measure the noise.

With fewer than 22 asks, half of them choose."""
ROUNDS = 5
MOST_MISSING = 0.1
"""The largest share of items without a verdict; above it, recording and checking fail."""

Report = Callable[[int, int], object]
"""Called with the number of rounds done and their maximum."""


@dataclass(slots=True)
class _Asker:
    """Asks about every item once a round, and records which judge and models answered."""

    client: Client
    items: Sequence[CanaryItem]
    judge: Judge
    max_cost: float | None
    timeout: float
    models: set[str] = field(default_factory=set)
    spent: float = 0.0
    signature: str = ""
    fingerprint: str = ""

    def ask(self) -> list[Outcome | None]:
        """Return one outcome per item, None if the judge failed. Raises MissingVerdicts."""
        groups = [
            QueryGroup(item.query, list(item.expected), [item.retrieved]) for item in self.items
        ]
        left = None if self.max_cost is None else self.max_cost - self.spent
        if left is not None and self.spent and left <= 0:
            raise MissingVerdicts(f"the {self.max_cost:g} of max_cost are spent; allow more")
        verdicts = self.client.judge(
            groups,
            self.judge,
            include_details=True,
            asking=Asking(CacheMode.REFRESH, left),
            timeout=self.timeout,
        )
        self.signature = verdicts.judge.signature
        self.fingerprint = verdicts.judge.fingerprint
        if verdicts.usage is not None:
            self.spent += verdicts.usage.cost or 0.0
        for detail in verdicts.details.values():
            self.models |= {detail.model} - {""}
        found = [_outcome(verdicts[a:b]) for a, b in pairwise(verdicts.offsets)]
        if (missing := found.count(None)) > MOST_MISSING * len(found):
            error = next(iter(verdicts.errors.values()), None)
            why = "" if error is None else f": {error.reason}: {error.message}"
            raise MissingVerdicts(f"{missing} of {len(found)} items have no verdict{why}")
        return found


def record_canary(
    client: Client,
    items: Sequence[CanaryItem],
    judge: Judge | str = "",
    *,
    asks: int = ASKS,
    max_cost: float | None = None,
    timeout: float = 3600.0,
    now: datetime | None = None,
    progress: Report | None = None,
) -> Canary:
    """Ask a judge `asks` times about each item, and return the items with its verdicts.

    The first 11 asks, or half of them, choose an item's verdict by majority; the others count how
    often the judge gives another one, the noise that checks are compared with. `timeout` is for
    each round, `max_cost` for all. Raises InvalidArgument for fewer than 2 asks or a repeated id,
    MissingVerdicts if the judge fails, and JudgedError for a failed call.
    """
    refuse_below(2, asks=asks)
    refuse_repeated([item.item_id for item in items])
    asker = _Asker(client, items, to_judge(judge), max_cost, timeout)
    answers: list[list[Outcome | None]] = []
    for done in range(asks):
        answers.append(asker.ask())
        if progress is not None:
            progress(done + 1, asks)
    choosing = min(CHOOSING, asks // 2)
    return Canary(
        [
            _recorded(item, row, choosing)
            for item, row in zip(items, zip(*answers, strict=True), strict=True)
        ],
        asker.judge,
        asker.signature,
        asker.fingerprint,
        # With microseconds, so that two recordings within a second have two hashes.
        now or datetime.now(UTC),
        sorted(asker.models),
    )


def check_canary(
    client: Client,
    canary: Canary,
    history: History,
    *,
    rounds: int = ROUNDS,
    max_cost: float | None = None,
    timeout: float = 3600.0,
    now: datetime | None = None,
    progress: Report | None = None,
) -> Check:
    """Ask the judge of a canary again; return the check and add it to the history.

    Each round asks about every item once. There is another, up to `rounds` in all, while this
    check's share of flips is above that of all earlier asks, or the last rounds, of earlier checks
    too, fit twice that share better (`FlipEvidence.doubled`). The judge has changed once
    `history.highest` reaches log(1 / alpha). `timeout` is for each round, `max_cost` for all.
    Raises InvalidArgument, MissingVerdicts if the judge fails, and JudgedError for a failed call;
    the history is then unchanged.
    """
    refuse_below(1, rounds=rounds)
    evidence = history.evidence()
    before = evidence.share
    asker = _Asker(client, canary.items, canary.judge, max_cost, timeout)
    counts: list[tuple[int, int]] = []
    values: list[float] = []
    flips, asked = Counter[str](), Counter[str]()
    for done in range(rounds):
        found = asker.ask()
        pairs = [
            (item, outcome)
            for item, outcome in zip(canary.items, found, strict=True)
            if outcome is not None
        ]
        flipped = [item.item_id for item, outcome in pairs if outcome is not item.verdict]
        flips.update(flipped)
        asked.update(item.item_id for item, _ in pairs)
        counts.append((len(flipped), len(pairs)))
        evidence.add(*counts[-1])
        values.append(evidence.log_value)
        if progress is not None:
            progress(done + 1, rounds)
        if flips.total() <= before * asked.total() and not evidence.doubled:
            break
    check = Check(
        (now or datetime.now(UTC)).replace(microsecond=0),
        counts,
        dict(flips),
        dict(asked),
        values,
        asker.signature,
        asker.fingerprint,
        sorted(asker.models),
    )
    history.add(check)
    return check


def _outcome(contexts: Sequence[Verdict]) -> Outcome | None:
    """Return an item's outcome from its contexts, one for each expected text."""
    if any(verdict.relevant for verdict in contexts):
        return Outcome.RELEVANT
    statuses = {verdict.status for verdict in contexts}
    if Status.ERROR in statuses:
        return None
    return Outcome.NOT_RELEVANT if statuses == {Status.OK} else Outcome.ABSTAINED


def _recorded(item: CanaryItem, answers: Sequence[Outcome | None], choosing: int) -> CanaryItem:
    """Return an item with its verdict and its flips, from one answer per round."""
    chosen = Counter(answer for answer in answers[:choosing] if answer is not None)
    if not chosen:
        raise MissingVerdicts(f"item {item.item_id!r} had no verdict in {choosing} asks")
    (verdict, _), *_ = chosen.most_common(1)
    rest = [answer for answer in answers[choosing:] if answer is not None]
    flips = sum(answer is not verdict for answer in rest)
    return replace(item, verdict=verdict, flips=flips, asks=len(rest))
