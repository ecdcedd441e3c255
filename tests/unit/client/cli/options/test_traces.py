"""What the flags about traces mean together."""

import pytest
from judged import QueryGroup, Verdicts
from judged.cli.options.traces import TextsKept, kept_trace, read_tracing
from judged.cli.output.writer import Output
from judged.cli.problems import Problem
from judged.traces import Trace
from judged.values import JudgeIdentity


def read(kind=None, trace=None, texts=None, judgements=None, no_judge=False):
    return read_tracing(kind, trace, texts, judgements, no_judge=no_judge)


@pytest.mark.parametrize(("kind", "no_judge"), [("none", False), (None, True), ("none", True)])
def test_both_flags_say_that_no_judge_runs(tmp_path, kind, no_judge):
    tracing = read(kind, str(tmp_path / "t"), no_judge=no_judge)
    assert tracing.replays
    assert tracing.llm_kind(kind) == "llm"
    assert kept_trace(tracing, Output(None)) is None


def test_a_judge_keeps_its_flags_to_itself():
    tracing = read("exact")
    assert not tracing.replays
    assert tracing.llm_kind("exact") == "exact"
    assert kept_trace(tracing, Output(None)) is None


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "exact", "no_judge": True}, "--no-judge and --judge exact exclude each other"),
        ({"texts": TextsKept.FULL}, "--trace-texts: is for a --trace that is written"),
        ({"kind": "none", "trace": "t", "texts": TextsKept.HASH}, "--trace-texts: is for"),
        ({"judgements": "x", "trace": "t"}, "--trace-judge: is for --judge none with --trace"),
        ({"judgements": "x", "kind": "none"}, "--trace-judge: is for --judge none with --trace"),
        ({"trace": "no/such/t"}, "--trace no/such/t: there is no folder no/such"),
    ],
)
def test_flags_that_contradict_each_other(given, says):
    with pytest.raises(Problem, match=says):
        read(**given)


def test_a_kept_trace_goes_on_from_its_file_and_passes_on_its_warnings(tmp_path):
    path = tmp_path / "t.jsonl"
    Trace().write(path)
    path.write_text(path.read_text() + '{"query"')
    out = Output(None)
    kept = kept_trace(read(None, str(path)), out)
    assert out.warnings == [f"{path}:2: the last line was cut off; what it held is left out"]
    identity = JudgeIdentity("token_overlap", "", 0.5, "token_overlap|v1", "0" * 64, "1" * 64)
    kept.record(
        [QueryGroup("a", ["b"], ["c"])],
        Verdicts([True], [1.0], [1], [1], [0], [0, 1], {}, identity),
    )
    written = Trace.read(path)
    assert (len(written), written.warnings) == (1, [])
