"""Where fuzzing begins: bytes that each target reads to its end, from the fixtures of the tests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from judged.v1 import groups_pb2, scores_pb2
from judged.v1 import judge_service_pb2 as pb
from judged_server.http_api.port import to_json
from judged_server.llm.chat import ChatReply, FinishReason, TokenUsage
from judged_server.llm.config import Structured
from judged_server.llm.reply_cache import to_payload

from tests.fakes.providers.prompt_attacks import ATTACKS, CORPUS
from tests.fakes.providers.scripted_dialects import SHAPES, Heard
from tests.fuzz.targets import ASKED, FINISHES

ROOT = Path(__file__).parents[2]
_MOST = 300
"""Seeds of one target; more would only be read again and again."""
_STEPS = {step.id: place for place, step in enumerate(ASKED)}


def seeds(target: str) -> list[bytes]:
    """Return the seeds of a target, the same in every run."""
    return list(_SEEDS[target]())[:_MOST]


def _texts(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        yield json.loads(line)


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _replies() -> Iterator[bytes]:
    data = ROOT / "tests" / "data"
    recorded = [*_texts(data / "llm_replies.jsonl"), *_texts(data / "llm_replies_of_forms.jsonl")]
    kinds: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for case in recorded:
        kind = (case.get("rubric"), case.get("form"), case["status"], case.get("reason"))
        kinds.setdefault(kind, []).append(case)
    # One of each kind in turns, so that all kinds are among the first.
    for case in filter(None, chain.from_iterable(zip_longest(*kinds.values()))):
        finish = FINISHES.index(FinishReason[case.get("finish_reason", "STOP")])
        structured = case["structured"] if "rubric" in case else case["form"] != "plain"
        step = _STEPS[case.get("rubric", "retrieval_match")]
        yield bytes([step, finish << 1 | structured]) + _bytes_of(case["reply"])


def _bodies() -> Iterator[bytes]:
    said = '{"reasoning": "it is so", "verdict": "yes", "score": 0.5}'
    for number, (dialect, shape) in enumerate(SHAPES.items()):
        messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
        body = {"model": "m", "messages": messages}
        heard = Heard(dialect, Structured.NONE, "m", "s", "u", None, 9, 0.0, 1, body)
        for step in range(len(ASKED)):
            yield bytes([number, 0, step]) + json.dumps(shape.say(heard, said)).encode()
        error = {"error": {"message": "no", "type": "server_error", "code": "content_filter"}}
        for status in range(8):
            yield bytes([number, status, 0]) + json.dumps(error).encode()


def _payloads() -> Iterator[bytes]:
    for case in _texts(ROOT / "tests" / "data" / "llm_replies.jsonl"):
        finish = FinishReason[case["finish_reason"]]
        kept = ChatReply(case["reply"], finish, TokenUsage(3, 4), "m", None, "fp")
        payload = to_payload(kept)
        if payload is not None:
            yield payload


def _rubrics() -> Iterator[bytes]:
    for file in (files("judged_server.llm.rubrics") / "builtin").iterdir():
        yield file.read_bytes()
    yield from _blocks(ROOT / "docs" / "rubrics.md")


def _configurations() -> Iterator[bytes]:
    yield from _blocks(ROOT / "docs" / "providers.md")


def _blocks(page: Path) -> Iterator[bytes]:
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL):
        yield block.encode()


def _prompts() -> Iterator[bytes]:
    for text in (*(attack.text for attack in CORPUS[::2]), *ATTACKS[::5]):
        yield b"\0".join([b"query", _bytes_of(text.replace("\0", "")), b"text"])


def _requests() -> Iterator[bytes]:
    for kind in ("llm", "span", "panel", "semantic"):
        group = groups_pb2.QueryGroup(
            query_id="1", query="q", expected=["e", "f"], retrieved=["r"], document_ids=["d"]
        )
        if kind == "span":
            group = groups_pb2.QueryGroup(query="q", spans=groups_pb2.GroupSpans())
        if kind == "semantic":
            vectors = groups_pb2.GroupEmbeddings(dimensions=1, expected=b"\0" * 4, retrieved=b"")
            group = groups_pb2.QueryGroup(embeddings=vectors)
        judge = groups_pb2.JudgeSpec(kind=kind, min_score=0.5)
        judge.parameters["samples"].int_value = 3
        if kind == "panel":
            judge.members.add(judge=groups_pb2.JudgeSpec(kind="exact"), weight=2.0)
        asked = pb.BatchJudgeRequest(groups=[group], judge=judge)
        asked.asking.max_cost = 0.5
        yield b"\1" + asked.SerializeToString()
    item = scores_pb2.AnswerItem(item_id="1", query="q", answer="a", references=["r"])
    rubric = scores_pb2.RubricSpec(rubric="helpfulness", min_score=0.5, weights={"a": 1.0})
    yield b"\0" + pb.ScoreAnswersRequest(items=[item, item], rubrics=[rubric]).SerializeToString()


def _json_requests() -> Iterator[bytes]:
    for raw in _requests():
        kind = pb.BatchJudgeRequest if raw[0] else pb.ScoreAnswersRequest
        yield bytes([raw[0] ^ 1]) + to_json(kind.FromString(raw[1:]))


def _headers() -> Iterator[bytes]:
    for value in ("7", "0", "-5", "nan", "1e400", "soon", "Fri, 01 Jan 2027 00:00:00 GMT"):
        yield value.encode()


_SEEDS = {
    "reply": _replies,
    "provider": _bodies,
    "payload": _payloads,
    "rubric": _rubrics,
    "configuration": _configurations,
    "prompt": _prompts,
    "request": _requests,
    "json_request": _json_requests,
    "retry_after": _headers,
}
