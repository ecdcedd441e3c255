"""Files of traces: what is written is read again, what is wrong is named by line and key."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from judged import Status
from judged.evaluation import FileError
from judged.traces import Item, Judgement, Trace
from judged.values import JudgeIdentity, VerdictError

from tests.unit.client.traces.strategies import traces

JUDGE = JudgeIdentity(
    "llm",
    "",
    0.5,
    "llm|rubric:retrieval_match@1|sha:3b70145c|min_score:0.5|v1",
    "a" * 64,
    "b" * 64,
)
YES = Judgement(JUDGE, Status.OK, True, 1.0, samples=1, agreement=1.0)
NAME = "llm/retrieval_match"
quick = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


def context(retrieved="r", query_id="q1"):
    texts = {"query": "q", "expected_text": "e", "retrieved_text": retrieved}
    return Item.of({**texts, "query_id": query_id})


def answer(item_id="a1", **texts):
    return Item.of({"item_id": item_id, "query": "q", "answer": "a", **texts})


def written(path, *judged):
    trace = Trace()
    for item, judgement in judged:
        trace.put(item, judgement)
    trace.write(path)
    return path


def edited(path, line, change):
    """Change the object of one line in place."""
    lines = path.read_text().splitlines()
    fields = json.loads(lines[line - 1])
    change(fields)
    lines[line - 1] = json.dumps(fields)
    path.write_text("".join(f"{line}\n" for line in lines))


class TestRoundTrip:
    @quick
    @given(traces())
    def test_what_is_written_is_read_again(self, tmp_path, trace):
        path = tmp_path / "t.jsonl"
        trace.write(path)
        again = Trace.read(path)
        assert again.items == trace.items
        first = path.read_bytes()
        again.write(path)
        assert path.read_bytes() == first


class TestWriting:
    def test_keeps_the_old_file_when_it_fails(self, tmp_path):
        path = written(tmp_path / "t.jsonl", (context(), YES))
        before = path.read_bytes()
        trace = Trace()
        trace.put(context("half \ud800"[:4]), replace(YES, score=float("nan")))
        with pytest.raises(ValueError, match="not JSON compliant"):
            trace.write(path)
        assert path.read_bytes() == before
        assert [found.name for found in tmp_path.iterdir()] == ["t.jsonl"]


class TestMerging:
    def test_a_newer_one_takes_the_place_of_its_name(self):
        trace = Trace()
        trace.put(context(), YES)
        no = replace(YES, passed=False, score=0.0)
        trace.put(context(query_id="another"), no)
        assert trace.items[context().key].judgements[NAME] == no

    def test_a_failure_does_not_take_the_place_of_what_the_same_judge_said(self):
        failed = Judgement(JUDGE, Status.ERROR, error=VerdictError(14, "TIMEOUT", "", True))
        trace = Trace()
        trace.put(context(), YES)
        trace.put(context(), failed)
        assert trace.items[context().key].judgements[NAME] == YES
        other = replace(failed, judge=replace(JUDGE, scoring_key="c" * 64))
        trace.put(context(), other)
        assert trace.items[context().key].judgements[NAME] == other

    def test_answers_with_the_same_texts_keep_their_ids(self):
        trace = Trace()
        trace.put(answer("a1"), YES)
        trace.put(answer("a2"), YES)
        trace.put(answer("a2", contexts=["c"]), YES)
        trace.put(answer("a2", references=["c"]), YES)
        assert len(trace) == 4


def put(key, value):
    return lambda fields: fields["judgements"][NAME].__setitem__(key, value)


def drop(key):
    return lambda fields: fields["judgements"][NAME].pop(key)


class TestFaults:
    @pytest.mark.parametrize(
        ("line", "change", "says"),
        [
            (2, put("score", "1.0"), f"judgements['{NAME}'] has 'score' that is not a number"),
            (2, put("score", 1.5), "has 'score' that is not a number from 0 to 1"),
            (
                2,
                put("score", 0.2),
                "has 'passed' true, but its score 0.2 is below its threshold 0.5",
            ),
            (2, drop("min_score"), "has no 'min_score'"),
            (2, put("status", "FINE"), "has 'status' 'FINE'; it must be one of OK, ERROR"),
            (2, put("status", "ERROR"), "has 'passed', but its status is ERROR"),
            (2, put("samples", -1), "has 'samples' that is not a whole number"),
            (2, put("scoring_key", "xyz"), "has 'scoring_key' that is not a SHA-256 in hex"),
            (2, put("scores", 1), "has 'scores', which this version of the format does not know"),
            (2, put("source", None), "has no 'source'"),
            (2, put("breakdown", {"overall": 1}), "breakdown has 'overall', which this version"),
            (2, put("breakdown", {"claims": [{"text": "a"}]}), "claims[0] has 'text', which"),
            (2, lambda f: f.pop("judgements"), "judgements must be an object"),
        ],
    )
    def test_are_named_by_line_and_key_with_the_next_step(self, tmp_path, line, change, says):
        path = written(tmp_path / "t.jsonl", (context(), YES))
        edited(path, line, change)
        with pytest.raises(FileError) as caught:
            Trace.read(path)
        assert str(caught.value).startswith(f"{path}:{line}: ")
        assert says in str(caught.value)
        assert str(caught.value).endswith(
            "; correct it, or delete the line and judge its item again with --trace"
        )

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (
                lambda f: f.update(version=2),
                "has 'version' 2, and this judged reads 1; make it again",
            ),
            (lambda f: f.pop("format"), "has no 'format' 'judged-trace'; --trace"),
        ],
    )
    def test_of_the_header(self, tmp_path, change, says):
        path = written(tmp_path / "t.jsonl", (context(), YES))
        edited(path, 1, change)
        with pytest.raises(FileError) as caught:
            Trace.read(path)
        assert str(caught.value).startswith(f"{path}:1: {says}")

    def test_an_item_twice(self, tmp_path):
        path = written(tmp_path / "t.jsonl", (context(), YES))
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join([*lines, lines[1]]))
        with pytest.raises(FileError, match=r"t\.jsonl:3: has the item of line 2 again"):
            Trace.read(path)

    @quick
    @given(
        traces(),
        st.integers(0, 40),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
            lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner),
        ),
    )
    def test_no_other_exception_escapes(self, tmp_path, trace, place, value):
        path = tmp_path / "t.jsonl"
        trace.write(path)
        lines = [json.loads(line) for line in path.read_bytes().splitlines()]
        holders = list(_holders(lines))
        holder, key = holders[place % len(holders)]
        holder[key] = value
        path.write_bytes(
            b"".join(json.dumps(line).encode("utf-8", "replace") + b"\n" for line in lines)
        )
        with suppress(FileError):
            Trace.read(path)


def _holders(value):
    """Yield (container, key) of everything inside."""
    pairs = enumerate(value) if isinstance(value, list) else value.items()
    for key, inner in list(pairs):
        yield value, key
        if isinstance(inner, list | dict):
            yield from _holders(inner)
