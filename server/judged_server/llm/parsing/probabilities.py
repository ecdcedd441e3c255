"""The probability of a yes, from the log-probabilities of the token that says the verdict.

What is likeliest at that place is compared among yes and no alone: P(yes) = p_yes / (p_yes + p_no),
each summed over the spellings among the alternatives that the provider tells. Where the place can't
be told for sure, there is no probability.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from judged.values.choices import Status

from judged_server.llm.chat import ChatReply, TokenLogprob
from judged_server.llm.faults import Reason
from judged_server.llm.parsing.json_reply import unwrapped
from judged_server.llm.parsing.parsed_reply import ParsedReply
from judged_server.llm.parsing.plain_reply import verdict_in

# Inside of a JSON string each quote has a backslash, so this finds the key and nothing else.
_IN_JSON = re.compile(r'(?<!\\)"verdict"\s*:\s*"(yes|no)"')
_DECORATION = " \t\r\n*_`#>\"'“”„‘’([{"  # noqa: RUF001 - quotes are what it is about
_ANSWERS = ("yes", "no")

_MISSING = ParsedReply(
    Status.ABSTAINED,
    reason=Reason.UNPARSABLE,
    message="the model's reply came without log-probabilities of its yes or no; "
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
