"""From a reply to a parsed reply: JSON first, then plain words.

The ways of reading are `json_reply` and `plain_reply`. Nothing here raises, whatever the reply
holds, and no message quotes it.

The probability of a yes follows from the log-probabilities of the token that says the verdict.
What is likeliest at that place is compared among yes and no alone: P(yes) = p_yes / (p_yes + p_no),
each summed over the spellings among the alternatives that the provider tells. Where the place can't
be told for sure, there is no probability.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from judged.values.choices import Status

from judged_server.llm.chat import (
    REFUSED,
    ChatReply,
    FinishReason,
    ParsedReply,
    Reason,
    TokenLogprob,
    abstained,
    failed,
)
from judged_server.llm.parsing import json_reply, plain_reply
from judged_server.llm.parsing.json_reply import only_object, unwrapped
from judged_server.llm.parsing.plain_reply import verdict_in
from judged_server.llm.rubrics.rubric import Rubric

PARSER_VERSION = 6
"""Counts up with every change that lets a reply mean something else: it can change a score."""

# A word in brackets is decoration: [YES].
_JSON = re.compile(r"\{|\[(?!\s*\w)")

_STOPPED = abstained(
    Reason.REFUSED,
    "the provider's safety filter stopped the answer",
)
_EMPTY = abstained(Reason.UNPARSABLE, "the model's reply holds no answer")
_NO_JSON = failed(Reason.SCHEMA, "the model's reply holds no JSON object")
_PROSE = abstained(
    Reason.UNPARSABLE,
    "the model answered in prose where JSON was asked for; if it takes no schema, "
    'the server\'s operator should set structured = "none" for it',
)
_NO_OBJECT = abstained(
    Reason.UNPARSABLE,
    "the model answered in prose where the rubric asks for JSON; choose another "
    "model for this rubric",
)
_CUT = failed(
    Reason.REPLY_TRUNCATED,
    "the model's reply was cut off; raise max_tokens",
)
_NO_END = failed(
    Reason.REPLY_TRUNCATED,
    "the provider ended the model's reply with a word that says neither that it is whole "
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


# Inside of a JSON string each quote has a backslash, so this finds the key and nothing else.
_IN_JSON = re.compile(r'(?<!\\)"verdict"\s*:\s*"(yes|no)"')
_DECORATION = " \t\r\n*_`#>\"'“”„‘’([{"  # noqa: RUF001 - quotes are what it is about
_ANSWERS = ("yes", "no")

_MISSING = abstained(
    Reason.UNPARSABLE,
    "the model's reply came without log-probabilities of its yes or no; "
    'score by votes, or see "Scores by log-probabilities" in the documentation',
)


def weighed(parsed: ParsedReply, reply: ChatReply) -> ParsedReply:
    """Return a parsed reply with the probability of a yes as its score, in [0, 1].

    `parsed` is what `reply` says; one that is no verdict is returned as it is. It abstains as
    UNPARSABLE when the log-probabilities of the verdict are missing.
    """
    if parsed.status is not Status.OK:
        return parsed
    probability = probability_of_yes(reply, parsed.yes)
    if probability is None:
        return _MISSING
    return parsed._replace(yes=probability >= 0.5, score=probability)


def probability_of_yes(reply: ChatReply, says_yes: bool) -> float | None:
    """Return P(yes) of a reply that says yes, or no; None when it can't be told."""
    text = unwrapped(reply.text)
    found, is_json = verdict_in(text), False
    if found is None:
        verdicts = list(_IN_JSON.finditer(text))
        found, is_json = (verdicts[0] if len(verdicts) == 1 else None), True
    if found is None or (found[1].lower() == "yes") != says_yes:
        return None
    said, head = "".join(place.token for place in reply.logprobs), text[: found.end(1)]
    begin = len(said) - len(said.lstrip())
    if not said.startswith(text, begin):
        # The tokens may hold more than the text, such as a fence that the provider took off. Where
        # they say what the text says up to its verdict twice, which is meant can't be told.
        if said.count(head) != 1:
            return None
        begin = said.index(head)
    place, lead = _token_at(reply.logprobs, begin + found.start(1))
    return _renormalised(dict(place.top), lead, strict=is_json)


def _token_at(places: Sequence[TokenLogprob], start: int) -> tuple[TokenLogprob, str]:
    """Return the place whose token holds the character at `start`, and what it holds before."""
    end = 0
    for place in places:
        end += len(place.token)
        if end > start:
            return place, place.token[: len(place.token) - (end - start)]
    raise ValueError("the tokens end before that character")


def _renormalised(top: Mapping[str, float], lead: str, *, strict: bool) -> float | None:
    """Return the share of the yeses; `lead` is what comes before the verdict in the token.

    Within JSON another token must begin likewise. Its case does not matter: a provider may tell
    what the model would have liked to say before a schema held it.
    """
    logs: dict[str, list[float]] = {"yes": [], "no": []}
    for token, log in top.items():
        answer = _strictly(token, lead) if strict else _loosely(token)
        if answer is not None:
            logs[answer].append(log)
    most = max((log for found in logs.values() for log in found), default=-math.inf)
    if not math.isfinite(most):
        return None
    yes, no = (sum(math.exp(log - most) for log in logs[answer]) for answer in _ANSWERS)
    return yes / (yes + no)


def _strictly(token: str, lead: str) -> str | None:
    word = token.removeprefix(lead).lower() if token.startswith(lead) else ""
    for answer in _ANSWERS:
        if (word and answer.startswith(word)) or word.startswith(f'{answer}"') or word == answer:
            return answer
    return None


def _loosely(token: str) -> str | None:
    """Return what a token of a plain reply begins to say, in whatever case and decoration."""
    word = token.strip(_DECORATION + ".!,:)]}").lower()
    return next((answer for answer in _ANSWERS if word and answer.startswith(word)), None)
