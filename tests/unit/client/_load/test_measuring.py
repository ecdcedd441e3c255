"""The search for the highest rate, against servers of known capacity in a time of their own."""

import pytest
from judged._load.measuring import PRECISION, Bound, Step, document, find_rate
from judged._load.open_loop import Outcome, Sent
from judged._load.request_mix import arrivals

SECONDS = 20.0


def simulated(service_s, p99_ms, *, poisson=False, calls=None):
    """Return what tries a rate at a server that takes so long for each request, one by one."""

    def attempt(rps):
        due = list(arrivals(rps, SECONDS, poisson=poisson, seed=1))
        outcome, free = Outcome(), 0.0
        for at in due:
            free = max(free, at) + service_s
            outcome.sent.append(Sent("x", at, 0.0, free - at))
        if calls is not None:
            calls.append(rps)
        return Bound(p99_ms, len(due)).step(rps, outcome)

    return attempt


@pytest.mark.parametrize("first", [1.0, 97.0, 2_000.0])
@pytest.mark.parametrize("capacity", [3.0, 731.0])
def test_the_capacity_of_a_server_is_found(capacity, first):
    # Evenly at up to its capacity nobody waits, and above it the queue only grows.
    found = find_rate(simulated(1 / capacity, 1e3 / capacity + 200), first, SECONDS)
    assert found.capacity_rps == pytest.approx(capacity, rel=0.04)
    assert found.capacity_rps < found.not_held_rps <= found.capacity_rps * PRECISION
    assert found.limited_by == "server"


def test_at_random_instants_it_is_what_queueing_theory_says():
    # M/D/1 at a load of .9: the mean wait is .9 / (2 * .1) services, and the tail falls off as
    # exp(-.207 x), by the root of exp(.9 (z - 1)) = z: 99 % wait at most about 22 services.
    found = find_rate(simulated(0.001, 23.0, poisson=True), 50.0, SECONDS)
    assert found.capacity_rps == pytest.approx(900, rel=0.05)


def test_a_moment_of_a_busy_machine_is_no_limit():
    calls, good = [], simulated(0.01, 50.0)

    def attempt(rps):
        calls.append(rps)
        step = good(rps)
        if len(calls) in (2, 5):
            return Step(rps, False, "server", 1, 1, 1.0, 1e3, 0.0)
        return step

    assert find_rate(attempt, 10.0, SECONDS).capacity_rps == pytest.approx(100, rel=0.04)


def test_it_ends_where_the_client_can_do_no_more():
    def attempt(rps):
        late = rps > 70
        return Step(rps, not late, "client" if late else None, 1, 1, 1.0, 1.0, 0.0)

    found = find_rate(attempt, 20.0, SECONDS)
    assert (found.capacity_rps, found.not_held_rps, found.limited_by) == (40.0, 80.0, "client")


def test_where_no_rate_holds_there_is_none():
    found = find_rate(simulated(0.5, 100.0), 10.0, SECONDS)
    assert found.capacity_rps is None
    assert found.steps[-1].rps * SECONDS >= 2


def sent(took, late=0.0, code=""):
    return Sent("x", 0.0, late, took, code, 1)


class TestBound:
    def test_a_run_ends_when_a_hundredth_was_slow_or_failed(self):
        bound, outcome = Bound(100.0, 300), Outcome([sent(0.05)] * 50 + [sent(0.2)] * 2)
        outcome.sent += [sent(0.2, late=0.15)] * 9  # sent late: not the server's fault
        assert bound.allows_more(outcome)
        outcome.sent.append(sent(0.01, code="UNAVAILABLE"))
        assert bound.allows_more(outcome)
        outcome.sent.append(sent(0.11))
        assert not bound.allows_more(outcome)

    @pytest.mark.parametrize("spoilt", ["errors", "missing_verdicts", "unsent"])
    def test_one_failure_is_enough(self, spoilt):
        outcome = Outcome([sent(0.01)] * 1000)
        planned = 1000 + (spoilt == "unsent")
        assert Bound(100.0, 1000).step(5.0, outcome).held
        if spoilt == "errors":
            outcome.sent[-1] = sent(0.01, code="UNAVAILABLE")
        if spoilt == "missing_verdicts":
            outcome.sent[-1] = sent(0.01)._replace(missing=1)
        step = Bound(100.0, planned).step(5.0, outcome)
        assert (step.held, step.limited_by) == (False, "server")

    @pytest.mark.parametrize(("late", "busy"), [(0.15, 0.5), (0.0, 0.95)])
    def test_what_the_client_sent_late_or_could_not_read_is_its_own_fault(self, late, busy):
        outcome = Outcome([sent(0.2, late)] * 10, busy=busy)
        step = Bound(100.0, 10).step(5.0, outcome)
        assert (step.held, step.limited_by) == (False, "client")


def test_the_document_has_each_kind_and_the_course_of_time():
    outcome = Outcome(
        [
            Sent("a", 0.0, 0.001, 0.01, "", 1),
            Sent("a", 9.9, 0.001, 0.02, "", 1),
            *[Sent("b", 5.0, 0.001, 0.0, "NOT_FOUND")] * 3,
        ]
    )
    outcome.seconds = 10.0
    made = document(outcome, 10.0)
    assert list(made["requests"]) == ["all", "a", "b"]
    assert made["requests"]["all"]["latency_ms"]["p100"] == pytest.approx(20)
    assert made["requests"]["b"]["latency_ms"]["p50"] is None
    assert made["requests"]["b"]["errors"] == {"NOT_FOUND": 3}
    assert [(each["from_s"], each["p99_ms"]) for each in made["over_time"]] == [
        (0.0, pytest.approx(10)),
        (pytest.approx(9.9), pytest.approx(20)),
    ]
    assert made["client"] == {"late_p99_ms": pytest.approx(1), "busy": 0.0, "is_late": False}
