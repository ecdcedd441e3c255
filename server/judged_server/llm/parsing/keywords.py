"""Sentences that say whether something is relevant, in words other than a leading yes or no.

Owns the words, their negations, and what makes them worth nothing: a question, a condition, a
quotation, a report of what somebody else says, another language than English, in which a negation
would not be known. Each keyword of each sentence is a yes, a no or
unclear; there is a verdict only when all are yes or all are no.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SENTENCE = re.compile(r"[^.!?…。！？\n]+[.!?…。！？\n]*")  # noqa: RUF001
_WORD = re.compile(r"[^\W_]+(?:['‐‑-][^\W_]+)*|[^\w\s*_`]")  # noqa: RUF001
_NON = re.compile(r"\bnon[‐‑-](?=\w)")  # noqa: RUF001
# Marks that turn a word around or strike it out, as in "!yes" and "~~yes~~".
_TURNED = re.compile(r"[¬≠]|~~|![*_`]{0,3}\w")
# Quoted words belong to somebody else. A single quoted word may be the answer: The answer is "no".
_QUOTED = re.compile(r"\"[^\"]*\"|“[^“”]*”|«[^«»]*»|「[^「」]*」|„[^„“”]*[“”]")
_POLITE = re.compile(r"\bi(?:'d| would) (?:say|answer|conclude)\b")

_POSITIVE = frozenset({"yes", "relevant", "match", "matches", "matched"})
_NEGATIVE = frozenset({"irrelevant", "nonrelevant", "unrelated", "mismatch", "mismatched"})
_NEGATORS = frozenset(
    {"not", "no", "non", "never", "neither", "nor", "cannot", "isnt", "doesnt", "dont", "without",
     "none", "nothing", "nowhere", "hardly", "barely"}
)  # fmt: skip
_FILLERS = frozenset(
    {"a", "the", "any", "at", "all", "be", "really", "very", "directly", "fully", "actually",
     "quite", "clearly", "truly", "even", "closely", "exactly", "considered", "deemed", "contain",
     "have", "provide", "include", "give", "offer", "seem", "appear", "to", "good", "sufficiently"}
)  # fmt: skip
# With one of these a sentence asks, supposes, reports or doubts, and so asserts nothing.
_HEDGES = frozenset(
    {"whether", "if", "unless", "would", "could", "might", "may", "should", "must", "maybe",
     "perhaps", "possibly", "probably", "likely", "unlikely", "unclear", "unsure", "uncertain",
     "or", "either", "partially", "partly", "somewhat", "only", "depends", "depending", "determine",
     "decide", "assume", "assuming", "suppose", "fail", "fails", "failed", "true", "false", "wrong",
     "incorrect", "0", "1", "say", "says", "said", "saying", "claim", "claims", "claimed",
     "claiming", "state", "states", "stated", "ask", "asks", "asked", "asking", "instruct",
     "instructs", "instructed", "instruction", "instructions", "order", "ordered", "orders", "tell",
     "tells", "told", "demand", "demands", "demanded", "request", "requested", "requests", "reply",
     "pretend", "ignore", "supposedly", "allegedly", "according", "opposite", "instead", "want",
     "wants", "hypothetically", "quote", "quotes", "reads"}
)  # fmt: skip
# Without one of these, a sentence of more than keywords is not known to be English.
_ENGLISH = frozenset(
    {"a", "the", "this", "that", "these", "those", "it", "its", "is", "are", "does", "did",
     "and", "of", "to", "with", "because", "since", "therefore", "thus", "hence", "both", "there",
     "they", "my", "your", "answer", "verdict", "but", "from"}
)  # fmt: skip
# Words of languages that say "relevant" too, and share a word with English.
_FOREIGN = frozenset(
    {"nicht", "kein", "keine", "niet", "geen", "inte", "ej", "ikke", "ikkje", "nie", "pas", "nu",
     "ne", "ist", "der", "das", "und", "est", "het", "een", "det", "och"}
)  # fmt: skip
# A piece of a prompt, and an order to drop one: the model copies a text, or obeys it.
_COPIED = re.compile(
    r"<[|\uff5c]|[|\uff5c]>|[\uff1c\uff1e]|\[/?(?:inst|system_prompt)\]|<</?sys>>|_of_turn>|</?data\b"
    r"|&[lg]t;|<!\[cdata|[\x00-\x08\x1b\u2028-\u202e\u2066-\u2069]|\"(?:reasoning|verdict|score)\"\s*:"
    r"|\b(?:ignore|disregard|forget)\b|\b(?:answer|reply|respond)(?:ing)? with\b|\bby answering\b"
)
# Denied, they deny what they are about: "I don't think that it is not relevant".
_THOUGHTS = frozenset(
    {"think", "believe", "mean", "means", "imply", "implies", "deny", "denies", "doubt",
     "disagree", "conclude", "agree", "case", "clear", "sure", "certain"}
)  # fmt: skip
_KNOWN = _POSITIVE | _NEGATIVE | _NEGATORS | _FILLERS
# What may follow a "no" that is an answer; any other word makes it "no problem", "no doubt".
_AFTER_NO = frozenset(
    {"the", "it", "this", "that", "there", "these", "they", "retrieved", "because", "since", "as",
     "text", "document", "passage", "not", "i", "we", "neither", "none", "nothing", "its"}
)  # fmt: skip


def verdict(text: str) -> bool | None:
    """Return what the sentences of `text`, in lower case, say together; None when it is unclear.

    Braces mean that the text is no prose but a piece of JSON or of code, which is read elsewhere.
    """
    if "{" in text or "}" in text or _TURNED.search(text) or _COPIED.search(text):
        return None
    plain = _NON.sub("non ", text.replace("’", "'"))  # noqa: RUF001
    plain = _POLITE.sub("", _QUOTED.sub(_kept, plain))
    found: set[bool | None] = set()
    for sentence in _SENTENCE.findall(plain):
        if not sentence.rstrip().endswith(("?", "？")):  # noqa: RUF001
            found.update(_readings(_WORD.findall(sentence)))
    return found.pop() if len(found) == 1 else None


def stands_alone(rest: str) -> bool:
    """Say whether the text after a "no" lets it be an answer: "no it isn't", not "no doubt"."""
    word = _WORD.search(rest.replace("’", "'"))  # noqa: RUF001
    return word is None or word[0] in _AFTER_NO or not word[0][0].isalnum()


def _kept(quoted: re.Match[str]) -> str:
    """Return a quoted word, for more than one word nothing."""
    inside = quoted[0][1:-1].strip(" .!*_`")
    return f" {inside} " if inside.isalpha() else " , "


def _readings(words: Sequence[str]) -> Iterator[bool | None]:
    """Yield what each keyword of one sentence says."""
    hedged = (
        not (_HEDGES | _FOREIGN).isdisjoint(words)
        or not (
            _KNOWN.issuperset(word for word in words if word.isalnum())
            or not _ENGLISH.isdisjoint(words)
        )
        or any(word in _THOUGHTS and _negators(words[:place]) for place, word in enumerate(words))
    )
    for place, word in enumerate(words):
        if word not in _POSITIVE and word not in _NEGATIVE and word != "no":
            continue
        following = words[place + 1] if place + 1 < len(words) else ""
        if hedged or following in {":", "：", "=", "/", "|"}:  # noqa: RUF001
            yield None
        elif word == "no":
            yield from _no(words, place, following)
        elif word in _NEGATIVE:
            yield None if _negators(words[:place]) else False
        else:
            yield _positive(words, place)


def _no(words: Sequence[str], place: int, following: str) -> Iterator[bool | None]:
    """Yield what a "no" says; nothing where it belongs to a keyword that is read by itself."""
    if _negators(words[:place]):
        yield None
    elif not following or not following[0].isalnum() or following in _AFTER_NO:
        yield False
    elif not any(_negated(words, after) == place for after in range(place + 1, place + 5)):
        yield None


def _positive(words: Sequence[str], place: int) -> bool | None:
    """Return what a word like "relevant" says, given the negators of its sentence."""
    negator = _negated(words, place)
    if negator is not None:
        return None if _negated(words, negator) is not None else False
    return None if _negators(words) else True


def _negated(words: Sequence[str], place: int) -> int | None:
    """Return the place of the negator right before `place`, fillers aside; None without one."""
    if place >= len(words) or (words[place] not in _POSITIVE and not _negates(words[place])):
        return None
    place -= 1
    while place >= 0 and words[place] in _FILLERS:
        place -= 1
    return place if place >= 0 and _negates(words[place]) else None


def _negators(words: Sequence[str]) -> bool:
    return any(_negates(word) for word in words)


def _negates(word: str) -> bool:
    return word in _NEGATORS or word.endswith("n't")
