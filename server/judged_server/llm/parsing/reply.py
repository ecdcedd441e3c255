"""From a reply to a parsed reply: JSON first, then plain words.

The ways of reading are `json_reply`, `plain_reply` and `plain_score`. Nothing here raises, whatever
the reply holds, and no message quotes it.
"""

from __future__ import annotations

import re

from judged_server.domain import Status
from judged_server.llm.chat import ChatReply, FinishReason
from judged_server.llm.faults import Reason
from judged_server.llm.parsing import json_reply, plain_reply, plain_score
from judged_server.llm.parsing.json_reply import unwrapped, without_remarks
from judged_server.llm.parsing.parsed_reply import REFUSED, ParsedReply
from judged_server.llm.rubrics.rubric import Rubric

PARSER_VERSION = 5
"""Counts up with every change that lets a reply mean something else: it can change a score."""

# A word in brackets is decoration: [YES].
_JSON = re.compile(r"\{|\[(?!\s*\w)")

_STOPPED = ParsedReply(
    Status.ABSTAINED,
    reason=Reason.REFUSED,
    message="the provider's safety filter stopped the answer",
)
_EMPTY = ParsedReply(
    Status.ABSTAINED, reason=Reason.UNPARSABLE, message="the model's reply holds no answer"
)
_NO_JSON = ParsedReply(
    Status.ERROR, reason=Reason.SCHEMA, message="the model's reply holds no JSON object"
)
_PROSE = ParsedReply(
    Status.ABSTAINED,
    reason=Reason.UNPARSABLE,
    message="the model answered in prose where JSON was asked for; if it takes no schema, "
    'the server\'s operator should set structured = "none" for it',
)
_NO_OBJECT = ParsedReply(
    Status.ABSTAINED,
    reason=Reason.UNPARSABLE,
    message="the model answered in prose where the rubric asks for JSON; choose another "
    "model for this rubric",
)
_CUT = ParsedReply(
    Status.ERROR,
    reason=Reason.REPLY_TRUNCATED,
    message="the model's reply was cut off; raise max_tokens",
)


def read(reply: ChatReply, rubric: Rubric, *, structured: bool) -> ParsedReply:
    """Return what `reply` says by `rubric`; `structured` says whether it had a schema to keep.

    A reply that looks like JSON is read strictly as JSON, whether or not that was asked for. Any
    other reply is read as plain words, if the rubric's form can be said in them; where JSON was
    asked for, only a bare YES or NO, or a bare score, counts. A reply that was cut off counts when
    it is a whole JSON object, or begins with a whole YES or NO.
    """
    finish = reply.finish_reason
    if finish is FinishReason.SAFETY:
        return _STOPPED
    if reply.refusal or finish is FinishReason.REFUSAL:
        return REFUSED
    cut = finish is FinishReason.LENGTH
    text = without_remarks(unwrapped(reply.text))
    asked_json = structured or rubric.takes_json
    if not text:
        nothing = _NO_JSON if asked_json else _EMPTY
        return _CUT if cut else nothing
    if _JSON.match(text) or (asked_json and text.startswith("[")):
        parsed = json_reply.read(text, rubric)
        return _CUT if cut and parsed.status is Status.ERROR else parsed
    parsed, is_bare = _in_words(text, rubric, cut=cut)
    if asked_json and parsed.reason is not Reason.REFUSED and not is_bare:
        prose = _NO_OBJECT if rubric.takes_json else _PROSE
        return _CUT if cut else prose
    return parsed


def _in_words(text: str, rubric: Rubric, *, cut: bool) -> tuple[ParsedReply, bool]:
    """Return what a text says in plain words, and whether it holds nothing but that."""
    if rubric.takes_json:
        refused = plain_reply.refuses(text[: plain_reply.HEAD].lower())
        return (REFUSED if refused else _EMPTY), False
    if rubric.form in {"score", "grade"}:
        return plain_score.read(text, rubric, cut=cut), plain_score.is_bare(text, rubric)
    return plain_reply.read(text, cut=cut), plain_reply.is_bare(text)
