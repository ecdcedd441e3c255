"""From a reply to a parsed reply: JSON first, then plain words.

The ways of reading are `json_reply` and `plain_reply`. Nothing here raises, whatever the reply
holds, and no message quotes it.
"""

from __future__ import annotations

import re

from judged.values.choices import Status

from judged_server.llm.chat import ChatReply, FinishReason
from judged_server.llm.faults import Reason
from judged_server.llm.parsing import json_reply, plain_reply
from judged_server.llm.parsing.json_reply import only_object, unwrapped
from judged_server.llm.parsing.parsed_reply import REFUSED, ParsedReply
from judged_server.llm.rubrics.rubric import Rubric

PARSER_VERSION = 6
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
_NO_END = ParsedReply(
    Status.ERROR,
    reason=Reason.REPLY_TRUNCATED,
    message="the provider ended the model's reply with a word that says neither that it is whole "
    "nor that it was cut off, so it may have been; raise max_tokens",
)


def read(reply: ChatReply, rubric: Rubric, *, structured: bool) -> ParsedReply:
    """Return what `reply` says by `rubric`; `structured` says whether it had a schema to keep.

    A reply that is one JSON object, or looks like JSON, is read strictly as JSON, whether or not
    that was asked for. Any other reply is read as plain words, if the rubric's form can be said in
    them; where JSON was asked for, only a bare YES or NO, or a bare score, counts. A reply that was
    cut off counts when it is a whole JSON object; one that ended nobody knows how, also when it is
    nothing but an answer.
    """
    finish = reply.finish_reason
    if finish is FinishReason.SAFETY:
        return _STOPPED
    if reply.refusal or finish is FinishReason.REFUSAL:
        return REFUSED
    cut = finish is FinishReason.LENGTH
    text = unwrapped(reply.text)
    asked_json = structured or rubric.takes_json
    if not text:
        nothing = _NO_JSON if asked_json else _EMPTY
        return _CUT if cut else nothing
    found = only_object(text)
    if found or _JSON.match(text) or (asked_json and text.startswith("[")):
        parsed = json_reply.read(found or text, rubric)
        return _CUT if cut and parsed.status is Status.ERROR else parsed
    if rubric.takes_json:
        parsed = REFUSED if plain_reply.refuses(text) else _NO_OBJECT
    else:
        parsed = plain_reply.read(text, rubric, cut=cut)
        is_answer = parsed.status is Status.OK and not parsed.reasoning
        if structured and not is_answer and parsed.reason is not Reason.REFUSED:
            parsed = _PROSE
        elif finish is FinishReason.OTHER and parsed.status is Status.OK and not is_answer:
            parsed = _NO_END
    return _CUT if cut and parsed.reason is not Reason.REFUSED else parsed
