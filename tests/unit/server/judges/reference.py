"""What the lexical judges should say, word for word from their definition and without haste."""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from hypothesis import strategies as st
from judged.values.choices import Flag
from judged_server.domain import FloatArray, Group, JudgeSpec
from judged_server.judges.base import PureJudge
from judged_server.judges.lexical import STOPWORDS, ExactKind, TokenOverlapKind

NEGATIONS = {"no", "not", "never", "none", "without", "cannot"}

# Few words, so that texts meet: short and long ones, numbers, stopwords, negations, and pieces of
# each other; then everything that lowering, stripping and splitting can trip over.
WORDS = [
    "a",
    "b",
    "ab",
    "abc",
    "the",
    "of",
    "and",
    "no",
    "not",
    "cannot",
    "without",
    "x",
    "1",
    "42",
    "retrieval",
    "retrievals",
    "evaluation",
    "generation",
    "eight888",
    "1234567890",
    "ninth99999",
    "a" * 8,
    "a" * 9,
    "a" * 17,
    "b" * 16,
    "\u212aelvin",
    "\u0130stanbul",
    "İ",
    "ß",
    "Σας",
    "é",
    "NOT",
    "The",
    "Retrieval",
    "日本語",
    "ไทย",
    "привет",
    "naïve",
    "...",
    "don't",
    "x-y",
    "(ab",
]
SPACES = [
    " ",
    " ",
    " ",
    "  ",
    "\n",
    "\t",
    "\u00a0",
    "\u2028",
    "\x1c",
    "\x1f",
    "\u3000",
    "",
    ", ",
    "-",
]

words = st.sampled_from(WORDS)
texts = st.one_of(
    st.lists(st.tuples(words, st.sampled_from(SPACES)), max_size=12).map(
        lambda parts: "".join(word + space for word, space in parts)
    ),
    st.lists(st.sampled_from(WORDS[:21]), max_size=12).map(" ".join),
    st.text(st.sampled_from("ab1 .\n\u212a\u0130\u00a0\x1c"), max_size=6),
    st.just(""),
)
groups = st.builds(
    lambda query, expected, retrieved: Group("", query, expected, retrieved),
    texts,
    st.lists(texts, max_size=3),
    st.lists(texts, max_size=4),
)
group_lists = st.lists(groups, max_size=4)


def judge_of(kind: str, profile: str, **parameters: bool | int) -> PureJudge:
    judges: dict[str, ExactKind | TokenOverlapKind] = {
        "exact": ExactKind(),
        "token_overlap": TokenOverlapKind(),
    }
    chosen = next(p for p in judges[kind].profiles if p.name == profile)
    defaults = {p.name: p.default for p in chosen.parameters}
    return judges[kind].build(JudgeSpec(kind, profile, None, defaults | parameters))


def scores_of(judge: PureJudge, asked: list[Group]) -> list[float]:
    columns = judge.score(asked)
    scores: FloatArray = columns.scores
    assert scores.dtype == "float64"
    assert columns.statuses is None
    return scores.tolist()


def one(judge: PureJudge, expected: str, retrieved: str, query: str = "") -> float:
    return scores_of(judge, [Group("", query, [expected], [retrieved])])[0]


def contexts(asked: list[Group]) -> list[tuple[str, str, str]]:
    return [
        (group.query, expected, retrieved)
        for group in asked
        for retrieved in group.retrieved
        for expected in group.expected
    ]


def normal(text: str) -> str:
    return " ".join(text.strip().lower().split())


def tokens(text: str) -> list[str]:
    return re.findall("[a-z0-9]+", text.lower())


def flag_of(text: str) -> Flag:
    letters = [c for c in unicodedata.normalize("NFKC", text) if c.isalnum()]
    lost = [c for c in letters if not c.isascii()]
    if lost and not tokens(text):
        return Flag.NO_TOKENS
    return Flag.UNKNOWN_TOKENS if len(lost) * 3 > len(letters) else Flag.NONE


def contains(one: str, other: str) -> bool:
    return bool(one and other) and (one in other or other in one)


def ratio(
    query: set[str], expected: set[str], retrieved: set[str], min_tokens: int, boost: bool
) -> float:
    shared = expected & retrieved
    if len(shared) < min_tokens:
        return 0.0
    share = len(shared) / len(expected)
    return min(1.0, share / 0.75) if boost and query & shared else share


def classic(query: str, expected: str, retrieved: str, min_tokens: int, boost: bool) -> float:
    one, other = normal(expected), normal(retrieved)
    if one == other or contains(one, other):
        return 1.0
    asked, wanted, found = (set(tokens(text)) for text in (query, expected, retrieved))
    return ratio(asked, wanted, found, min_tokens, boost)


def weight(token: str) -> Fraction:
    if token.isdigit():
        return Fraction(3, 2)
    if len(token) <= 2:
        return Fraction(3, 4)
    return Fraction(27, 20) if len(token) >= 8 else Fraction(1)


def weighted(query: str, expected: str, retrieved: str, min_tokens: int, boost: bool) -> float:
    one, other = normal(expected), normal(retrieved)
    if one == other:
        return 1.0
    if bool(NEGATIONS & set(tokens(expected))) != bool(NEGATIONS & set(tokens(retrieved))):
        return 0.0
    if contains(one, other):
        return 1.0
    content = [token for token in tokens(expected) if token not in STOPWORDS]
    shared = set(content) & {token for token in tokens(retrieved) if token not in STOPWORDS}
    if len(shared) < min_tokens:
        return 0.0
    score = sum(map(weight, shared)) / sum(map(weight, set(content)))
    for length in (4, 3, 2):
        starts = range(len(content) - length + 1)
        if any(" ".join(content[i : i + length]) in other for i in starts):
            score += Fraction(length - 1, 20)
            break
    if boost and shared & set(tokens(query)):
        score += Fraction(1, 10)
    return float(min(score, Fraction(1)))
