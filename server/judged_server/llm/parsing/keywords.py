"""Sentences that say whether something is relevant, in words other than a leading yes or no.

Nor is there a yes where a text is "far from relevant" or "relevant to another question". Each
keyword of each sentence is a yes, a no or unclear; there is a verdict only when all are yes or all
are no.
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
# With words that would spoil a sentence, and do not here: "I would say", "match each other".
_HARMLESS = re.compile(
    r"\bi(?:'d| would) (?:say|answer|conclude)\b|\b(?:each other|one another)\b"
    r"|\btoo(?=[.,;!\n]|\Z)"
)
# A grade, which says more than a keyword beside it: "Relevance: 0/10. It matches the topic."
_GRADED = re.compile(
    r"\b(?:relevance|match|score|rating|grade)(?:\W{0,6}[:=]| is| of)\W{0,6}"
    r"(?:\d|none|nil|low|poor|weak|minimal|limited|partial|medium|moderate)"
)

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
# What follows one of these may mean its opposite: "far from irrelevant", "anything but a match".
_REVERSERS = frozenset(
    {"far", "too", "less", "least", "anything", "zero", "nil", "few", "little", "hard", "difficult",
     "impossible", "rarely", "seldom", "scarcely", "almost", "nearly", "nobody", "no-one"}
)  # fmt: skip
# A negator behind one of these says that all is there: "it lacks nothing relevant".
_LACKS = frozenset(
    {"lack", "lacks", "lacked", "lacking", "miss", "misses", "missed", "missing", "omit", "omits",
     "omitted", "leaves", "excludes", "excluded"}
)  # fmt: skip
# A sentence that tells what is missing, poor or elsewhere holds no yes, but maybe the reason of a
# no: "It is not relevant, since it lacks the year and names another river".
_SHORTFALLS = _LACKS | frozenset(
    {"absent", "absence", "except", "outside", "insufficient", "incomplete", "inadequate", "poor",
     "weak", "weakly", "bad", "low", "loose", "loosely", "partial", "half", "some", "limited",
     "minimal", "minimally", "vague", "vaguely", "superficial", "superficially", "tangential",
     "tangentially", "marginal", "marginally", "slight", "slightly", "coincidental", "contradict",
     "contradicts", "contradicted", "contradicting", "conflicts", "contrary", "differ", "differs",
     "differed", "different", "differently", "another", "other", "others", "else", "elsewhere",
     "otherwise", "rather", "than", "unlike"}
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
     "disagree", "conclude", "agree", "case", "clear", "sure", "certain", "thinks", "believes"}
)  # fmt: skip
_KNOWN = _POSITIVE | _NEGATIVE | _NEGATORS | _FILLERS
_KEYWORDS = _POSITIVE | _NEGATIVE | {"no"}
_UNSURE = _HEDGES | _FOREIGN
# Behind one of these a keyword is a label, and what it says is something else: "relevant: high".
_LABELLING = frozenset({":", "：", "=", "/", "|"})  # noqa: RUF001
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
    plain = _HARMLESS.sub("", _QUOTED.sub(_kept, plain))
    found: bool | None = None
    for sentence in _SENTENCE.findall(plain):
        if sentence.rstrip().endswith(("?", "？")):  # noqa: RUF001
            continue
        for reading in _readings(_WORD.findall(sentence)):
            if reading is None or found is (not reading):
                return None
            found = reading
    return None if found and _GRADED.search(plain) else found


def stands_alone(rest: str) -> bool:
    """Say whether the text after a "no" lets it be an answer: "no it isn't", not "no doubt"."""
    word = _WORD.search(rest.replace("’", "'"))  # noqa: RUF001
    return word is None or word[0] in _AFTER_NO or not word[0][0].isalnum()


def _kept(quoted: re.Match[str]) -> str:
    """Return a quoted word, for more than one word nothing."""
    inside = quoted[0][1:-1].strip(" .!*_`")
    return f" {inside} " if inside.isalpha() else " , "


def _readings(words: Sequence[str]) -> Iterator[bool | None]:
    """Yield what each keyword of one sentence says; None at once where nothing in it counts."""
    if _KEYWORDS.isdisjoint(words):
        return
    # The place of the first denial tells of every word whether one is before it: a reply can be
    # thousands of keywords, none of which may look at all the others.
    denial = _first_denial(words)
    if _is_hedged(words, denial):
        yield None
        return
    is_sure = denial == len(words) and _SHORTFALLS.isdisjoint(words)
    for place, word in enumerate(words):
        if word not in _KEYWORDS:
            continue
        following = words[place + 1] if place + 1 < len(words) else ""
        if following in _LABELLING:
            yield None
        elif word == "no":
            yield from _no(words, place, following, denial)
        elif word in _NEGATIVE:
            yield None if denial < place else False
        else:
            yield True if is_sure else _denied(words, place)


def _is_hedged(words: Sequence[str], denial: int) -> bool:
    """Say whether a sentence asserts nothing, may be no English, or denies a thought."""
    if not _UNSURE.isdisjoint(words) or not _THOUGHTS.isdisjoint(words[denial + 1 :]):
        return True
    is_known = _KNOWN.issuperset(word for word in words if word.isalnum())
    return not is_known and _ENGLISH.isdisjoint(words)


def _no(words: Sequence[str], place: int, following: str, denial: int) -> Iterator[bool | None]:
    """Yield what a "no" says; nothing where it belongs to a keyword that is read by itself."""
    if denial < place:
        yield None
    elif not following or not following[0].isalnum() or following in _AFTER_NO:
        yield False
    elif not any(_negator(words, after) == place for after in range(place + 1, place + 5)):
        yield None


def _denied(words: Sequence[str], place: int) -> bool | None:
    """Return what a word like "relevant" says where it may be denied: no, or nothing clear."""
    negator = _negator(words, place)
    if negator is None:
        return None
    before = _place_before(words, negator)
    turned = before >= 0 and (words[before] in _LACKS or _denies(words[before]))
    return None if turned else False


def _negator(words: Sequence[str], place: int) -> int | None:
    """Return the place of the negator right before `place`, fillers aside; None without one."""
    if place >= len(words) or (words[place] not in _POSITIVE and not _negates(words[place])):
        return None
    place = _place_before(words, place)
    return place if place >= 0 and _negates(words[place]) else None


def _place_before(words: Sequence[str], place: int) -> int:
    """Return the place of the last word before `place` that is no filler; -1 without one."""
    place -= 1
    while place >= 0 and words[place] in _FILLERS:
        place -= 1
    return place


def _first_denial(words: Sequence[str]) -> int:
    """Return the place of the first word that denies; without one, the place behind the last."""
    for place, word in enumerate(words):
        if _denies(word):
            return place
    return len(words)


def _denies(word: str) -> bool:
    return word in _REVERSERS or _negates(word)


def _negates(word: str) -> bool:
    return word in _NEGATORS or word.endswith("n't")
