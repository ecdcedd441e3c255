"""Asks a judge about the items of a canary: to record it, and to check it.

Replies that the server has kept are passed over (CacheMode.REFRESH): they would hide any change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise

from judged.canary.files import Canary, CanaryItem, Check, History, Outcome
from judged.client import Client
from judged.errors import InvalidArgument, MissingVerdicts
from judged.values import (
    Asking,
    CacheMode,
    Judge,
    QueryGroup,
    Status,
    Usage,
    Verdict,
    Verdicts,
)

ASKS = 36
CHOOSING = 11
"""Asks of the recording that choose the verdicts, by majority; the others measure the noise.

Of fewer than 22 asks half choose."""
ROUNDS = 5
MOST_MISSING = 0.1
"""The share of items that may be without a verdict before the flips say nothing."""

Report = Callable[[int, int], object]
"""Called with the rounds that are done and those there are at most."""


@dataclass(slots=True)
class _Asker:
    """Asks every item once a round, and keeps what answered."""

    client: Client
    items: Sequence[CanaryItem]
    judge: Judge
    max_cost: float | None
    timeout: float
    models: set[str] = field(default_factory=set)
    system_fingerprints: set[str] = field(default_factory=set)
    usage: Usage | None = None
    signature: str = ""
    fingerprint: str = ""

    def ask(self) -> list[Outcome | None]:
        """Return a verdict an item, None where the judge failed. Raises MissingVerdicts."""
        groups = [
            QueryGroup(item.query, list(item.expected), [item.retrieved]) for item in self.items
        ]
        left = self.max_cost
        if left is not None and self.usage is not None and self.usage.cost is not None:
            left -= self.usage.cost
            if left <= 0:
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
            self.usage = verdicts.usage + (self.usage or Usage())
        for detail in verdicts.details.values():
            self.models |= {detail.model} - {""}
            self.system_fingerprints |= {detail.system_fingerprint} - {""}
        each = list(verdicts)
        offsets = verdicts.offsets
        found = [_outcome(each[a:b]) for a, b in pairwise(offsets)]
        _refuse_missing(found, verdicts)
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
    """Return the items with the verdicts of a judge, which is asked `asks` times about each.

    The first 11 asks, or half of them, choose an item's verdict by majority; the others count how
    often the judge gives another one, which is the noise that checks are held against. `timeout` is
    for each round, `max_cost` for all. Raises InvalidArgument for fewer than 2 asks or an id that
    is there twice, MissingVerdicts where the judge fails, and JudgedError for a failed call.
    """
    if asks < 2:
        raise InvalidArgument.of_field("asks", f"{asks} are too few; ask 2 or more")
    if not items:
        raise InvalidArgument.of_field("items", "are none; give 1 or more, better 50")
    twice = [name for name, n in Counter(item.item_id for item in items).items() if n > 1]
    if twice:
        raise InvalidArgument.of_field(
            "items", f"have the id {twice[0]!r} twice; give each its own"
        )
    asked = Judge(judge) if isinstance(judge, str) else judge
    asker = _Asker(client, items, asked, max_cost, timeout)
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
        now or datetime.now(UTC),
        sorted(asker.models),
        sorted(asker.system_fingerprints),
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
    """Ask the judge of a canary again, and return what it says now; the history has it too.

    Every item is asked once, and again, in up to `rounds` rounds, while this check's share of flips
    is higher than the share of all asks before it, or the last rounds, of earlier checks too, fit
    twice that share better (`FlipEvidence.doubled`). The judge has changed where `history.highest`
    has reached log(1 / alpha). `timeout` is for each round, `max_cost` for all. Raises
    InvalidArgument, MissingVerdicts where the judge fails, and JudgedError for a failed call;
    nothing is added to the history then.
    """
    if rounds < 1:
        raise InvalidArgument.of_field("rounds", f"{rounds} are too few; ask 1 or more")
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
        sorted(asker.system_fingerprints),
    )
    history.add(check)
    return check


def _outcome(contexts: Sequence[Verdict]) -> Outcome | None:
    """Return what the contexts of an item, one for each expected text, make of it."""
    if any(verdict.relevant for verdict in contexts):
        return Outcome.RELEVANT
    statuses = {verdict.status for verdict in contexts}
    if Status.ERROR in statuses:
        return None
    return Outcome.NOT_RELEVANT if statuses == {Status.OK} else Outcome.ABSTAINED


def _refuse_missing(found: Sequence[Outcome | None], verdicts: Verdicts) -> None:
    missing = found.count(None)
    if missing <= MOST_MISSING * len(found):
        return
    error = next(iter(verdicts.errors.values()), None)
    why = "" if error is None else f": {error.reason}: {error.message}"
    raise MissingVerdicts(f"{missing} of {len(found)} items have no verdict{why}")


def _recorded(item: CanaryItem, answers: Sequence[Outcome | None], choosing: int) -> CanaryItem:
    """Return an item with its verdict and its flips, from one answer a round."""
    chosen = Counter(answer for answer in answers[:choosing] if answer is not None)
    if not chosen:
        raise MissingVerdicts(f"item {item.item_id!r} had no verdict in {choosing} asks")
    (verdict, _), *_ = chosen.most_common(1)
    rest = [answer for answer in answers[choosing:] if answer is not None]
    flips = sum(answer is not verdict for answer in rest)
    return replace(item, verdict=verdict, flips=flips, asks=len(rest))
