"""Systems that are asked and scored by `evaluate_answers`: a real server, a scripted provider."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judged import Client
from judged.evaluation import Question, evaluate_answers

from tests.fakes.providers.scripted_provider import ScriptedProvider

ROOT = Path(__file__).resolve().parents[3]


class TestEvaluateAnswers:
    def test_a_chat_server_is_asked_and_scored(
        self, client: Client, provider: ScriptedProvider, tmp_path: Path
    ):
        questions = [
            Question("1", "what is RAG", ["r"], ["c"]),
            Question("2", "false friends", ["r"], ["c"]),
        ]
        page = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8")
        section = page.partition("## Systems that are chat servers")[2]
        names: dict[str, Any] = {}
        exec(section.split("```python\n")[1].split("```")[0], names)  # noqa: S102 - the page
        system = names["ChatSystem"]("scripted-1", base_url=provider.base_url, api_key="none")
        for resumed in (False, True):
            found = evaluate_answers(
                questions,
                system,
                ["answer_match", "answer_relevance"],
                client=client,
                resume=tmp_path / "answers.jsonl",
            )
            assert found.failures == []
            assert [item.resumed for item in found.items] == [resumed] * 2
            first, second = found.items
            assert first.answer.text == "about [1] c\n\nQuestion: what is RAG"
            assert first.scores["answer_match"].passed
            assert second.scores["answer_relevance"].score == 0.2
            assert found.summary("answer_match").mean == 0.5
        asked = [a for a in provider.asked if "response_format" not in a.body]
        assert len(asked) == 2
