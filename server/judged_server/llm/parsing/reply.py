"""From a reply to an opinion: JSON first, then plain words.

Owns the order in which a reply is read, and what the finish reason says about it. The two ways of
reading are `json_reply` and `plain_reply`. Nothing here raises, whatever the reply holds, and no
message quotes it.
"""

from __future__ import annotations

import re

from judged_server.domain import Status
from judged_server.llm.chat import ChatReply, FinishReason
from judged_server.llm.faults import Reason
from judged_server.llm.parsing import json_reply, plain_reply
from judged_server.llm.parsing.wrapping import unwrapped
from judged_server.llm.rubrics.rubric import Rubric
from judged_server.llm.voting import Opinion

PARSER_VERSION = 1
"""Counts up with every change that lets a reply mean something else: it can change a score."""

# A word in brackets is decoration: [YES].
_JSON = re.compile(r"\{|\[(?!\s*\w)")

_REFUSED = Opinion(Status.ABSTAINED, reason=Reason.REFUSED, message="the model refused to answer")
_EMPTY = Opinion(
    Status.ABSTAINED, reason=Reason.UNPARSABLE, message="the model's reply holds no answer"
)
_NO_JSON = Opinion(
    Status.ERROR, reason=Reason.SCHEMA, message="the model's reply holds no JSON object"
)
_PROSE = Opinion(
    Status.ABSTAINED,
    reason=Reason.UNPARSABLE,
    message="the model answered in prose where JSON was asked for; if it takes no schema, "
    "the server's operator should set structured = false for it",
)
_CUT = Opinion(
    Status.ERROR,
    reason=Reason.REPLY_TRUNCATED,
    message="the model's reply was cut off; raise max_tokens",
)


def read(reply: ChatReply, rubric: Rubric, *, structured: bool) -> Opinion:
    """Return what `reply` says about the context; `structured` says what it was asked to keep.

    A reply that looks like JSON is read strictly as JSON, whether or not that was asked for. Any
    other reply is read as plain words; where JSON was asked for, only a bare YES or NO counts. A
    reply that was cut off counts when it is a whole JSON object, or begins with a whole YES or NO.
    """
    if reply.refusal or reply.finish_reason in {FinishReason.REFUSAL, FinishReason.SAFETY}:
        return _REFUSED
    cut = reply.finish_reason is FinishReason.LENGTH
    text = unwrapped(reply.text)
    if not text:
        if cut:
            return _CUT
        return _NO_JSON if structured else _EMPTY
    if _JSON.match(text) or (structured and text.startswith("[")):
        opinion = json_reply.read(text, scored=rubric.scored)
        return _CUT if cut and opinion.status is Status.ERROR else opinion
    opinion = plain_reply.read(text, cut=cut)
    if structured and opinion.reason is not Reason.REFUSED and not plain_reply.is_bare(text):
        return _CUT if cut else _PROSE
    return opinion
