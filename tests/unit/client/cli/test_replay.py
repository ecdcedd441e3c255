"""What stands for a judge with `--judge none`, and what is said of what it lacks."""

import sys
from types import SimpleNamespace

import pytest
from judged.cli.options.traces import Tracing
from judged.cli.output.writer import Output
from judged.cli.problems import Problem
from judged.cli.replay import open_replay, read_trace, replayed
from judged.traces import MissingScores, OtherRubric, Replay, ReplayError, ScoreReplay, Trace
from judged.traces.items import Hashes, Text, TracedAnswer
from judged.traces.judgement import Judgement
from judged.types import JudgeIdentity, VerdictError
from judged.types.choices import Status

TRACING = Tracing("t.jsonl", replays=True, hashed=False, judgements="")
MODEL = SimpleNamespace(name="small", is_default=True, unavailable="set KEY to the key")
INFO = SimpleNamespace(judges=[], rubrics=[], chat_models=[MODEL])
SERVER = SimpleNamespace(info=INFO, client=None)
SIGNATURE = "answers|rubric:r@1|model:small|v1"
JUDGE = JudgeIdentity("answers", "", 0.7, SIGNATURE, "a" * 64, "b" * 64)


def scores_only(path):
    trace = Trace(str(path))
    hashes = Hashes()
    answer = TracedAnswer("1", Text.of("q", hashes), Text.of("a", hashes))
    error = VerdictError(9, "TIMEOUT", "late", True)
    trace.put(answer, Judgement(JUDGE, Status.ERROR, error=error))
    trace.write(path)
    return trace


@pytest.fixture(autouse=True)
def typed(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["judged", "judge", "c.jsonl", "--judge", "none"])


def said(replay, error, threshold=None):
    with pytest.raises(Problem) as caught, replayed(TRACING, replay, SERVER, threshold):
        raise error
    return str(caught.value)


class TestReplayed:
    def test_a_rubric_that_the_server_lacks_is_got_from_a_folder(self):
        message = said(Replay(Trace()), OtherRubric("rubric ours@1, which is not here", "ours"))
        assert message.endswith(
            "; start the server with --rubrics-dir FOLDER, where FOLDER has the file of ours, and "
            "run this command again"
        )

    def test_what_a_judge_needs_first_is_said(self):
        error = MissingScores("1", 1, 1, "answers/r", JUDGE)
        for cached in (None, lambda items, rubrics: None):
            assert (
                "first that of item '1'; language model 'small' can't be asked: set KEY to the "
                "key; then get them with: judged judge c.jsonl"
            ) in said(ScoreReplay(Trace(), cached), error)

    def test_one_is_and_several_are(self):
        one = said(ScoreReplay(Trace()), MissingScores("1", 1, 1, "answers/r"))
        assert "1 of 1 judgement by answers/r is not in t.jsonl" in one
        two = said(ScoreReplay(Trace()), MissingScores("1", 2, 3, "answers/r"))
        assert "2 of 3 judgements by answers/r are not in t.jsonl" in two

    def test_a_judge_of_answers_is_not_asked_for_contexts(self, tmp_path):
        replay = Replay(scores_only(tmp_path / "t"))
        message = said(replay, ReplayError("nothing of contexts"))
        assert message.endswith("--judge llm --judge-model NAME --trace t.jsonl")

    def test_the_bar_of_the_other_judgements_is_kept(self):
        trace = Trace()
        error = MissingScores("1", 1, 2, "answers/r", JUDGE)
        assert " --min-score 0.7 " in said(ScoreReplay(trace), error)
        assert "--min-score" not in said(ScoreReplay(trace), error, 0.9)


class TestOpenReplay:
    def test_a_trace_of_scores_leaves_contexts_to_the_cache(self, tmp_path):
        path = tmp_path / "t.jsonl"
        scores_only(path)
        tracing = Tracing(str(path), replays=True, hashed=False, judgements="")
        replay = open_replay(tracing, Output(None), SERVER, ["model=small"], None, timeout=1)
        assert replay.name == "llm/retrieval_match"
        assert replay.cached is not None


@pytest.mark.parametrize("judge", [[], ["--judge", "llm"]])
def test_a_trace_that_is_not_there_is_written_by_the_judge_asked_for(tmp_path, judge):
    path = str(tmp_path / "t")
    with pytest.raises(Problem) as caught:
        read_trace(Tracing(path, replays=True, hashed=False, judgements=""), None, judge)
    command = " ".join(["judged judge c.jsonl", *judge, "--trace", path])
    assert str(caught.value).endswith(f"once with a judge: {command}")
