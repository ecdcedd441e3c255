"""Which line answers, what it says, and what a file of replies may hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged_server.llm.chat import ChatModelCard, ChatRequest, ProviderFault, Reason, ReplySchema
from judged_server.llm.providers.fake import FakeModel, read_script, texts_of
from judged_server.llm.question import data_block, new_nonce
from judged_server.settings import SettingsError

from tests.fakes.still_clock import StillClock

CARD = ChatModelCard("m", "p", "fake", "fake-1", True, None)
SCHEMA = ReplySchema("retrieval_match", {"type": "object"})


def script(folder: Path, *lines: Any) -> Path:
    path = folder / "replies.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines))
    return path


def prompt(**texts: Any) -> str:
    nonce = new_nonce()
    return "Judge.\n" + "\n".join(data_block(name, text, nonce) for name, text in texts.items())


async def answer(
    path: Path, asked: ChatRequest | None = None, timeout_s: float = 9.0, **texts: Any
):
    clock = StillClock()
    model = FakeModel(CARD, read_script(path), clock)
    asked = asked or ChatRequest("s", prompt(**texts), SCHEMA, 9, 0.0)
    return await model.complete(asked, timeout_s), clock


class TestTheLineThatAnswers:
    async def test_is_the_first_whose_texts_all_occur(self, tmp_path):
        path = script(
            tmp_path,
            {"contains": ["Paris", "Rome"], "reply": "both"},
            {"contains": "Paris", "reply": {"verdict": "yes"}},
            {"reply": "else"},
        )
        assert (await answer(path, a="Paris"))[0].reply.text == '{"verdict":"yes"}'
        assert (await answer(path, a="Paris", b="and Rome"))[0].reply.text == "both"
        assert (await answer(path, a="Oslo"))[0].reply.text == "else"

    async def test_may_name_fields(self, tmp_path):
        path = script(
            tmp_path,
            {"contains": {"query": "Paris", "answer": ["a", "b"]}, "reply": "1"},
            {"reply": "2"},
        )
        assert (await answer(path, query="in Paris", answer="a b"))[0].reply.text == "1"
        assert (await answer(path, query="in Paris", answer="a"))[0].reply.text == "2"
        assert (await answer(path, query="a b", answer="Paris a b"))[0].reply.text == "2"

    async def test_may_name_the_rubric(self, tmp_path):
        path = script(tmp_path, {"rubric": "other", "reply": "1"}, {"reply": "2"})
        assert (await answer(path, a="x"))[0].reply.text == "2"
        path = script(tmp_path, {"rubric": "retrieval_match", "reply": "1"}, {"reply": "2"})
        assert (await answer(path, a="x"))[0].reply.text == "1"

    async def test_must_be_there(self, tmp_path):
        path = script(tmp_path, {"contains": "x", "reply": "1"})
        with pytest.raises(ProviderFault, match=r"no line of replies\.jsonl answers") as caught:
            await answer(path, a="canary")
        assert (caught.value.reason, caught.value.retryable) == (Reason.PROVIDER_ERROR, False)
        assert "canary" not in str(caught.value)

    @given(text=st.text(), other=st.text())
    def test_any_text_is_found_again(self, text, other):
        assert texts_of(prompt(first=text, second=other)) == [("first", text), ("second", other)]


class TestFiles:
    @pytest.mark.parametrize(
        ("line", "says"),
        [
            ("{", "line 2 is not a JSON object"),
            ("[]", "line 2 is not a JSON object"),
            ('{"answer": "canary"}', "line 2: answer is not known here; leave it out"),
            ("{}", "needs either reply or error"),
            ('{"reply": "x", "error": "TIMEOUT"}', "needs either reply or error"),
            ('{"reply": 3}', "reply must be a text, in quotes"),
            ('{"error": "canary"}', "error must be 'TIMEOUT', 'RATE_LIMITED'"),
            ('{"error": 3}', "error must be 'TIMEOUT', "),
            ('{"error": null}', "needs either reply or error"),
            ('{"reply": "x", "finish_reason": "end"}', "finish_reason must be 'stop', 'length'"),
            ('{"reply": "x", "delay_ms": -1}', "delay_ms must be greater than or equal to 0"),
            ('{"reply": "x", "delay_ms": true}', "delay_ms must be"),
            ('{"reply": "x", "rubric": 1}', "rubric must be a text"),
            ('{"reply": "x", "contains": 1}', "contains must be a text, in quotes"),
            ('{"reply": "x", "contains": [["canary"]]}', "contains must be"),
            ('{"reply": "x", "contains": {"query": {}}}', "contains must be"),
        ],
    )
    def test_are_refused_by_line(self, tmp_path, line, says):
        path = tmp_path / "r.jsonl"
        path.write_text('{"reply": "x"}\n' + line)
        with pytest.raises(SettingsError, match=says) as caught:
            read_script(path)
        assert str(path) in str(caught.value)
        assert "canary" not in str(caught.value)

    @given(content=st.binary(max_size=200))
    def test_any_bytes_are_read_or_refused(self, tmp_path_factory, content):
        path = tmp_path_factory.mktemp("any") / "r.jsonl"
        path.write_bytes(content)
        try:
            read_script(path)
        except SettingsError:
            return
        raise AssertionError("random bytes hold no replies")
