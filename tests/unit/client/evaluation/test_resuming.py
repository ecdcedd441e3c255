"""The file of answers, from which an evaluation goes on: what is read, kept and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.evaluation import Answer, FileError, Question
from judged.evaluation.answers import AnswerLog, _digest
from judged.evaluation.asking import Outcome
from judged.evaluation.recorded import EvaluationLog
from judged.values import (
    Flag,
    JudgeIdentity,
    QueryGroup,
    Source,
    Status,
    Usage,
    Verdict,
    Verdicts,
)

QUESTIONS = [Question(str(i), f"question {i}", ["r"], [f"source {i}"]) for i in range(6)]


HEAD = b'{"format": "judged.resume", "version": 3, "system": "s", "run": "r"}\n'


def line(item: Question, **other: object) -> bytes:
    fields = {
        "item_id": item.item_id,
        "question_sha256": _digest(item),
        "text": "kept",
        "contexts": None,
        "metadata": {},
        "seconds": 1.0,
    }
    return json.dumps(fields | other).encode()


class TestLog:
    @given(cut=st.integers(0, 400))
    def test_a_last_line_cut_anywhere_is_asked_again(self, tmp_path_factory, cut: int):
        path = tmp_path_factory.mktemp("log") / "l"
        whole = line(QUESTIONS[0]) + b"\n"
        last = line(QUESTIONS[1], answer="ü\u20ac")
        path.write_bytes(HEAD + whole + last[: min(cut, len(last))])
        log = AnswerLog(path, QUESTIONS, "s")
        assert log.known["0"] == Outcome(QUESTIONS[0], Answer("kept"), None, 1.0)
        assert ("1" in log.known) == (cut >= len(last))
        log.append(Outcome(QUESTIONS[2], Answer("new"), None, 0.5))
        again = AnswerLog(path, QUESTIONS, "s")
        assert set(again.known) == {"0", "2"} | ({"1"} if cut >= len(last) else set())

    @given(
        text=st.text(st.characters(exclude_categories=["Cs"])),
        used=st.none() | st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    )
    def test_any_answer_comes_back_as_it_was(self, tmp_path_factory, text: str, used):
        path = tmp_path_factory.mktemp("log") / "l"
        log = AnswerLog(path, QUESTIONS, "s")
        log.append(Outcome(QUESTIONS[0], Answer(text, used), None, 0.0))
        again = AnswerLog(path, QUESTIONS, "s")
        assert again.known["0"].result == Answer(text, used)

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            (HEAD + line(QUESTIONS[0], question_sha256="0"), "l:2: is the answer to another"),
            (HEAD.replace(b'"s"', b'"other"'), "l:1: is of an evaluation with system 'other', and"),
            (HEAD + line(QUESTIONS[0], text=None), "l:2: has no 'text'"),
        ],
    )
    def test_a_file_that_does_not_belong_is_refused(self, tmp_path: Path, raw: bytes, message: str):
        (tmp_path / "l").write_bytes(raw + b"\n")
        with pytest.raises(FileError) as caught:
            AnswerLog(tmp_path / "l", QUESTIONS, "s")
        assert message in str(caught.value)
        assert (tmp_path / "l").read_bytes() == raw + b"\n"


@pytest.mark.parametrize("content", [b"notes", b"[1]", b'"x"', b"12", b"notes\n[1]"])
def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path, content: bytes):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FileError):
        AnswerLog(path, QUESTIONS, "s")
    with pytest.raises(FileError):
        EvaluationLog(path, {"k": 1})
    assert path.read_bytes() == content


def test_what_calls_took_is_summed_where_one_took_nothing(tmp_path: Path):
    path = tmp_path / "l"
    log = EvaluationLog(path, {"k": 1})
    judge = JudgeIdentity("llm", "", 0.5, "llm|v1", "key", "print")
    group = QueryGroup("q", ["e"], ["r"])
    said = Verdict(Status.OK, True, 1.0, Source.COMPUTED, Flag.NONE, None)
    for usage in (Usage(calls=1, cost=0.25), None, Usage(calls=2, cost=0.5)):
        log.keep_verdicts(Verdicts.of([said], [0, 1], judge, usage, [group]))
    for kept in (log, EvaluationLog(path, {"k": 1})):
        assert (kept.usage.calls, kept.usage.cost) == (3, 0.75)
        assert kept.verdicts([group], []).score == [1.0]
