"""Judging over streams that fail in every way."""

import time

import judged._batching.chunks
import pytest
from judged import (
    DeadlineExceeded,
    FailedPrecondition,
    InvalidArgument,
    QueryGroup,
    Status,
    Unavailable,
    Verdicts,
)
from judged._transport.call import Deadline
from judged.evaluation._steps.streaming import StreamedJudging
from judged.types import JudgedChunk, JudgeIdentity, VerdictError

IDENTITY = JudgeIdentity("fake", "", 0.5, "fake|v1", "", "")
BUSY = VerdictError(8, "OVERLOADED", "busy", True)
BROKEN = VerdictError(13, "INTERNAL", "internal error, reference 7", False)


def verdicts_of(groups):
    """A verdict is relevant when the retrieved text is the expected one."""
    relevant = [e == r for group in groups for r in group.retrieved for e in group.expected]
    n = len(relevant)
    return Verdicts(relevant, [0.0] * n, [1] * n, [1] * n, [0] * n, [], {}, IDENTITY)


class FakeClient:
    """Answers streams by a script: one entry a stream, each a function of (chunk id, groups)."""

    def __init__(self, *script):
        self.script = list(script)
        self.streams = []

    def judge_stream(self, chunks, judge, *, include_details, asking, timeout, request_id):
        answer = self.script.pop(0) if self.script else right
        sent = [list(chunk) for chunk in chunks]
        self.streams.append(sent)
        # Answers may come in any order.
        for chunk_id in reversed(range(len(sent))):
            reply = answer(chunk_id, sent[chunk_id])
            if reply is not None:
                yield reply


def right(chunk_id, groups):
    return JudgedChunk(chunk_id, verdicts_of(groups), None, 0, 0)


def wrong(error):
    return lambda chunk_id, groups: JudgedChunk(chunk_id, None, error, 0, 0)


def breaks(error, *, after=0):
    """Answer the last `after` chunks, then break the stream."""
    answered: list[int] = []

    def answer(chunk_id, groups):
        if len(answered) >= after:
            raise error
        answered.append(chunk_id)
        return right(chunk_id, groups)

    return answer


def turns_away(*, after):
    """Answer the last `after` chunks, turn the others away."""
    answered: list[int] = []

    def answer(chunk_id, groups):
        if len(answered) >= after:
            return wrong(BUSY)(chunk_id, groups)
        answered.append(chunk_id)
        return right(chunk_id, groups)

    return answer


@pytest.fixture(autouse=True)
def small_and_fast(monkeypatch):
    monkeypatch.setattr(judged._batching.chunks, "CHUNK_CONTEXTS", 2)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.append(now.pop() + seconds))


GROUPS = [
    QueryGroup("q", ["a"], ["a", "b", "a"], "q0"),
    QueryGroup("q", (), ["x"], "by id", ["x"], ["x"]),
    QueryGroup("q", ["a", "b"], ["b", "a"], "q1", ["d", "e"]),
]
RIGHT = [True, False, True, False, True, True, False]


def judge(client, groups=GROUPS, *, max_contexts=1000, progress=None):
    streamed = StreamedJudging(client, "fake", groups, Deadline(60), progress)
    return streamed.run(max_contexts)


class TestStreamedJudging:
    def test_puts_chunks_together_in_order(self):
        client, told = FakeClient(), []
        verdicts = judge(client, progress=lambda done, total: told.append((done, total)))
        assert verdicts.relevant == RIGHT
        assert list(verdicts.offsets) == [0, 3, 3, 7]
        assert verdicts.judge == IDENTITY
        assert told[-1] == (7, 7)
        assert [done for done, _ in told] == sorted(done for done, _ in told)

    def test_judges_nothing_when_all_is_matched_by_id(self):
        client = FakeClient()
        assert judge(client, [GROUPS[1]]) is None
        assert client.streams == []

    def test_asks_for_the_judge_even_without_a_context(self):
        verdicts = judge(FakeClient(), [QueryGroup("q", [], ["x"], "q")])
        assert len(verdicts) == 0
        assert verdicts.judge == IDENTITY

    def test_opens_another_stream_at_the_limit(self):
        client = FakeClient()
        assert judge(client, max_contexts=4).relevant == RIGHT
        sizes = [sum(len(verdicts_of(chunk)) for chunk in stream) for stream in client.streams]
        assert sizes == [3, 4]

    def test_sends_again_what_was_turned_away(self):
        client = FakeClient(wrong(BUSY))
        assert judge(client).relevant == RIGHT
        assert len(client.streams) == 2

    def test_goes_on_while_something_is_answered(self):
        client = FakeClient(*(turns_away(after=1) for _ in range(3)))
        assert judge(client).relevant == RIGHT
        assert [len(stream) for stream in client.streams] == [4, 3, 2, 1]

    def test_gives_contexts_of_a_failed_chunk_the_status_error(self):
        client = FakeClient(
            lambda chunk_id, groups: (wrong(BROKEN) if chunk_id == 0 else right)(chunk_id, groups)
        )
        verdicts = judge(client)
        assert verdicts.status == [Status.ERROR] * 2 + [Status.OK] * 5
        assert verdicts.relevant[:2] == [False, False]
        assert verdicts.errors[0].reason == "INTERNAL"
        assert set(verdicts.errors) == {0, 1}

    def test_gives_up_on_a_stream_that_broke_for_good_and_keeps_the_rest(self):
        client = FakeClient(breaks(Unavailable("gone"), after=1))
        assert judge(client).status == [Status.ERROR] * 5 + [Status.OK] * 2
        assert len(client.streams) == 1  # judge_stream has waited for the server already

    def test_gives_up_on_what_is_turned_away_until_its_time_is_over(self):
        client = FakeClient(turns_away(after=1), *(wrong(BUSY) for _ in range(5000)))
        verdicts = judge(client)
        assert verdicts.status == [Status.ERROR] * 5 + [Status.OK] * 2
        assert verdicts.errors[0].retryable

    def test_raises_when_nothing_was_answered(self):
        with pytest.raises(Unavailable, match="gone"):
            judge(FakeClient(breaks(Unavailable("gone"))))

    def test_does_not_repeat_what_would_fail_again(self):
        client = FakeClient(breaks(DeadlineExceeded("too late")))
        with pytest.raises(DeadlineExceeded):
            judge(client)
        assert len(client.streams) == 1

    def test_raises_what_the_whole_stream_is_refused_for(self):
        with pytest.raises(FailedPrecondition):
            judge(FakeClient(breaks(FailedPrecondition("no model"))))

    def test_names_the_group_of_the_call_not_of_the_chunk(self):
        refused = VerdictError(3, "LIMIT_EXCEEDED", "chunk.groups[0].retrieved[0]: too long", False)
        client = FakeClient(
            lambda chunk_id, groups: (wrong(refused) if chunk_id == 3 else right)(chunk_id, groups)
        )
        with pytest.raises(InvalidArgument) as caught:
            judge(client)
        assert caught.value.field == "groups[2].retrieved[1]"
        assert caught.value.message == "groups[2].retrieved[1]: too long"
        assert caught.value.reason == "LIMIT_EXCEEDED"

    def test_names_a_text_that_can_not_be_sent_by_its_place_in_the_batch(self):
        groups = [QueryGroup("q", ["a"], ["b", "c"], str(i)) for i in range(3)]
        field = "chunks[1].groups[0].retrieved[1]"
        error = InvalidArgument(f"{field}: holds a lone surrogate", metadata={"field": field})
        error.field = field
        with pytest.raises(InvalidArgument, match=r"^groups\[1\]\.retrieved\[1\]: ") as caught:
            judge(FakeClient(breaks(error)), groups)
        assert caught.value.field == caught.value.metadata["field"] == "groups[1].retrieved[1]"
