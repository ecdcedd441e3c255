"""A plain reply: YES, NO, or prose that says one of them.

Where a reply does not begin with one, `keywords` reads its sentences. When in doubt there is no
verdict: a judge that abstains is seen, one that guesses is not.
"""

from __future__ import annotations

import re

from judged_server.domain import Status
from judged_server.llm.faults import Reason
from judged_server.llm.parsing import keywords
from judged_server.llm.parsing.json_reply import has_tags, shortened
from judged_server.llm.parsing.parsed_reply import REFUSED, ParsedReply

MAX_CHARACTERS = 1 << 15
"""A longer reply is no answer to a question that asks for one word."""

_APPROVING, _REJECTING = "✅✔✓☑👍🟢", "❌✖✗✘❎👎🔴"
# No `!`, no `~` and no `≠`: they would turn the meaning around, or strike it out.
_DECORATION = re.compile(
    "[\\s*_`#>\"'“”„‟‘’‚«»‹›「」『』【】（）()\\[\\]|•·▪►→⇒=¡:：,.\\-–—\ufe0f"  # noqa: RUF001
    f"{_APPROVING}{_REJECTING}]*"
)
_HEADING = (
    "answer|verdict|decision|judge?ment|result|response|output|conclusion|assessment|assistant"
    "|antwort|urteil|réponse|respuesta|risposta|resposta|odpowiedź|odpověď|svar|vastaus|antwoord"
    "|cevap|yanıt|ответ|відповідь|απάντηση|答案|回答|答え|判定|결론|답변|답|उत्तर|الجواب|الإجابة|תשובה"  # noqa: RUF001
)
_LABEL = re.compile(
    "(?:(?:the|my|your|final|overall|is|it|correct) ){0,3}"
    f"(?:(?:{_HEADING})(?:[*_`\"' \t\xa0]{{0,8}}(?:[:：=–—-]|\\r?\\n)| is\\b)"  # noqa: RUF001
    "|(?:relevant|relevance|match|matches|retrieval_match)[*_`\"' \t\xa0]{0,8}[:：=–—-])"  # noqa: RUF001
)
# A hyphen or an apostrophe joins ("no-one", "yes's"); so does a number ("No. 5").
_TOKEN = re.compile(r"(yes|no)(?!\w|[-'’]\w)(?!\.? ?\d)")  # noqa: RUF001
_OTHER_TOKEN = re.compile(r"[\W_]{0,20}(?:(?:or|and|nor)\b[\W_]{0,20})?(yes|no)(?!\w)")
# The verdict of an object: beside a leading word it is a second answer.
_OF_OBJECT = re.compile(r"\bverdict[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?[ \t]{0,8}(yes|no)(?!\w)")
_REFUSAL = re.compile(
    r"\b(?:i|we)(?:'m| am|'re| are)? (?:"
    r"(?:can'?t|cannot|can not|couldn't|could not|won't|will not) (?:\w{1,20} ){0,2}"
    r"(?:help|assist|comply|answer|respond|judge|evaluate|assess|provide|fulfil|fulfill|complete"
    r"|continue|engage|discuss|do|participate|support|process|share|give)"
    r"|(?:unable|not able|not allowed|not permitted|not comfortable)"
    r"|(?:must |have to )?(?:respectfully )?(?:decline|refuse))\b"
)
HEAD = 400
"""Characters in which a refusal begins, and which a bare answer does not exceed."""

_UNCLEAR = ParsedReply(
    Status.ABSTAINED,
    reason=Reason.UNPARSABLE,
    message="the model's reply is not a clear yes or no",
)
_CUT = ParsedReply(
    Status.ERROR,
    reason=Reason.REPLY_TRUNCATED,
    message="the model's reply was cut off before its answer; raise max_tokens",
)


def read(text: str, *, cut: bool) -> ParsedReply:
    """Return the parsed reply of a plain text; `cut` says that its end is missing.

    A refusal abstains. A leading yes or no decides, unless what follows takes it back. Else the
    keywords decide, if they all say the same; not those of a text that was cut, which might have
    gone on to say the opposite.
    """
    if len(text) > MAX_CHARACTERS or has_tags(text):
        return _UNCLEAR
    lower = text.lower()
    if refuses(lower):
        return REFUSED
    token = _leading(lower)
    if token is not None:
        if cut and token.end() == len(lower):
            return _CUT
        yes = _settled(token, lower, cut=cut)
    elif cut:
        return _CUT
    else:
        yes = keywords.verdict(lower)
    if yes is None:
        return _CUT if cut else _UNCLEAR
    reasoning = "" if is_bare(text) else shortened(text)
    return ParsedReply(Status.OK, yes=yes, score=float(yes), reasoning=reasoning)


def refuses(lower: str) -> bool:
    """Say whether a text, in lower case, begins with a refusal to answer."""
    return _REFUSAL.search(lower[:HEAD].replace("’", "'")) is not None  # noqa: RUF001


def is_bare(text: str) -> bool:
    """Say whether `text` is a yes or a no and nothing else, but for decoration and a label."""
    if len(text) > HEAD:
        return False
    lower = text.lower()
    token = _leading(lower)
    return token is not None and not re.search(r"[^\W_]", lower[token.end() :])


def _leading(lower: str) -> re.Match[str] | None:
    """Return the yes or no that the text begins with, behind decoration and labels."""
    place = _end(_DECORATION, lower, 0)
    for _ in range(3):
        label = _LABEL.match(lower, place)
        if not label:
            break
        place = _end(_DECORATION, lower, label.end())
    return _TOKEN.match(lower, place)


def _settled(token: re.Match[str], lower: str, *, cut: bool) -> bool | None:
    """Return what a leading token says; None when the text takes it back.

    It does with the opposite next to it ("YES/NO"), with a mark, a later line or the verdict of an
    object that says the opposite, and where the token is no answer but part of a sentence ("no
    doubt it is relevant").
    Behind a comma only a "not" at once does ("yes, not relevant"): a reason may deny much, as in
    "yes, though the words do not match".
    """
    yes = token[1] == "yes"
    opposite = "no" if yes else "yes"
    other = _OTHER_TOKEN.match(lower, token.end())
    beside = [other, *_OF_OBJECT.finditer(lower, token.end())]
    if any(said is not None and said[1] == opposite for said in beside):
        return None
    if any(mark in lower[: token.start()] for mark in (_REJECTING if yes else _APPROVING)):
        return None
    for line in lower[token.end() :].splitlines()[1:]:
        later = _leading(line) if opposite in line else None
        if later and later[1] == opposite and not re.search(r"[^\W_]", line[later.end() :]):
            return None
    rest = lower[token.end() :]
    if re.match(r"[ \t]+\w|[ \t]*,[ \t]*not\b", rest):
        if not yes and not keywords.stands_alone(rest):
            return None if cut else keywords.verdict(lower[token.start() :])
        if keywords.verdict(rest) is (not yes):
            return None
    return yes


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place
