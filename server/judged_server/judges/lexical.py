"""The judges `exact`, `span` and `token_overlap`: they compare texts, or spans of files.

`exact` and `span` do not use the query; `span` is for golden sets that point into files.

`token_overlap` reads each distinct text of a slice once, and compares the sets of words.

The profile `weighted` also looks for phrases. A phrase is two to four adjacent content words of an
expected text, joined by single spaces. It is found anywhere in the normal form of a retrieved text,
even inside words.

The profile `unicode` reads texts of any language. A word is a run of letters, digits and combining
marks, or a picture such as an emoji. In scripts without spaces between words, each pair of adjacent
characters is a word.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, pairwise

import numpy as np
from judged.values.choices import Flag
from judged.values.judges import JudgeIdentity

from judged_server.domain import (
    FIRST_PICTURE,
    UNREAD_SHARE,
    UNSPACED,
    FloatArray,
    Group,
    JudgeSpec,
    Parameter,
    ScoreColumns,
    Sides,
    plain_form,
    unread_share_of_plain,
)
from judged_server.judges.base import JudgeKind, Profile, PureJudge

VERBATIM = Profile("verbatim", "the texts are equal, byte for byte", 0.5)
NORMALIZED = Profile(
    "normalized",
    "the texts are equal in one form of Unicode, lowered and stripped, white space run together",
    0.5,
)
_EXACT_VERSIONS = {VERBATIM.name: 1, NORMALIZED.name: 2}


@dataclass(frozen=True)
class ExactJudge(PureJudge):
    """Scores 1 where the two texts of a context are equal, 0 elsewhere."""

    identity: JudgeIdentity

    def score(self, groups: Sequence[Group]) -> ScoreColumns:
        """Return one score a context, 0 or 1; nothing is flagged."""
        sides = [(group.expected, group.retrieved) for group in groups]
        if self.identity.profile == NORMALIZED.name:
            texts = {text for side in sides for text in chain(*side)}
            normal = {text: normalise(text) for text in texts}
            sides = [([normal[e] for e in es], [normal[r] for r in rs]) for es, rs in sides]
        return ScoreColumns(_equal(sides))


def _equal(sides: Sequence[tuple[Sequence[str], Sequence[str]]]) -> FloatArray:
    """Return float64, retrieved-major: 1 where an expected text equals a retrieved one, else 0."""
    total = sum([len(expected) * len(retrieved) for expected, retrieved in sides])
    scores = np.zeros(total)
    start = 0
    for expected, retrieved in sides:
        stride = len(expected)
        # count() and index() search in C, so that only matches cost a step in Python.
        for first, text in enumerate(expected, start):
            rank = -1
            for _ in range(retrieved.count(text)):
                rank = retrieved.index(text, rank + 1)
                scores[first + stride * rank] = 1.0
        start += stride * len(retrieved)
    return scores


class ExactKind(JudgeKind):
    """Builds `exact` judges."""

    kind = "exact"
    profiles = (VERBATIM, NORMALIZED)

    def build(self, spec: JudgeSpec) -> ExactJudge:
        """Return the judge of a spec whose profile is set."""
        threshold = VERBATIM.min_score if spec.min_score is None else spec.min_score
        version = _EXACT_VERSIONS[spec.profile]
        return ExactJudge(JudgeIdentity.build(self.kind, spec.profile, threshold, [], version))


_SPAN_VERSION = 1
MIN_SCORE = 0.5

IOU = "iou"
CONTAINMENT = "containment"


@dataclass(frozen=True)
class SpanJudge(PureJudge):
    """Scores the overlap of two spans."""

    identity: JudgeIdentity
    measure: str = IOU

    wants = "spans"

    def score(self, groups: Sequence[Group]) -> ScoreColumns:
        """Return one score a context, from 0 (nothing shared, or other files) to 1."""
        scores = [overlap(group.spans, self.measure) for group in groups if group.spans is not None]
        return ScoreColumns(np.concatenate([np.zeros(0), *scores]))


def overlap(spans: Sides, measure: str) -> FloatArray:
    """Return float64[retrieved * expected], retrieved-major: the overlap of every pair of spans.

    With lengths and overlaps in characters, `iou` is |E n R| / |E u R| (Jaccard, 1901) and
    `containment` is |E n R| / |E|. Spans of different files score 0.
    """
    file, start, end = spans.expected.T
    own_file, own_start, own_end = spans.retrieved.T[:, :, None]
    starts, ends = np.maximum(own_start, start), np.minimum(own_end, end)
    meet = (own_file == file) & (ends > starts)
    # Positions are unsigned: use a difference only where it can't be negative, and convert it to
    # double precision, since the sum of two lengths may overflow 64 bits.
    shared = np.where(meet, ends - starts, np.uint64(0)).astype(np.float64)
    whole = (end - start).astype(np.float64)
    if measure == IOU:
        whole = (own_end - own_start).astype(np.float64) + whole - shared
    scores: FloatArray = (shared / whole).ravel()
    return scores


class SpanKind(JudgeKind):
    """Builds `span` judges."""

    kind = "span"
    profiles = (
        Profile(
            "",
            "Overlap of two parts of the same file; texts and the query are not used.",
            MIN_SCORE,
            (
                Parameter(
                    "measure",
                    IOU,
                    "What the shared characters are divided by: those of both spans together "
                    "(intersection over union), or those of the expected span.",
                    choices=(IOU, CONTAINMENT),
                ),
            ),
        ),
    )

    def build(self, spec: JudgeSpec) -> SpanJudge:
        """Return the judge of a spec whose parameters are settled."""
        threshold = MIN_SCORE if spec.min_score is None else spec.min_score
        measure = str(spec.parameters.get("measure", IOU))
        identity = JudgeIdentity.build(
            self.kind, "", threshold, [("measure", measure)], _SPAN_VERSION
        )
        return SpanJudge(identity, measure)


# NLTK's English list in its version of 179 words, which evret 0.0.3 leaves out of comparisons.
_STOPWORDS = """
    a about above after again against ain all am an and any are aren aren't as at be because
    been before being below between both but by can couldn couldn't d did didn didn't do does
    doesn doesn't doing don don't down during each few for from further had hadn hadn't has hasn
    hasn't have haven haven't having he her here hers herself him himself his how i if in into
    is isn isn't it it's its itself just ll m ma me mightn mightn't more most mustn mustn't my
    myself needn needn't no nor not now o of off on once only or other our ours ourselves out
    over own re s same shan shan't she she's should should've shouldn shouldn't so some such t
    than that that'll the their theirs them themselves then there these they this those through
    to too under until up ve very was wasn wasn't we were weren weren't what when where which
    while who whom why will with won won't wouldn wouldn't y you you'd you'll you're you've your
    yours yourself yourselves
"""
STOPWORDS = frozenset(_STOPWORDS.split())
"""Words that are not content words."""
_EMPTY = frozenset(word.encode() for word in STOPWORDS)
NEGATIONS = frozenset((b"no", b"not", b"never", b"none", b"without", b"cannot"))
"""A text with one of these does not match a text with none, unless the two are equal."""

VERSION = 2
TEXTS_KEPT = 128
"""Texts whose words are cached while a slice is judged, since contexts of one query share texts.
The words of many more do not fit a processor's own cache, which costs more than is saved."""
QUERY_CREDIT = 0.75
"""If the query has a shared word, the score is divided by this. It has the effect of a threshold
multiplied by it, while `score >= min_score` stays the one rule."""
QUERY_BONUS = 0.1
PHRASE_BONUS = 0.05
"""Added for each word of the longest common phrase after its first."""
LONGEST_PHRASE = 4


def _alphabet(*, keep_high_bytes: bool) -> bytes:
    """Return the table that lowers ASCII letters, keeps digits, and maps all else to a space.

    With `keep_high_bytes` the bytes of UTF-8 beyond ASCII are kept too.
    """
    kept = (string.ascii_lowercase + string.digits).encode()
    if keep_high_bytes:
        kept += bytes(range(128, 256))
    lowered = bytes(range(256)).lower()
    return bytes(code if code in kept else 32 for code in lowered)


_ASCII_ALPHABET = _alphabet(keep_high_bytes=False)
_WIDE_ALPHABET = _alphabet(keep_high_bytes=True)


def _split(text: str, alphabet: bytes) -> list[bytes]:
    return text.encode("utf-8", "replace").translate(alphabet).split()


def normalise(text: str) -> str:
    """Return the plain form lowered, stripped, with one space for each run of white space."""
    return _on_one_line(plain_form(text).lower())


def _on_one_line(lowered: str) -> str:
    # The space is the only printable white space, so most texts need no change.
    if lowered.isprintable() and "  " not in lowered and lowered.strip(" ") == lowered:
        return lowered
    return " ".join(lowered.split())


_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")


class _WordCharacters(dict[int, int | str]):
    """Table for `str.translate`, filled as code points occur.

    Letters, numbers and marks stay, and each picture is a word. All else becomes a space. Entries
    are facts of Unicode and at most one per code point, so one table serves every call.
    """

    def __missing__(self, code: int) -> int | str:
        category = unicodedata.category(chr(code))
        result: int | str = " "
        if category[0] in "LNM":
            result = code
        elif category == "So" and code >= FIRST_PICTURE:
            result = f" {chr(code)} "
        self[code] = result
        return result


_WORD_CHARACTERS = _WordCharacters()


def _pairs(run: re.Match[str]) -> str:
    characters = run[0]
    pairs = (characters[i : i + 2] for i in range(max(1, len(characters) - 1)))
    return f" {' '.join(pairs)} "


class Words:
    """The words of ASCII letters and digits in a text, as bytes of UTF-8, and other forms of it.

    `in_order` has all words in order, `inner` all but the first and the last. Texts with equal
    `normal` forms are the same. One contains the other if neither `extent` is empty and one is a
    substring of the other. `flag` says what was not read.
    """

    def __init__(self, text: str) -> None:
        self._plain = plain_form(text)
        self.in_order = self._read()
        self.inner = self.in_order[1:-1]
        self.flag = Flag.NONE.value if text.isascii() else self._unread().value

    def _read(self) -> list[bytes]:
        # The capital I with a dot is lowered to i and a combining dot. No other non-ASCII lowering
        # changes where words begin or end, and the alphabet lowers ASCII.
        return _split(self._plain.replace("\u0130", "i\u0307"), _ASCII_ALPHABET)

    def _unread(self) -> Flag:
        unread = unread_share_of_plain(self._plain)
        if unread and not self.in_order:
            return Flag.NO_TOKENS
        return Flag.UNKNOWN_TOKENS if unread > UNREAD_SHARE else Flag.NONE

    @cached_property
    def terms(self) -> frozenset[bytes]:
        """The distinct words."""
        return frozenset(self.in_order)

    @cached_property
    def normal(self) -> str:
        """The text on one line, in lower case."""
        return _on_one_line(self._plain.lower())

    @property
    def extent(self) -> str:
        """The form that is searched for in another text."""
        return self.normal

    @cached_property
    def content(self) -> list[str]:
        """The content words in order."""
        return [word.decode() for word in self.in_order if word not in _EMPTY]

    @cached_property
    def pairs(self) -> list[str]:
        """The pairs of adjacent content words, joined by single spaces."""
        return [f"{left} {right}" for left, right in pairwise(self.content)]

    @cached_property
    def weights(self) -> dict[bytes, int]:
        """The weight of each content word, in twentieths so that sums are exact."""
        return {
            word: 30 if word.isdigit() else 15 if len(word) <= 2 else 27 if len(word) >= 8 else 20
            for word in self.terms - _EMPTY
        }


class UnicodeWords(Words):
    """The words of every language; a text contains another by whole words."""

    def _read(self) -> list[bytes]:
        spaced = self._folded()
        if not spaced.isascii():
            spaced = _UNSPACED_RUN.sub(_pairs, spaced.translate(_WORD_CHARACTERS))
        return _split(spaced, _WIDE_ALPHABET)

    def _folded(self) -> str:
        # Folding can undo the plain form, so it is applied once more.
        return plain_form(self._plain.casefold())

    def _unread(self) -> Flag:
        return Flag.NONE

    @cached_property
    def normal(self) -> str:
        """The text on one line, folded."""
        return " ".join(self._folded().split())

    @cached_property
    def extent(self) -> str:
        """The words, with a space on either side of each."""
        return f" {b' '.join(self.in_order).decode()} " if self.in_order else ""


@dataclass(frozen=True)
class TokenOverlapJudge(PureJudge):
    """Scores the share of the expected text's distinct words that the retrieved text has."""

    identity: JudgeIdentity
    min_tokens: int
    query_boost: bool

    def score(self, groups: Sequence[Group]) -> ScoreColumns:
        """Return one score a context, in [0, 1], and flags if a text was not fully read."""
        profile = self.identity.profile
        read = lru_cache(TEXTS_KEPT)(UnicodeWords if profile == ANY_LANGUAGE.name else Words)
        compare = self._weighted if profile == WEIGHTED.name else self._ratio
        scores: list[float] = []
        flags: list[int] = []
        for group in groups:
            asked = read(group.query).terms
            expected = [read(text) for text in group.expected]
            wanted = frozenset().union(*(one.terms for one in expected))
            for retrieved in map(read, group.retrieved):
                found = wanted.intersection(retrieved.in_order)
                scores += [compare(one, retrieved, one.terms & found, asked) for one in expected]
                flags += [one.flag | retrieved.flag for one in expected]
        return ScoreColumns(
            np.array(scores, np.float64), flags=np.array(flags, np.uint8) if any(flags) else None
        )

    def _ratio(
        self, expected: Words, retrieved: Words, shared: frozenset[bytes], asked: frozenset[bytes]
    ) -> float:
        if _contained(expected, retrieved, len(shared)):
            return 1.0
        if len(shared) < self.min_tokens:
            return 0.0
        share = len(shared) / len(expected.terms)
        if self.query_boost and not shared.isdisjoint(asked):
            return min(share / QUERY_CREDIT, 1.0)
        return share

    def _weighted(
        self, expected: Words, retrieved: Words, shared: frozenset[bytes], asked: frozenset[bytes]
    ) -> float:
        if NEGATIONS.isdisjoint(expected.terms) != NEGATIONS.isdisjoint(retrieved.in_order):
            return 0.0
        if _contained(expected, retrieved, len(shared)):
            return 1.0
        weights = expected.weights
        shared &= weights.keys()
        if len(shared) < self.min_tokens:
            return 0.0
        score = sum(map(weights.__getitem__, shared)) / sum(weights.values())
        if self.query_boost and not shared.isdisjoint(asked):
            score += QUERY_BONUS
        if score < 1:
            score += PHRASE_BONUS * max(_longest_phrase(expected, retrieved) - 1, 0)
        return min(score, 1.0)


def _contained(one: Words, other: Words, n_shared: int) -> bool:
    """Return whether two texts are the same or one contains the other; an empty one is in none."""
    # Such texts share all words except the first and the last of one, which may be cut.
    if n_shared < len(one.terms) - 2 and not one.terms.issuperset(other.inner):
        return False
    if one.normal == other.normal:
        return True
    left, right = one.extent, other.extent
    return bool(left and right) and (left in right or right in left)


def _longest_phrase(expected: Words, retrieved: Words) -> int:
    """Return the number of words in the longest common phrase, 0 for none."""
    content, text = expected.content, retrieved.normal
    starts = [place for place, pair in enumerate(expected.pairs) if pair in text]
    longest = 2 if starts else 0
    for length in range(3, LONGEST_PHRASE + 1):
        # A phrase can match only if it does without its last word, and without its first.
        starts = [
            place
            for place, following in pairwise(starts)
            if following == place + 1 and " ".join(content[place : place + length]) in text
        ]
        longest = length if starts else longest
    return longest


def _parameters(min_tokens: int) -> tuple[Parameter, ...]:
    return (
        Parameter("min_tokens", min_tokens, "fewer shared tokens than this score 0", minimum=1),
        Parameter("query_boost", True, "a shared token that the query has too raises the score"),
    )


CLASSIC = Profile(
    "classic",
    "share of the expected text's words of ASCII letters and digits; decides as evret 0.0.1",
    0.6,
    _parameters(2),
)
WEIGHTED = Profile(
    "weighted",
    "weighted share of its content words, with phrases and negations; decides as evret 0.0.3",
    0.6,
    _parameters(15),
)
ANY_LANGUAGE = Profile(
    "unicode", "as classic, with the words of every language", 0.6, _parameters(2)
)


class TokenOverlapKind(JudgeKind):
    """Builds `token_overlap` judges."""

    kind = "token_overlap"
    profiles = (CLASSIC, WEIGHTED, ANY_LANGUAGE)

    def build(self, spec: JudgeSpec) -> TokenOverlapJudge:
        """Return the judge of a spec whose profile and parameters are set."""
        min_tokens = int(spec.parameters["min_tokens"])
        query_boost = bool(spec.parameters["query_boost"])
        identity = JudgeIdentity.build(
            self.kind,
            spec.profile,
            CLASSIC.min_score if spec.min_score is None else spec.min_score,
            [("min_tokens", str(min_tokens)), ("query_boost", str(query_boost).lower())],
            VERSION,
        )
        return TokenOverlapJudge(identity, min_tokens, query_boost)
