"""A judging stream over tries that break: what each try sends, and what comes of the answers."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import pytest
from judged import Asking, DeadlineExceeded, InternalError, QueryGroup, Unavailable
from judged._batching.judging import JudgeStream
from judged._transport.call import Attempts, Deadline, Patience
from judged.errors import WrongType
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import verdicts_pb2

CHUNKS = [[QueryGroup("q", [str(i)], [str(i)])] for i in range(5)]


def stream(chunks: Iterable[Sequence[QueryGroup]] = CHUNKS, asking: Asking | None = None):
    return JudgeStream(chunks, "exact", asking, include_details=False, request_id="")


def attempts() -> Attempts:
    return Attempts(Deadline(60), Patience())


def answer(chunk_id: int, cost: float = 0.0) -> pb.StreamJudgeResponse:
    usage = verdicts_pb2.Usage(cost=cost) if cost else None
    columns = verdicts_pb2.VerdictColumns(relevant=[True], score=[1.0], group_offsets=[0, 1])
    return pb.StreamJudgeResponse(
        chunk=pb.JudgedChunk(chunk_id=chunk_id, verdicts=columns, usage=usage)
    )


def started() -> pb.StreamJudgeResponse:
    return pb.StreamJudgeResponse(started=pb.StreamJudgeStarted())


def sent(messages: Iterator[pb.StreamJudgeRequest]) -> tuple[pb.StreamJudgeStart, list[int]]:
    first, *chunks = messages
    return first.start, [message.chunk.chunk_id for message in chunks]


class TestTries:
    def test_a_second_try_sends_what_has_no_answer_under_the_same_id(self):
        judging = stream()
        start, chunk_ids = sent(judging.request())
        assert chunk_ids == [0, 1, 2, 3, 4]
        assert judging.take(started()) is None
        for chunk_id in (3, 1):
            chunk = judging.take(answer(chunk_id))
            assert chunk.verdicts.groups == CHUNKS[chunk_id]
        assert judging.wait_after(Unavailable("gone"), attempts())
        again, chunk_ids = sent(judging.request())
        assert chunk_ids == [0, 2, 4]
        assert again.request_id == start.request_id != ""

    def test_a_second_try_reads_on_where_the_first_stopped(self):
        judging = stream()
        messages = judging.request()
        read = [next(messages) for _ in range(3)]  # the start and two chunks
        assert [message.chunk.chunk_id for message in read[1:]] == [0, 1]
        judging.take(started())
        judging.take(answer(0))
        assert sent(judging.request())[1] == [1, 2, 3, 4]

    def test_a_chunk_that_the_broken_try_is_still_reading_is_sent_by_the_next(self):
        reading, go_on = threading.Event(), threading.Event()

        def chunks() -> Iterator[list[QueryGroup]]:
            yield CHUNKS[0]
            reading.set()
            assert go_on.wait(10)
            yield CHUNKS[1]

        judging = stream(chunks())
        broken = judging.request()
        assert next(broken).HasField("start")
        assert next(broken).chunk.chunk_id == 0
        thread = threading.Thread(target=next, args=(broken,))
        thread.start()
        assert reading.wait(10)
        again = judging.request()  # does not wait for the caller's iterable
        assert next(again).HasField("start")
        assert next(again).chunk.chunk_id == 0
        go_on.set()
        assert [message.chunk.chunk_id for message in again] == [1]
        thread.join(10)

    def test_a_limit_on_money_holds_over_all_tries(self):
        judging = stream(asking=Asking(max_cost=1.0))
        start, _ = sent(judging.request())
        assert start.asking.max_cost == 1.0
        judging.take(started())
        judging.take(answer(0, cost=0.75))
        again, _ = sent(judging.request())
        assert again.asking.max_cost == pytest.approx(0.25)

    def test_nothing_is_sent_again_when_all_is_answered(self):
        judging = stream(CHUNKS[:1])
        sent(judging.request())
        judging.take(started())
        judging.take(answer(0))
        assert judging.wait_after(Unavailable("gone"), attempts()) == 0
        assert judging.done

    def test_what_would_fail_again_is_raised(self):
        judging = stream()
        sent(judging.request())
        with pytest.raises(DeadlineExceeded):
            judging.wait_after(DeadlineExceeded("too late"), attempts())


class TestWhatGoesWrongInside:
    def test_an_exception_of_the_iterable_is_raised_when_the_rest_is_answered(self):
        def chunks() -> Iterator[list[QueryGroup]]:
            yield CHUNKS[0]
            raise ValueError("no more")

        judging = stream(chunks())
        assert sent(judging.request())[1] == [0]
        judging.take(started())
        judging.take(answer(0))
        assert not judging.done
        with pytest.raises(ValueError, match="no more"):
            judging.ended()
        with pytest.raises(ValueError, match="no more"):
            judging.wait_after(Unavailable("gone"), attempts())

    @pytest.mark.parametrize(
        ("chunk", "field"),
        [
            (QueryGroup("q", ["a"], ["a"]), "chunks[1].groups"),
            (["q"], "chunks[1].groups[0]"),
        ],
    )
    def test_a_chunk_of_something_else_is_named(self, chunk: list[QueryGroup], field: str):
        judging = stream([CHUNKS[0], chunk])
        assert sent(judging.request())[1] == [0]
        with pytest.raises(WrongType) as caught:
            judging.ended()
        assert caught.value.field == field

    def test_a_stream_that_ends_early_is_no_success(self):
        judging = stream()
        sent(judging.request())
        judging.take(started())
        judging.take(answer(0))
        with pytest.raises(InternalError, match="4 chunks unanswered"):
            judging.ended()
