"""The load generator: when requests are due, and that latency counts from then."""

import time
from itertools import repeat

from judged._load.open_loop import Request, Tally, drive
from judged.credentials import Token
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.fakes.paced_server import paced_server


async def _drive(hold_s, due, request, **more):
    with paced_server(hold_s) as server:
        return await drive(server.address, due, repeat(request), 10.0, warm_up=1, **more)


MESSAGE = pb.BatchJudgeRequest(groups=[groups_pb2.QueryGroup(expected=["a"], retrieved=["b"])])
GOOD = Request("good", MESSAGE.SerializeToString(), 2)


class TestDrive:
    async def test_requests_leave_when_due_and_wait_for_nobody(self):
        # Ten at once at a server that takes 20 ms each: a closed loop would see 20 ms every time.
        outcome = await _drive(0.02, [0.0] * 10, GOOD)
        tally = outcome.total
        assert {each.label for each in outcome.sent} == {"good"}
        assert tally.answered == tally.sent == 10
        assert tally.milliseconds(100) >= 195
        assert tally.milliseconds(50) >= 95

    async def test_a_server_that_stalls_shows_it_in_the_percentiles(self):
        # It stands for .5 of 2 s. A closed loop would see one slow answer of a hundred or so.
        with paced_server(0.001) as server:
            server.stalls[51] = 0.5
            due = [number / 100 for number in range(200)]
            outcome = await drive(server.address, due, repeat(GOOD), 10.0, warm_up=0)
        total = outcome.total
        assert total.answered == 200
        # 50 requests were due while it stood: of all, a quarter waited, evenly up to .5 s.
        assert total.milliseconds(50) < 150
        assert total.milliseconds(90) > 280
        assert total.milliseconds(99) > 460
        assert sum(answer.took > 0.1 for answer in outcome.sent) > 35

    async def test_a_client_that_stalls_is_seen_and_counts_too(self):
        def stall(_):
            time.sleep(0.2)
            return 0.0

        outcome = await _drive(0.0, [0.0, 0.05, 0.1], GOOD, elsewhere_s=stall)
        assert outcome.client_is_late
        assert max(each.late for each in outcome.sent) > 0.09
        assert outcome.total.milliseconds(100) > 100

    async def test_what_was_spent_elsewhere_is_left_out(self):
        outcome = await _drive(0.5, [0.0], GOOD, elsewhere_s=lambda answer: 0.5 * answer.counts.ok)
        assert outcome.total.milliseconds(100) < 450
        outcome = await _drive(0.0, [0.0], GOOD, elsewhere_s=lambda _: 1e6)
        assert outcome.total.milliseconds(100) < 1

    async def test_verdicts_that_are_missing_are_counted(self):
        total = (await _drive(0.0, [0.0, 0.01], GOOD)).total
        assert (total.contexts, total.missing_verdicts) == (4, 2)
        assert not total.is_whole

    async def test_a_request_that_has_other_verdicts_when_it_comes_again_is_counted(self):
        outcome = await _drive(0.0, [0.0, 0.1, 0.2], GOOD, go_on=_swap)
        assert outcome.total.changed == 2

    async def test_failures_are_counted_by_code_and_have_no_latency(self):
        outcome = await _drive(0.0, [0.0] * 3, Request("bad", b"", 1))
        total = outcome.total
        assert (total.sent, total.answered) == (3, 0)
        assert total.errors == {"INVALID_ARGUMENT": 3}
        assert outcome.messages == {"INVALID_ARGUMENT": "groups: is empty"}
        assert total.latencies == []

    async def test_the_token_is_shown_to_the_server(self):
        with paced_server(0.0) as server:
            await drive(server.address, [0.0], repeat(GOOD), 10.0, credentials=Token("t" * 40))
            assert server.authorization == f"Bearer {'t' * 40}"

    async def test_no_more_leave_when_it_need_not_go_on(self):
        outcome = await _drive(
            0.0, [number / 50 for number in range(50)], GOOD, go_on=lambda o: not o.sent
        )
        assert 1 <= outcome.total.sent < 25


def _swap(outcome):
    """Turn the verdicts around that are known."""
    outcome.verdicts.update(dict.fromkeys(outcome.verdicts, b"\0"))
    return True


class TestTally:
    def test_percentiles_are_values_by_nearest_rank(self):
        tally = Tally()
        for seconds in (0.004, 0.001, 0.003, 0.002):
            tally.record(seconds)
        assert [tally.milliseconds(p) for p in (1, 25, 26, 50, 99, 100)] == [1, 1, 2, 2, 4, 4]
        assert tally.milliseconds(50) == 2

    def test_without_an_answer_there_is_none(self):
        assert str(Tally().milliseconds(50)) == "nan"
