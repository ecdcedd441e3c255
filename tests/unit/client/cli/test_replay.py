"""What stands for a judge with `--judge none`, and what is said of what it lacks."""

from types import SimpleNamespace

import pytest
from judged import QueryGroup, Verdicts
from judged.cli.judging import NamedTrace, TextsKept
from judged.cli.output import Output
from judged.cli.problems import Problem
from judged.cli.replay import kept_trace, open_replay, replayed
from judged.traces import MissingScores, OtherRubric, Replay, ReplayError, ScoreReplay, Trace
from judged.traces.items import Hashes, Text, TracedAnswer
from judged.traces.judgement import Judgement
from judged.values import JudgeIdentity, VerdictError
from judged.values.choices import Status

TRACING = NamedTrace(trace="t.jsonl", no_judge=True)
INFO = SimpleNamespace(judges=[], rubrics=[], chat_models=[])
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


def said(replay, error):
    with pytest.raises(Problem) as caught, replayed(TRACING, Output(None), replay):
        raise error
    return str(caught.value)


class TestReplayed:
    def test_a_rubric_that_the_server_lacks_is_got_from_a_folder(self):
        message = said(Replay(Trace()), OtherRubric("rubric ours@1, which is not here", "ours"))
        assert message.endswith(
            "; start the server with --rubrics-dir FOLDER, where FOLDER has the file of ours, and "
            "run this command again"
        )

    def test_the_judge_of_the_others_is_named(self):
        error = MissingScores("1", 1, 1, "answers/r", JUDGE)
        for cached in (None, lambda items, rubrics: None):
            assert said(ScoreReplay(Trace(), cached), error).endswith(
                "first that of item '1'; to get it, run this command once with a judge in place "
                f"of --judge none: {SIGNATURE}"
            )

    def test_one_is_and_several_are(self):
        one = said(ScoreReplay(Trace()), MissingScores("1", 1, 1, "answers/r"))
        assert "1 of 1 judgement by answers/r is not in t.jsonl" in one
        two = said(ScoreReplay(Trace()), MissingScores("1", 2, 3, "answers/r"))
        assert "2 of 3 judgements by answers/r are not in t.jsonl" in two

    def test_what_does_not_fit_is_judged_anew(self):
        message = said(Replay(Trace()), ReplayError("nothing of contexts"))
        assert message == (
            "--judge none: nothing of contexts; to judge anew, run this command once with a judge "
            "in place of --judge none"
        )


class TestOpenReplay:
    def test_a_trace_of_scores_leaves_contexts_to_the_cache(self, tmp_path):
        path = tmp_path / "t.jsonl"
        scores_only(path)
        tracing = NamedTrace(trace=str(path), no_judge=True)
        replay = open_replay(tracing, Output(None), SERVER, ["model=small"], None, timeout=1)
        assert replay.name == "llm/retrieval_match"
        assert replay.cached is not None


def test_a_trace_that_is_not_there_is_written_by_a_judge(tmp_path):
    path = str(tmp_path / "t")
    with pytest.raises(Problem, match="there is no such file; to write it, run this command once"):
        open_replay(
            NamedTrace(trace=path, no_judge=True), Output(None), SERVER, [], None, timeout=1
        )


def test_a_kept_trace_goes_on_from_its_file_and_passes_on_its_warnings(tmp_path):
    path = tmp_path / "t.jsonl"
    Trace().write(path)
    path.write_text(path.read_text() + '{"query"')
    out = Output(None)
    kept = kept_trace(NamedTrace(trace=str(path), trace_texts=TextsKept.FULL), out)
    assert out.warnings == [f"{path}:2: the last line was cut off; what it held is left out"]
    identity = JudgeIdentity("token_overlap", "", 0.5, "token_overlap|v1", "0" * 64, "1" * 64)
    kept.keep_verdicts(
        [QueryGroup("a", ["b"], ["c"])],
        Verdicts([True], [1.0], [1], [1], [0], [0, 1], {}, identity),
    )
    written = Trace.read(path)
    assert (len(written), written.warnings) == (1, [])
