"""What must hold, whatever somebody else wrote: one function for each reader of bytes.

The promises, and how bytes become the arguments of a reader. Each function returns nothing and
raises where a promise is broken: an exception that is not the reader's own refusal, a value out of
its bounds, a verdict that the reply does not say in so many words. Nothing here needs atheris.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime

from google.protobuf.message import DecodeError
from judged.v1 import judge_service_pb2 as pb
from judged.values.choices import Status
from judged.values.judges import Asking
from judged.values.scores import Rubric as RubricSpec
from judged_server.api.convert.judging import read_answers, read_groups
from judged_server.api.requests import read as read_value
from judged_server.domain import JudgeSpec
from judged_server.errors import JudgedError
from judged_server.http_api.port import read_message, to_json
from judged_server.llm.chat import ChatReply, FinishReason, ParsedReply, ProviderFault, TokenUsage
from judged_server.llm.config import parse_configuration
from judged_server.llm.parsing import read
from judged_server.llm.providers.dialects import DIALECTS
from judged_server.llm.question import Question, request_for
from judged_server.llm.reply_cache import from_payload, to_payload
from judged_server.llm.rubrics.rubric import MAX_CLAIMS, Rubric, load_builtin, parse
from judged_server.llm.transport.endpoint import retry_after_s
from judged_server.settings import SettingsError

from tests.fakes.limits import limits
from tests.fakes.providers.prompt_attacks import blocks

Target = Callable[[bytes], None]

NONCE = "ghijklmopqsvwxyzghijklmopqsvwxyz"
ASKED = tuple(step for rubric in load_builtin().values() for step in rubric.steps)
FINISHES = tuple(FinishReason)
LIMITS = limits(
    max_contexts=1000,
    max_text_bytes=1 << 16,
    max_groups=100,
    max_embedding_dimensions=64,
    max_message_bytes=1 << 20,
)
NOW = datetime(2026, 1, 1, tzinfo=UTC)

_SCORE = re.compile(r"[01]?\.[0-9]+|[01]")
_AT_END = re.compile(r"(?<![^\W_])(yes|no)[\W_]*\Z", re.IGNORECASE)
_FENCE = re.compile(r"\A```\w*\s*")


class Broken(AssertionError):
    """A promise does not hold; the text says which."""


def _hold(fact: bool, promise: str) -> None:
    if not fact:
        raise Broken(promise)


def text_of(raw: bytes) -> str:
    """Return bytes as a text; what is not UTF-8 becomes lone surrogates, as a bad reply has."""
    return raw.decode("utf-8", "surrogateescape")


def reply(raw: bytes) -> None:
    """Any text of a model is read, and is a verdict only if the reply says so."""
    if len(raw) < 2:
        return
    step = ASKED[raw[0] % len(ASKED)]
    finish = FINISHES[(raw[1] >> 1) % len(FINISHES)]
    text = text_of(raw[2:])
    check_reply(ChatReply(text, finish, TokenUsage(), "m"), step, structured=bool(raw[1] & 1))


def check_reply(said: ChatReply, step: Rubric, *, structured: bool) -> ParsedReply:
    """Read a reply, and hold what was read to be one that its rubric can have."""
    found = read(said, step, structured=structured)
    if found.status is not Status.OK:
        _hold(found.status in {Status.ERROR, Status.ABSTAINED}, "a parsed reply, or none")
        _hold(found.reason is not None and bool(found.message), "a reason why there is none")
        _hold(not (_content(found) or found.reasoning), "nothing beside a reason")
        return found
    _hold(found.reason is None, "a verdict has no reason to be missing")
    _hold(said.finish_reason not in {FinishReason.REFUSAL, FinishReason.SAFETY}, "no refusal")
    found.reasoning.encode()
    _hold(len(found.reasoning) <= 2000, "reasoning within its bound")
    _hold(0 <= found.score <= 1, "a score from 0 to 1")
    _hold(math.copysign(1, found.score) > 0, "no negative zero")
    _hold(len(found.claims) <= MAX_CLAIMS, "claims within their bound")
    _hold(all(c.strip() and len(c) <= 2000 for c in found.claims), "claims say a thing")
    "".join(found.claims).encode()
    _hold(all(0 <= share <= 1 for share in found.dimensions.values()), "shares from 0 to 1")
    if step.form in {"dimensions", "verification"}:
        _hold(bool(_content(found)), "what was asked for")
    if step.takes_json or "{" in said.text:
        _check_json(said.text, step, found)
    else:
        _hold(_says(said.text, step, found), "words that say a verdict")
    return found


def _content(found: ParsedReply) -> object:
    return found.dimensions or found.claims or found.checked


def _says(text: str, step: Rubric, found: ParsedReply) -> bool:
    """Say whether words say what was read: a verdict stands at the end of a line."""
    if step.form == "score":
        return _SCORE.search(text) is not None
    if step.form == "grade":
        return any(grade.lower() in text.lower() for grade in step.grades)
    words = [_AT_END.search(line) for line in text.splitlines()]
    return ("yes" if found.yes else "no") in {word[1].lower() for word in words if word}


def _check_json(text: str, step: Rubric, found: ParsedReply) -> None:
    """Hold what was read against Python's own reader, on the object that stands in the text."""
    inside = text.strip("\ufeff \t\r\n\v\f\x85\xa0\u2028\u2029")
    said = _object_in(_tidied(inside), step)
    begins = _FENCE.sub("", inside).startswith("{")
    in_words = not _content(found) and not begins and _says(text, step, found)
    if said is None or in_words:
        _hold(in_words, "an object with all keys")
        return
    verdict = str(said.get("verdict")).strip().rstrip(".").lower()
    if step.form == "verdict":
        _hold(found.yes is (verdict == "yes"), "the verdict that stands there")
    if step.form == "score":
        _hold(abs(found.score - float(str(said["score"]))) < 1e-12, "the score that stands there")


def _tidied(text: str) -> str:
    """Return a text whose objects, from the first brace on, have no comma before a bracket."""
    start = max(text.find("{"), 0)
    kept, in_string, escaped = [text[:start]], False, False
    for place in range(start, len(text)):
        letter = text[place]
        if in_string:
            in_string, escaped = escaped or letter != '"', not escaped and letter == "\\"
        elif letter == '"':
            in_string = True
        elif letter == "," and text[place + 1 :].lstrip()[:1] in {"}", "]"}:
            continue
        kept.append(letter)
    return "".join(kept)


def _object_in(text: str, step: Rubric) -> dict[str, object] | None:
    """Return the first object with all keys that stands in a text."""
    decoder = json.JSONDecoder(object_pairs_hook=_no_duplicate_keys, parse_constant=_no_constant)
    for start in (place for place, letter in enumerate(text) if letter == "{"):
        try:
            said, _ = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict) and set(said) == set(step.properties):
            return said
    return None


def _no_duplicate_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return dict(pairs)


def _no_constant(name: str) -> float:
    raise ValueError(name)


def provider(raw: bytes) -> None:
    """Any body of any provider is a reply or a fault, and any reply is read."""
    if len(raw) < 3:
        return
    names = tuple(DIALECTS)
    status = (200, 200, 200, 400, 401, 429, 500, 529)[raw[1] % 8]
    try:
        said = DIALECTS[names[raw[0] % len(names)]].read_reply(status, raw[3:])
    except ProviderFault as fault:
        _hold(bool(fault.message), "a fault says what is wrong")
        return
    _hold(status == 200 or said.finish_reason is FinishReason.SAFETY, "no reply from an error")
    _hold(min(said.usage.input_tokens, said.usage.output_tokens) >= 0, "tokens from 0 on")
    step = ASKED[raw[2] % len(ASKED)]
    found = check_reply(said, step, structured=True)
    if said.refusal:
        _hold(found.status is not Status.OK, "a refusal is no verdict")
    payload = to_payload(said)
    if payload is not None and not said.refusal:
        # Which tokens are an estimate is told by the call that paid.
        kept = said._replace(left_out=(), usage=said.usage._replace(estimated=False))
        _hold(from_payload(payload) == kept, "a kept reply is the reply")


def payload(raw: bytes) -> None:
    """Any payload of a stored row is a reply, which is kept as it is, or none."""
    said = from_payload(raw)
    if said is None:
        return
    again = to_payload(said)
    if again is not None:
        kept = from_payload(again)
        # How its tokens were counted, and what was odd beside it, was said when it came.
        same = said._replace(usage=said.usage._replace(estimated=False), left_out=())
        _hold(kept in (same, None), "kept twice it is the same")
    check_reply(said, ASKED[len(raw) % len(ASKED)], structured=True)


def rubric(raw: bytes) -> None:
    """Any file is a rubric that can be asked, or is refused with its name."""
    try:
        found = parse(raw, "a file")
    except SettingsError as refusal:
        _hold(str(refusal).startswith("a file"), "a refusal names the file")
        return
    for step in found.steps:
        fields = {
            name: ["one", "two"] if name in {"references", "contexts"} else "one"
            for name in step.fields
        }
        asked = request_for(Question(step, fields, 0, 0.0, 9), NONCE, structured=True)
        _hold(blocks(asked.user)[0] == fields, "texts come back from the prompt")
        _hold("{{answer}}" not in asked.system, "the way to answer is filled in")
    _hold(0 <= found.min_score <= 1, "a threshold from 0 to 1")


def configuration(raw: bytes) -> None:
    """Any configuration is read, or refused with the name of its file and without its values."""
    try:
        content = tomllib.loads(raw.decode())
    except (ValueError, RecursionError):
        return
    try:
        parse_configuration(content, "a file")
    except SettingsError as refusal:
        _hold(bool(str(refusal)), "a refusal says what is wrong")


def prompt(raw: bytes) -> None:
    """No text closes its block, nor alters another text or the question."""
    texts = text_of(raw).split("\0")[:3]
    texts += [""] * (3 - len(texts))
    step = load_builtin()["retrieval_match"]
    asked = _asked(step, texts)
    shown, outside = blocks(asked)
    wanted = [re.sub("[\ud800-\udfff]", "\ufffd", text) for text in texts]
    _hold(list(shown.values()) == wanted, "texts come back as they were")
    _hold(outside == blocks(_asked(step, ["", "", ""]))[1], "the question is the same")
    _hold(asked.count(NONCE) == 7, "nothing forges the marker")


def _asked(step: Rubric, texts: list[str]) -> str:
    fields = dict(zip(step.fields, texts, strict=True))
    return request_for(Question(step, fields, 0, 0.0, 9), NONCE, structured=True).user


def request(raw: bytes) -> None:
    """Any request is read, or refused with the path of a field."""
    if not raw:
        return
    try:
        if raw[0] & 1:
            judged = pb.BatchJudgeRequest.FromString(raw[1:])
            read_value(JudgeSpec, judged.judge, "judge")
            read_value(Asking, judged.asking)
            groups = read_groups(judged.groups, LIMITS)
            _hold(sum(group.n_contexts for group in groups) <= LIMITS.max_contexts, "limits")
        else:
            scored = pb.ScoreAnswersRequest.FromString(raw[1:])
            rubrics = [read_value(RubricSpec, each, "rubrics") for each in scored.rubrics]
            read_value(Asking, scored.asking)
            items = read_answers(scored.items, len(rubrics), LIMITS)
            _hold(len({item.item_id for item in items}) == len(items), "ids are different")
    except DecodeError:
        return
    except JudgedError as refusal:
        _hold(bool(str(refusal)), "a refusal says what is wrong")


def json_request(raw: bytes) -> None:
    """Any body is a message that is read again as it is written, or refused."""
    if not raw:
        return
    asked = pb.ScoreAnswersRequest if raw[0] & 1 else pb.BatchJudgeRequest
    try:
        found = read_message(raw[1:], asked.DESCRIPTOR, LIMITS.max_message_bytes)
    except JudgedError as refusal:
        _hold(bool(str(refusal)), "a refusal says what is wrong")
        return
    again = read_message(to_json(found), asked.DESCRIPTOR, LIMITS.max_message_bytes)
    same = found.SerializeToString(deterministic=True) == again.SerializeToString(
        deterministic=True
    )
    _hold(same, "what is written is read again")


def retry_after(raw: bytes) -> None:
    """Any Retry-After is a number of seconds from 0 on, or nothing."""
    seconds = retry_after_s(raw.decode("latin-1"), NOW)
    _hold(seconds is None or (math.isfinite(seconds) and seconds >= 0), "seconds from 0 on")


TARGETS: dict[str, Target] = {
    target.__name__: target
    for target in (
        reply, provider, payload, rubric, configuration, prompt, request, json_request,
        retry_after,
    )
}  # fmt: skip
