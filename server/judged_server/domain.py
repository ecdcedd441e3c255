"""The words of the service as values: groups, judges, verdicts, scores of answers, money.

Nobody writes to a value, or to an array in it, after it is made. Groups and columns, which every
call makes, are not frozen: a frozen one takes six times as long to make.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from judged.values.choices import Flag, Source, Status
from judged.values.groups import VerdictCounts, VerdictDetail
from judged.values.judges import Judge, Usage
from judged.values.scores import RubricSummary
from numpy.typing import NDArray

from judged_server.errors import InvalidField, LimitExceeded, did_you_mean

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
UnsignedArray = NDArray[np.uint64]
ByteArray = NDArray[np.uint8]


def need(given: bool, field: str, rule: str) -> None:
    """Raise InvalidField where something is not given."""
    if not given:
        raise InvalidField(field, rule)


def need_all(good: BoolArray, field: str, rule: str) -> None:
    """Raise InvalidField at the first entry of a column that is not good."""
    if not good.all():
        raise InvalidField(f"{field}[{int(good.argmin())}]", rule)


def need_length(column: Sized, n: int, field: str, things: str) -> None:
    """Raise InvalidField for a column that has not one entry for each of n things."""
    need(len(column) == n, field, f"has {len(column)} entries for {n} {things}")


def check_limit(number: int, limit: int, what: str, field: str) -> None:
    """Raise LimitExceeded for more of something than there may be."""
    if number > limit:
        raise LimitExceeded(field, what, limit, number)


def check_unique(names: Sequence[str], field: str) -> None:
    """Raise InvalidField at `field.format(i)` when name i was there before."""
    places: dict[str, int] = {}
    for i, name in enumerate(names):
        first = places.setdefault(name, i)
        if first != i:
            raise InvalidField(field.format(i), f"is that of {field.format(first)} again")


def check_known(given: Iterable[str], known: Iterable[str], field: str, rule: str) -> None:
    """Raise InvalidField at `field["name"]` for the first name that is not known, with a hint."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InvalidField(f'{field}["{name[:80]}"]', f"{rule}; {hint}" if hint else rule)


def check_names(
    names: Sequence[str], what: str, most: int, field: str, leaf: str = "", least: int = 2
) -> None:
    """Raise InvalidField for too few names, and at `field[i]leaf` for one empty or repeated.

    Raises LimitExceeded for more than `most`; `what` says what has the names.
    """
    need(len(names) >= least, field, f"must hold at least two {what}")
    check_limit(len(names), most, what, field)
    for i, name in enumerate(names):
        need(name != "", f"{field}[{i}]{leaf}", "must not be empty")
    check_unique(names, f"{field}[{{}}]{leaf}")


@dataclass(frozen=True, slots=True)
class Sides:
    """What a caller sent in place of the texts of one group: a row for each.

    Vectors are float32[n, dimensions]; spans uint64[n, 3], the number of the file, which is the
    same for equal files of the group, the start, and the end, which is no part of the span.
    """

    expected: NDArray[Any]
    retrieved: NDArray[Any]

    def at_ranks(self, ranks: Sequence[int]) -> Sides:
        """Return the same with these of the retrieved ones only."""
        return Sides(self.expected, self.retrieved[np.asarray(ranks, np.int64)])


@dataclass(slots=True)
class Group:
    """A caller's QueryGroup: all pairs of its texts are contexts, retrieved-major.

    Rows of arrays may stand for the texts. `negatives` are texts that should not have been
    found; their verdicts are no part of the group's. `grades` are those of documents that were
    judged by their ids; `relevant_document_ids` are then those with a grade above 0.
    """

    query_id: str
    query: str
    expected: Sequence[str]
    retrieved: Sequence[str]
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: Sides | None = None
    spans: Sides | None = None
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    grades: Mapping[str, int] = field(default_factory=dict)
    cost: int = field(default=0, init=False, compare=False)
    """The work of judging it, once `judges.base.group_cost` was asked; 0 before."""

    @property
    def by_id(self) -> bool:
        """Whether the results are matched by document id, and so not judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of what stands for them."""
        return len((self.embeddings or self.spans or self).expected)

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of what stands for them."""
        return len((self.embeddings or self.spans or self).retrieved)

    @property
    def n_contexts(self) -> int:
        """The number of verdicts the group has."""
        if self.embeddings is None and self.spans is None:
            return len(self.expected) * len(self.retrieved)
        return self.n_expected * self.n_retrieved

    @property
    def open_ended(self) -> bool:
        """Whether texts were retrieved, and no text or one blank text says what was expected."""
        if not self.retrieved or self.by_id or any(self.expected):
            return False
        return len(self.expected) <= 1 and self.embeddings is None and self.spans is None

    def at_ranks(self, ranks: Sequence[int]) -> Group:
        """Return the group with these of its results only, counted from 0, in that order."""
        return replace(
            self,
            retrieved=[self.retrieved[rank] for rank in ranks] if self.retrieved else (),
            document_ids=[self.document_ids[rank] for rank in ranks] if self.document_ids else (),
            embeddings=self.embeddings and self.embeddings.at_ranks(ranks),
            spans=self.spans and self.spans.at_ranks(ranks),
        )


ParameterScalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a judge, or a metric: its default gives the type, the others the rule."""

    name: str
    default: ParameterScalar
    description: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rule in words, for error messages and GetServerInfo."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if isinstance(self.default, bool):
            return "true or false"
        kind = {int: "a whole number", float: "a number", str: "a name"}[type(self.default)]
        if self.minimum is not None and self.maximum is not None:
            return f"{kind} from {self.minimum:.15g} to {self.maximum:.15g}"
        if self.minimum is not None:
            return f"{kind}, at least {self.minimum:g}"
        return kind

    def check(self, value: ParameterScalar) -> ParameterScalar:
        """Return the value in the default's type. Raises ValueError where it breaks the rule."""
        wanted = type(self.default)
        if wanted is float and type(value) is int:
            value = float(value)
        fits = type(value) is wanted and (not self.choices or value in self.choices)
        if fits and isinstance(value, int | float) and not isinstance(value, bool):
            fits = (
                math.isfinite(value)
                and (self.minimum is None or value >= self.minimum)
                and (self.maximum is None or value <= self.maximum)
            )
        if not fits:
            raise ValueError(self.rule)
        return value

    def read(self, text: str) -> ParameterScalar:
        """Return the value that a word or a number stands for. Raises ValueError with the rule."""
        if isinstance(self.default, str):
            return self.check(text)
        # float() takes more than people write: "1_0", "\u0663".
        if "_" in text or not text.isascii():
            raise ValueError(self.rule)
        try:
            value = float(text)
        except ValueError:
            raise ValueError(self.rule) from None
        return self.check(value + 0.0)  # -0.0 becomes 0.0, which prints one way


JudgeSpec: TypeAlias = Judge
"""A judge as a request asks for it: what runs is a `judges.base.Judge`."""
TIE_TOLERANCE = 1e-9
"""Added to a score before it is compared, so that one printed equal to the threshold passes."""


@dataclass(frozen=True, slots=True)
class VerdictFault:
    """Why one verdict is missing: a reason of ErrorReason, and a message."""

    index: int
    reason: str
    message: str
    retryable: bool = False


@dataclass(slots=True)
class ScoreColumns:
    """What a judge returns: one score a context, the groups in order, each retrieved-major.

    `scores` is float64 in [0, 1] where the status is OK and 0 elsewhere. `statuses` (uint8 of
    Status) and `flags` (uint8 of Flag) are None when every entry is OK, or unflagged. A judge that
    votes also gives `majorities`, whether most votes said yes, and `agreements`, float64 in [0, 1];
    one that asks a language model `usage`, `sources` (uint8 of Source, None when all were computed)
    and, if asked for, `details` by index, ascending. A calibrated judge gives `probabilities`,
    float64 in [0, 1], 0 where the status is not OK. A cascade says which of its `stages` settled
    each (uint8, from 1; 0 where none did).
    """

    scores: FloatArray
    statuses: ByteArray | None = None
    flags: ByteArray | None = None
    faults: tuple[VerdictFault, ...] = ()
    majorities: BoolArray | None = None
    agreements: FloatArray | None = None
    details: Mapping[int, VerdictDetail] = field(default_factory=dict)
    usage: Usage | None = None
    sources: ByteArray | None = None
    probabilities: FloatArray | None = None
    stages: ByteArray | None = None

    @property
    def ok(self) -> BoolArray:
        """bool: which contexts have a verdict."""
        if self.statuses is None:
            return np.ones(len(self.scores), np.bool_)
        ok: BoolArray = self.statuses == Status.OK
        return ok

    def filled(self, name: str) -> NDArray[Any]:
        """Return a column; where it is None, what that stands for in every entry."""
        column: NDArray[Any] | None = getattr(self, name)
        return np.full(len(self.scores), _ABSENT[name]) if column is None else column

    def compact(self) -> ScoreColumns:
        """Return these columns, just made, without those that None stands for."""
        for name in _ABSENT:
            if not self.tells(name):
                setattr(self, name, None)
        return self

    def tells(self, name: str) -> bool:
        """Say whether a column is there, and more than what None stands for."""
        column = getattr(self, name)
        return column is not None and bool((column != _ABSENT.get(name, -1)).any())


_ABSENT = {
    "statuses": np.uint8(Status.OK),
    "flags": np.uint8(Flag.NONE),
    "sources": np.uint8(Source.COMPUTED),
    "majorities": np.True_,
}
"""What None stands for in the columns that may be left out."""


def passes(scores: FloatArray, min_score: float) -> BoolArray:
    """Return bool: which scores reach a threshold."""
    return scores + TIE_TOLERANCE >= min_score


@dataclass(slots=True)
class Verdicts:
    """Scores with the threshold applied, as a reply carries them.

    `offsets` has a place more than there are groups.
    """

    relevant: BoolArray
    columns: ScoreColumns
    offsets: Sequence[int]

    @classmethod
    def decide(cls, columns: ScoreColumns, offsets: Sequence[int], min_score: float) -> Verdicts:
        """Return the verdicts of `columns` under a threshold; only OK scores can be relevant.

        Where there was a vote, most votes must have said yes as well.
        """
        relevant = passes(columns.scores, min_score)
        if columns.majorities is not None:
            relevant &= columns.majorities
        if columns.statuses is not None:
            relevant &= columns.statuses == Status.OK
        return cls(relevant, columns, offsets)

    def of_groups(self, begin: int, end: int) -> Verdicts:
        """Return the verdicts of the groups from `begin` up to, not including, `end`.

        What the whole took is not told of a part.
        """
        first, last = self.offsets[begin], self.offsets[end]

        def cut(column: Any) -> Any:  # noqa: ANN401 - an array, what is sparse, or None
            if isinstance(column, tuple):
                here = (each for each in column if first <= each.index < last)
                return tuple(replace(each, index=each.index - first) for each in here)
            if isinstance(column, Mapping):
                return {at - first: each for at, each in column.items() if first <= at < last}
            return None if column is None else column[first:last]

        columns = {
            part.name: cut(getattr(self.columns, part.name))
            for part in fields(ScoreColumns)
            if part.name != "usage"
        }
        offsets = [offset - first for offset in self.offsets[begin : end + 1]]
        return Verdicts(cut(self.relevant), ScoreColumns(**columns), offsets)


_COUNTED_FLAGS = (
    Flag.NO_TOKENS,
    Flag.TRUNCATED,
    Flag.RESERVED_TOKENS,
    Flag.FALLBACK,
    Flag.UNKNOWN_TOKENS,
)


def counts_of(verdicts: Verdicts) -> VerdictCounts:
    """Return how many verdicts have each status, and how many carry a flag worth knowing."""
    statuses, flags = verdicts.columns.filled("statuses"), verdicts.columns.flags
    _, ok, error, abstained, not_assessable = np.bincount(statuses, minlength=5).tolist()
    flagged = [
        0 if flags is None else int(np.count_nonzero(flags & flag)) for flag in _COUNTED_FLAGS
    ]
    relevant = int(np.count_nonzero(verdicts.relevant))
    return VerdictCounts(ok, error, abstained, not_assessable, relevant, *flagged)


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """All scores of a call in sum: the rubrics in the order they were asked for."""

    rubrics: tuple[RubricSummary, ...]
    usage: Usage


NANO = 10**9
MOST_NANO = 1 << 62
"""No amount is larger, so that each fits into 64 bits, and so does the sum of two."""


@dataclass(slots=True, eq=False)
class CostTracker:
    """What one call may spend, has spent, and holds for what is under way.

    `max_cost` is the call's limit in the server's currency, `limit` in nano-units; None for none.
    `granted` counts the questions that were let through, `refused_by_day` those that were not
    because of a budget of a day or month, the last of which was `refusing_budget`. `unreported` is
    what models took since it was told last.
    """

    max_cost: float | None = None
    spent: int = 0
    held: int = 0
    granted: int = 0
    refused_by_day: int = 0
    refusing_budget: str = "per_day"
    unreported: Usage | None = None

    @property
    def limit(self) -> int | None:
        """The limit in nano-units."""
        return None if self.max_cost is None else nano_within(self.max_cost)

    def note(self, usage: Usage) -> None:
        """Note what a question took."""
        self.unreported = usage if self.unreported is None else self.unreported + usage

    def report(self) -> Usage | None:
        """Return what was noted since it was told last; None when models were asked nothing."""
        noted, self.unreported = self.unreported, None
        return noted


@lru_cache(maxsize=1024)
def nano_within(amount: float) -> int:
    """Return the nano-units of a limit, never more than it."""
    exact = Decimal(repr(amount)) * NANO
    return min(int(exact.to_integral_value(ROUND_FLOOR)), MOST_NANO)


def nano_covering(amount: Decimal) -> int:
    """Return the nano-units of a cost, never less than it."""
    return min(int((amount * NANO).to_integral_value(ROUND_CEILING)), MOST_NANO)


def to_amount(nano: int) -> float:
    """Return nano-units as an amount of the currency."""
    return nano / NANO


# By Unicode block: Han, Hiragana and Katakana, Thai, Lao, Myanmar, Khmer.
UNSPACED = (
    "\u0e00-\u0e7f\u0e80-\u0eff\u1000-\u109f\u1780-\u17ff\uaa60-\uaa7f\ua9e0-\ua9ff"
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u302f\u3031-\u303c\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001aff0-\U0001afff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
"""The characters of scripts that put no spaces between words, for a class of `re`."""

UNREAD_SHARE = 1 / 3
"""A text is told of where more of it than this is not read; docs/semantics.md says why."""

FIRST_PICTURE = 0x2600
"""Symbols (category So) from here on are pictures: emoji, weather, chess, ticks and crosses."""

_KEPT_TAGS = frozenset(("<super>", "<fraction>", "<circle>"))
_HYPHENS = "\u2010\u2011\u2212"
# Characters that show nothing: those of category Cf but for the signs of some scripts and the tags
# in flags of regions, the variation selectors, and the grapheme joiner.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0100-\U000e01ef"
)
_IS_INVISIBLE = re.compile(f"[{_INVISIBLE}]")
_ODD = re.compile(f"[{_HYPHENS}{_INVISIBLE}]")
_IN_UNSPACED = re.compile(f"[{UNSPACED}]")
_INSIDE_UNSPACED = re.compile(f"(?<=[{UNSPACED}])\u200b+(?=[{UNSPACED}])")
_BETWEEN_WORDS = re.compile(r"(?<=\w)\u200b+(?=\w)")
_ASCII = bytes(range(128))
_NO_TOKEN = bytes(code for code in range(256) if code > 127 or not chr(code).isalnum())


class _Forms(dict[int, str]):
    """What `str.translate` makes of each code point, looked up when first met.

    The answers are facts of Unicode and there are at most as many as code points, so one table
    serves every call.
    """

    def __missing__(self, code: int) -> str:
        character = chr(code)
        form = character
        if character in _HYPHENS:
            form = "-"
        elif _IS_INVISIBLE.match(character):
            form = ""
        else:
            tag, *codes = unicodedata.decomposition(character).split() or [""]
            # Punctuation, such as an ellipsis, is what it is, and an accent that stands alone too.
            kept = tag == "<compat>" and unicodedata.category(character)[0] == "P"
            alone = codes[:1] == ["0020"] and len(codes) > 1
            if tag[:1] == "<" and tag not in _KEPT_TAGS and not kept and not alone:
                form = "".join(self[int(part, 16)] for part in codes)
        self[code] = form
        return form


_FORMS = _Forms()


def plain_form(text: str) -> str:
    """Return the text in NFC, with plain letters for ligatures and full width, nothing invisible.

    A zero width space between words becomes a space, but not in scripts without spaces.
    """
    if text.isascii() or (
        unicodedata.is_normalized("NFKC", text) and not _ODD.search(_beyond(text))
    ):
        return text
    if "\u200b" in text:
        text = _BETWEEN_WORDS.sub(" ", _INSIDE_UNSPACED.sub("", text))
    return unicodedata.normalize("NFC", text.translate(_FORMS))


def unread_share(text: str) -> float:
    """Return which share of a text is lost where only ASCII letters and digits are read.

    It is that of the letters and digits; a picture counts as a word of seven of them.
    """
    return 0.0 if text.isascii() else unread_share_of_plain(plain_form(text))


def unread_share_of_plain(text: str) -> float:
    """Return the unread share of a text that is in plain form already."""
    read = len(text.encode("utf-8", "replace").translate(None, _NO_TOKEN))
    lost = sum(n * _letters(character) for character, n in Counter(_beyond(text)).items())
    return lost / (lost + read) if lost else 0.0


def unspaced_share(text: str) -> float:
    """Return which share of the letters is of scripts without spaces between words."""
    if text.isascii():
        return 0.0
    text = plain_form(text)
    found = sum(map(str.isalnum, _IN_UNSPACED.findall(text)))
    return found / sum(map(str.isalnum, text)) if found else 0.0


def _beyond(text: str) -> str:
    """Return the characters that are not ASCII."""
    return text.encode("utf-8", "replace").translate(None, _ASCII).decode()


def _letters(character: str) -> int:
    if ord(character) >= FIRST_PICTURE and unicodedata.category(character) == "So":
        return 7
    return int(character.isalnum())
