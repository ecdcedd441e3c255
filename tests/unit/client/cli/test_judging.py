"""The options about judges and traces, and what stands for a judge with --judge none."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from judged import Asking, CacheMode, InvalidArgument, Judge, QueryGroup, Verdicts
from judged._batching.chunks import most_contexts
from judged.cli.judging import (
    AskingOptions,
    ModelOptions,
    NamedTrace,
    TextsKept,
    kept_trace,
    open_replay,
    places_of_members,
    read_judge,
    refuse_missing,
    replayed,
)
from judged.cli.output import Output
from judged.cli.problems import Problem, explain
from judged.traces import MissingScores, OtherRubric, Replay, ReplayError, ScoreReplay, Trace
from judged.traces.items import Hashes, Text, TracedAnswer
from judged.traces.judgement import Judgement
from judged.values import JudgeIdentity, JudgeInfo, Limits, ParameterInfo, ServerInfo, VerdictError
from judged.values.choices import Status

PARAMETERS = [
    ParameterInfo("switch", True, "true or false", ""),
    ParameterInfo("count", 2, "a whole number, at least 1", ""),
    ParameterInfo("share", 0.5, "a number from 0 to 1", ""),
    ParameterInfo("name", "", "a name", ""),
    ParameterInfo("free", None, "anything", ""),
]
INFO = ServerInfo(
    "1",
    Limits(1, 1, 1, 1, 1, 1, 1, 1, 1),
    "typed",
    [
        JudgeInfo("typed", "first", "", 0.5, PARAMETERS, "", ""),
        JudgeInfo("typed", "bare", "", 0.5, [], "", ""),
        JudgeInfo("plain", "", "", 0.5, [], "", ""),
    ],
    [],
    [],
)


def read(*parameters, kind="typed", profile=None, min_score=None):
    return read_judge(INFO, kind, profile, min_score, parameters)


class TestReadJudge:
    def test_types_values_as_the_server_lists_them(self):
        judge = read("switch=False", "count=-3", "share=1", "name=a=b", "free=7")
        assert judge == Judge(
            "typed",
            parameters={"switch": False, "count": -3, "share": 1.0, "name": "a=b", "free": "7"},
        )
        assert type(judge.parameters["share"]) is float

    def test_leaves_the_choice_to_the_server(self):
        assert read(kind=None) == Judge()
        assert read(kind=None, min_score=0.25) == Judge(min_score=0.25)

    def test_leaves_unknown_judges_to_the_server(self):
        assert read("x=1", kind="other") == Judge("other", parameters={"x": "1"})
        assert read("x=1", profile="other") == Judge("typed", "other", parameters={"x": "1"})

    @pytest.mark.parametrize(
        ("text", "name"),
        [("count=x", "count"), ("count=1.5", "count"), ("count=9" + "0" * 30, "count"),
         ("share=nan", "share"), ("switch=yes", "switch"), ("coutn=3", "coutn")],
    )  # fmt: skip
    def test_leaves_what_is_of_another_type_to_the_server(self, text, name):
        assert read(text).parameters == {name: text.partition("=")[2]}

    def test_refuses_what_never_reaches_the_server(self):
        with pytest.raises(Problem, match="--param count: is given twice"):
            read("count=1", "count=2")

    @pytest.mark.parametrize(("default", "named"), [("llm", "llm"), ("typed", "")])
    def test_names_a_default_judge_that_asks_models(self, default: str, named: str):
        info = replace(INFO, default_judge=default)
        judge = read_judge(info, None, None, 0.25, ())
        assert judge == Judge(named, min_score=0.25)
        assert most_contexts(judge) == most_contexts(default)


class TestPlaces:
    TYPED = (("--stage", "llm:model=a"), ("--stage", "exact"))

    @pytest.mark.parametrize(
        ("field", "typed"),
        [
            ("judge.members[1].judge.calibration.calibrator.accept", "--stage exact: calibration"),
            ("judge.members[0].judge", "--stage llm:model=a"),
            ('judge.members[0].judge.parameters["model"]', "--stage llm:model=a: model"),
            ("judge.members[1].weight", "--stage exact: weight"),
            ("judge.members", "--stage"),
            ("judge.kind", "--judge"),
        ],
    )
    def test_name_the_stage_that_is_wrong(self, field, typed):
        error = InvalidArgument.of_field(field, "rule")
        assert explain(error, places_of_members(self.TYPED)) == f"{typed}: rule"

    def test_name_the_flags_of_a_model(self):
        places = ModelOptions(judge_samples=-1).places()
        for name, flag in (("samples", "--judge-samples"), ("rubric", "--param rubric")):
            error = InvalidArgument.of_field(f'judge.parameters["{name}"]', "rule")
            assert explain(error, places) == f"{flag}: rule"


class TestParameters:
    def test_are_those_that_were_given(self):
        options = ModelOptions(judge_model="m", judge_temperature=0.0, param=("rubric=r",))
        assert options.parameters() == ["model=m", "temperature=0.0", "rubric=r"]
        assert ModelOptions().parameters() == []

    @pytest.mark.parametrize(
        ("param", "problem"),
        [
            ("count", "--param count: write it as name=value"),
            ("=3", "--param =3: write it as name=value"),
            ("max_tokens=8", "--param max_tokens: is given by --judge-max-tokens"),
        ],
    )
    def test_that_are_wrong(self, param, problem):
        with pytest.raises(Problem, match=problem):
            ModelOptions(judge_max_tokens=9, param=(param,)).parameters()


def verdicts(**errors):
    n = len(errors) + 1
    found = {i: VerdictError(9, reason, "", False) for i, reason in enumerate(errors.values())}
    identity = JudgeIdentity("llm", "", 0.5, "llm|v1", "", "")
    return Verdicts([False] * n, [0.0] * n, [2] * n, [1] * n, [0] * n, [0, n], found, identity)


def test_flags_are_modes():
    assert AskingOptions().how_asked() is None
    assert AskingOptions(judge_refresh=True).how_asked() == Asking(CacheMode.REFRESH)
    assert AskingOptions(cache_only=True, max_cost=1).how_asked() == Asking(CacheMode.ONLY, 1)
    assert AskingOptions(max_cost=1).how_asked() == Asking(max_cost=1)


def test_a_missing_reply_is_a_problem_with_the_next_step():
    with pytest.raises(Problem, match=r"1 of 3 verdicts not in .* without --cache-only"):
        refuse_missing(verdicts(a="NOT_CACHED", b="TIMEOUT"))


def test_other_errors_are_not():
    refuse_missing(verdicts(a="TIMEOUT"))
    refuse_missing(None)


TRACING = NamedTrace(trace="t.jsonl", no_judge=True)
NO_JUDGES = SimpleNamespace(judges=[], rubrics=[], chat_models=[])
SERVER = SimpleNamespace(info=NO_JUDGES, client=None)
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
        error = MissingScores(1, 1, "answers/r", JUDGE, "1")
        for cached in (None, lambda items, rubrics: None):
            assert said(ScoreReplay(Trace(), cached), error).endswith(
                "first that of item '1'; to get it, run this command once with a judge in place "
                f"of --judge none: {SIGNATURE}"
            )

    def test_one_is_and_several_are(self):
        one = said(ScoreReplay(Trace()), MissingScores(1, 1, "answers/r", None, "1"))
        assert "1 of 1 judgement by answers/r is not in t.jsonl" in one
        two = said(ScoreReplay(Trace()), MissingScores(2, 3, "answers/r", None, "1"))
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
