"""Systems that are asked and scored by `evaluate_answers`: a real server, a scripted provider."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from judged import AnswerItem, Client, Rubric
from judged.evaluation import AnswerEvaluation, FileError, Question, evaluate_answers
from judged.traces import ScoreReplay, Trace, TraceFile

from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.cli_process import Commands

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

    def test_its_trace_is_read_back_by_library_and_command(
        self, judged: Commands, client: Client, tmp_path: Path
    ):
        questions = [Question("1", "q", ["r"], ["c"]), Question("2", "q", ["r"], ["c"])]
        path = tmp_path / "t.jsonl"

        def evaluated(rubric: str, trace: TraceFile | None) -> AnswerEvaluation:
            def system(query: str, contexts: Sequence[str] = ()) -> str:
                return "one. two"

            return evaluate_answers(questions, system, [rubric], client=client, trace=trace)

        found = {
            rubric: evaluated(rubric, TraceFile(path))
            for rubric in ("faithfulness", "answer_match")
        }
        items = [AnswerItem(q.item_id, "q", "one. two", ["r"], ["c"]) for q in questions]
        known = client.server_info().rubrics
        for rubric, evaluation in found.items():
            replayed = ScoreReplay(Trace.read(path)).scores(items, [Rubric(rubric)], known)
            scored = [item.scores[rubric] for item in evaluation.items]
            assert [s.score for s in replayed] == [s.score for s in scored]
            assert [s.passed for s in replayed] == [s.passed for s in scored]
        lines = [
            {"item_id": i.item_id, "query": "q", "answer": i.answer}
            | {"references": ["r"], "contexts": ["c"]}
            for i in items
        ]
        judged.write("answers.jsonl", lines)
        judged.fine(
            *("score", "answers.jsonl", "--rubric", "faithfulness", "--json", "out.json"),
            *("--judge", "none", "--trace", "t.jsonl"),
        )
        summaries = judged.read("out.json")["rubrics"]
        (expected,) = found["faithfulness"].rubrics
        assert summaries["faithfulness"]["mean"] == expected.mean

    def test_a_trace_that_is_none_is_refused_before_anybody_is_asked(
        self, client: Client, tmp_path: Path
    ):
        (tmp_path / "t.jsonl").write_text("{}\n")
        with pytest.raises(FileError, match="no header of a trace"):
            TraceFile(tmp_path / "t.jsonl")
