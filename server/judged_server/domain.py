"""Domain values: groups, judges, verdicts, scores of answers, costs.

Values, and the arrays in them, must not be changed after construction. `Group` and `ScoreColumns`
are not frozen: every call builds them, and a frozen dataclass takes six times as long to build.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence, Sized
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
    """Raise InvalidField unless `given` is true."""
    if not given:
        raise InvalidField(field, rule)


def need_all(good: BoolArray, field: str, rule: str) -> None:
    """Raise InvalidField at the first false entry of `good`."""
    if not good.all():
        raise InvalidField(f"{field}[{int(good.argmin())}]", rule)


def need_length(column: Sized, n: int, field: str, things: str) -> None:
    """Raise InvalidField unless a column has exactly one entry for each of n things."""
    need(len(column) == n, field, f"has {len(column)} entries for {n} {things}")


def check_limit(number: int, limit: int, what: str, field: str) -> None:
    """Raise LimitExceeded if `number` is above `limit`."""
    if number > limit:
        raise LimitExceeded(field, what, limit, number)


def check_unique(names: Sequence[str], field: str) -> None:
    """Raise InvalidField at `field.format(i)` if name i repeats an earlier one."""
    places: dict[str, int] = {}
    for i, name in enumerate(names):
        first = places.setdefault(name, i)
        if first != i:
            raise InvalidField(field.format(i), f"repeats {field.format(first)}")


def check_ids(ids: Sequence[str], known: Container[str], field: str) -> None:
    """Raise InvalidField at `field.format(i)` for the first id that is repeated or unknown."""
    check_unique(ids, field)
    for i, name in enumerate(ids):
        need(name in known, field.format(i), "is the id of no query that is measured; leave it out")


def check_known(given: Iterable[str], known: Iterable[str], field: str, rule: str) -> None:
    """Raise InvalidField at `field["name"]` for the first name that is not known, with a hint."""
    for name in given:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InvalidField(f'{field}["{name[:80]}"]', f"{rule}; {hint}" if hint else rule)


def check_names(
    names: Sequence[str], what: str, most: int, field: str, leaf: str = "", least: int = 2
) -> None:
    """Raise InvalidField for too few names, and at `field[i]leaf` for an empty or repeated one.

    Raises LimitExceeded for more than `most`; messages call the named things `what`.
    """
    need(len(names) >= least, field, f"must hold at least two {what}")
    check_limit(len(names), most, what, field)
    for i, name in enumerate(names):
        need(name != "", f"{field}[{i}]{leaf}", "must not be empty")
    check_unique(names, f"{field}[{{}}]{leaf}")


@dataclass(frozen=True, slots=True)
class Sides:
    """Vectors or spans that a caller sent instead of one group's texts: one row per text.

    Vectors are float32[n, dimensions]. Spans are uint64[n, 3]: the file's number (equal for equal
    files of the group), the start, and the exclusive end.
    """

    expected: NDArray[Any]
    retrieved: NDArray[Any]

    def at_ranks(self, ranks: Sequence[int]) -> Sides:
        """Return a copy with only the retrieved rows at `ranks`."""
        return Sides(self.expected, self.retrieved[np.asarray(ranks, np.int64)])


@dataclass(slots=True)
class Group:
    """A caller's QueryGroup: each pair of a retrieved and an expected text is a context.

    Contexts are in retrieved-major order. `embeddings` or `spans` may replace the texts.
    `negatives` are texts that should not have been found; their verdicts are kept apart. `grades`
    are by document id; if given, `relevant_document_ids` are those with a grade above 0.
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
    """The cost of judging it, set by the first call of `judges.base.group_cost`; 0 before."""

    @property
    def by_id(self) -> bool:
        """Whether the results are matched by document id instead of judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def brings(self) -> str:
        """What a judge is to compare: "embeddings" or "spans", else "texts"."""
        if self.embeddings is not None:
            return "embeddings"
        return "texts" if self.spans is None else "spans"

    @property
    def n_expected(self) -> int:
        """The number of expected texts, vectors or spans."""
        return len((self.embeddings or self.spans or self).expected)

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, vectors or spans."""
        return len((self.embeddings or self.spans or self).retrieved)

    @property
    def n_contexts(self) -> int:
        """The number of contexts; each gets one verdict."""
        if self.embeddings is None and self.spans is None:
            return len(self.expected) * len(self.retrieved)
        return self.n_expected * self.n_retrieved

    @property
    def open_ended(self) -> bool:
        """Whether there are retrieved texts, but no expected text or only one empty one."""
        if not self.retrieved or self.by_id or any(self.expected):
            return False
        return len(self.expected) <= 1 and self.embeddings is None and self.spans is None

    def at_ranks(self, ranks: Sequence[int]) -> Group:
        """Return the group with only the results at `ranks` (from 0), in that order."""
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
    """A parameter of a judge or metric: `default` sets its type, the other fields its rule."""

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
        """Return the value as the default's type. Raises ValueError if it breaks the rule."""
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
        """Return the value that a text represents. Raises ValueError with the rule."""
        if isinstance(self.default, str):
            return self.check(text)
        # float() would also accept "1_0" and "\u0663".
        if "_" in text or not text.isascii():
            raise ValueError(self.rule)
        try:
            value = float(text)
        except ValueError:
            raise ValueError(self.rule) from None
        return self.check(value + 0.0)  # -0.0 becomes 0.0, which prints one way


JudgeSpec: TypeAlias = Judge
"""A judge as a request specifies it; the one that runs is a `judges.base.Judge`."""
TIE_TOLERANCE = 1e-9
"""Added to a score before the comparison: a score printed equal to the threshold passes."""


@dataclass(frozen=True, slots=True)
class VerdictFault:
    """Why one verdict is missing: a reason of ErrorReason, and a message."""

    index: int
    reason: str
    message: str
    retryable: bool = False


@dataclass(slots=True)
class ScoreColumns:
    """What a judge returns: one score per context, group by group, each retrieved-major.

    `scores` is float64 in [0, 1], and 0 where the status is not OK. `statuses` (uint8 of Status) is
    None if all are OK; `flags` (uint8 of Flag) is None if there are none. Judges that vote set
    `majorities`, whether most votes are yes, and `agreements`, float64 in [0, 1]. Judges that ask a
    language model set `usage`, `sources` (uint8 of Source, None if all were computed) and, on
    request, `details` by ascending index. Calibrated judges set `probabilities`, float64 in [0, 1],
    and 0 where the status is not OK. Cascades set `stages`: the stage that settled each context
    (uint8, from 1; 0 if none did).
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
        """Mask of the contexts that have a verdict."""
        if self.statuses is None:
            return np.ones(len(self.scores), np.bool_)
        ok: BoolArray = self.statuses == Status.OK
        return ok

    def filled(self, name: str) -> NDArray[Any]:
        """Return a column; if it is None, one that is filled with its default."""
        column: NDArray[Any] | None = getattr(self, name)
        return np.full(len(self.scores), _ABSENT[name]) if column is None else column

    def compact(self) -> ScoreColumns:
        """Set columns that hold only their default to None, and return self (just built)."""
        for name in _ABSENT:
            if not self.tells(name):
                setattr(self, name, None)
        return self

    def tells(self, name: str) -> bool:
        """Return whether a column is set and has an entry other than its default."""
        column = getattr(self, name)
        return column is not None and bool((column != _ABSENT.get(name, -1)).any())


_ABSENT = {
    "statuses": np.uint8(Status.OK),
    "flags": np.uint8(Flag.NONE),
    "sources": np.uint8(Source.COMPUTED),
    "majorities": np.True_,
}
"""Defaults of the optional columns: what None means."""


def passes(scores: FloatArray, min_score: float) -> BoolArray:
    """Return a mask of the scores that reach a threshold."""
    return scores + TIE_TOLERANCE >= min_score


@dataclass(slots=True)
class Verdicts:
    """Scores with the threshold applied, as sent in replies.

    Group i has the contexts from `offsets[i]` up to, not including, `offsets[i + 1]`.
    """

    relevant: BoolArray
    columns: ScoreColumns
    offsets: Sequence[int]

    @classmethod
    def decide(cls, columns: ScoreColumns, offsets: Sequence[int], min_score: float) -> Verdicts:
        """Return the verdicts of `columns` under a threshold; only OK scores can be relevant.

        If the judge voted, most votes must be yes as well.
        """
        relevant = passes(columns.scores, min_score)
        if columns.majorities is not None:
            relevant &= columns.majorities
        if columns.statuses is not None:
            relevant &= columns.statuses == Status.OK
        return cls(relevant, columns, offsets)

    def of_groups(self, begin: int, end: int) -> Verdicts:
        """Return the verdicts of the groups from `begin` up to, not including, `end`.

        `usage` is left out: it is known only for the whole call.
        """
        first, last = self.offsets[begin], self.offsets[end]

        def cut(column: Any) -> Any:  # noqa: ANN401 - an array, sparse entries, or None
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
    """Return how many verdicts have each status, and each of the flags that are counted."""
    statuses, flags = verdicts.columns.filled("statuses"), verdicts.columns.flags
    _, ok, error, abstained, not_assessable = np.bincount(statuses, minlength=5).tolist()
    flagged = [
        0 if flags is None else int(np.count_nonzero(flags & flag)) for flag in _COUNTED_FLAGS
    ]
    relevant = int(np.count_nonzero(verdicts.relevant))
    return VerdictCounts(ok, error, abstained, not_assessable, relevant, *flagged)


@dataclass(frozen=True, slots=True)
class ScoreSummary:
    """Summary of all scores of a call; rubrics are in the order requested."""

    rubrics: tuple[RubricSummary, ...]
    usage: Usage


NANO = 10**9
MOST_NANO = 1 << 62
"""The largest amount: the sum of two still fits into 64 bits."""


@dataclass(slots=True, eq=False)
class CostTracker:
    """The cost limit of one call, what it has spent, and what it reserves for pending questions.

    `max_cost` is the call's limit in the server's currency, `limit` in nano-units; None for none.
    `granted` counts the questions that were admitted; `refusing_budget` is the last daily or
    monthly budget that refused one, "" for none. `held` is the sum reserved.
    `unreported` is the usage since the last report.
    """

    max_cost: float | None = None
    spent: int = 0
    held: int = 0
    granted: int = 0
    refusing_budget: str = ""
    unreported: Usage | None = None

    @property
    def limit(self) -> int | None:
        """The limit in nano-units."""
        return None if self.max_cost is None else nano_within(self.max_cost)

    def note(self, usage: Usage) -> None:
        """Add the usage of a question."""
        self.unreported = usage if self.unreported is None else self.unreported + usage

    def report(self) -> Usage | None:
        """Return the usage since the last report; None if no model was asked."""
        usage, self.unreported = self.unreported, None
        return usage


@lru_cache(maxsize=1024)
def nano_within(amount: float) -> int:
    """Return a limit in nano-units, rounded down."""
    exact = Decimal(repr(amount)) * NANO
    return min(int(exact.to_integral_value(ROUND_FLOOR)), MOST_NANO)


def nano_covering(amount: Decimal) -> int:
    """Return a cost in nano-units, rounded up."""
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
"""Characters of scripts without spaces between words, for a character class of `re`."""

UNREAD_SHARE = 1 / 3
"""A text is flagged if more than this share of it is not read; docs/semantics.md says why."""

FIRST_PICTURE = 0x2600
"""Symbols (category So) from here on are pictures: emoji, weather, chess, ticks and crosses."""

_KEPT_TAGS = frozenset(("<super>", "<fraction>", "<circle>"))
_HYPHENS = "\u2010\u2011\u2212"
# Invisible characters: category Cf except the signs of some scripts and the tags in flags of
# regions, the variation selectors, and the grapheme joiner.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff"
    "\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0100-\U000e01ef"
)
_IS_INVISIBLE = re.compile(f"[{_INVISIBLE}]")
_ODD = re.compile(f"[{_HYPHENS}{_INVISIBLE}]")
# By block: Tibetan, Tai Le and New Tai Lue, Tai Tham, Balinese, Bopomofo, Yi, Javanese, Tai Viet.
_OTHERWISE_SPACED = (
    "\u0f00-\u0fff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\u3100-\u312f\ua000-\ua4cf"
    "\ua980-\ua9df\uaa80-\uaadf"
)
_IN_UNSPACED = re.compile(f"[{UNSPACED}{_OTHERWISE_SPACED}]")
_INSIDE_UNSPACED = re.compile(f"(?<=[{UNSPACED}])\u200b+(?=[{UNSPACED}])")
_BETWEEN_WORDS = re.compile(r"(?<=\w)\u200b+(?=\w)")
_ASCII = bytes(range(128))
_NO_TOKEN = bytes(code for code in range(256) if code > 127 or not chr(code).isalnum())


class _Forms(dict[int, str]):
    """Table for `str.translate`, filled as code points occur.

    Entries are facts of Unicode and at most one per code point, so one table serves every call.
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
            # Punctuation, such as an ellipsis, and stand-alone accents are not replaced.
            kept = tag == "<compat>" and unicodedata.category(character)[0] == "P"
            alone = codes[:1] == ["0020"] and len(codes) > 1
            if tag[:1] == "<" and tag not in _KEPT_TAGS and not kept and not alone:
                form = "".join(self[int(part, 16)] for part in codes)
        self[code] = form
        return form


_FORMS = _Forms()


def plain_form(text: str) -> str:
    """Return the text in NFC, with ligatures and full width made plain and invisibles removed.

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
    """Return the share of a text that is lost if only ASCII letters and digits are read.

    The share is of letters and digits; a picture counts as a word of seven of them.
    """
    return 0.0 if text.isascii() else unread_share_of_plain(plain_form(text))


def unread_share_of_plain(text: str) -> float:
    """Return the unread share of a text that is already in plain form."""
    read = len(text.encode("utf-8", "replace").translate(None, _NO_TOKEN))
    lost = sum(n * _letters(character) for character, n in Counter(_beyond(text)).items())
    return lost / (lost + read) if lost else 0.0


def unspaced_share(text: str) -> float:
    """Return the share of letters that belong to scripts without spaces between words.

    These include scripts with other marks between them, such as Tibetan.
    """
    if text.isascii():
        return 0.0
    text = plain_form(text)
    found = sum(map(str.isalnum, _IN_UNSPACED.findall(text)))
    return found / sum(map(str.isalnum, text)) if found else 0.0


def _beyond(text: str) -> str:
    """Return the non-ASCII characters."""
    return text.encode("utf-8", "replace").translate(None, _ASCII).decode()


def _letters(character: str) -> int:
    if ord(character) >= FIRST_PICTURE and unicodedata.category(character) == "So":
        return 7
    return int(character.isalnum())
