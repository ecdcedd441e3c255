"""The simulation of sizes: what waits for what, and what breaks first."""

import numpy as np
import pytest

from benchmarks.sizing import Asked, Station, capacity, stations_of


@pytest.mark.parametrize("servers", [1, 3, 50])
def test_servers_take_requests_in_turn_and_one_at_a_time(servers):
    come = np.cumsum(np.random.default_rng(1).exponential(0.1, 40))
    left = Station("cores", 0.25, servers).leave(come)
    free = [0.0] * servers
    for number, at in enumerate(come):
        turn = number % servers
        free[turn] = max(free[turn], at) + 0.25
        assert left[number] == pytest.approx(free[turn])


def test_one_station_holds_what_queueing_theory_says():
    # As in test_measuring: at a load of .9, 99 % are done within 23 services.
    found, first = capacity([Station("cores", 0.01)], 0.23)
    assert found.capacity_rps == pytest.approx(90, rel=0.05)
    assert first == "cores"


def test_what_is_shared_breaks_first_when_there_are_cores_enough():
    asked = Asked("llm:1x10", 1.0, questions=10)
    rates, names = [], []
    for cores in (1, 10, 1_000):
        found, first = capacity(stations_of(asked, 0.01, cores, 0.0, 4_000.0), 0.5)
        rates.append(found.capacity_rps)
        names.append(first)
    assert names == ["cores", "store", "store"]
    assert rates == [pytest.approx(100, rel=0.1), *[pytest.approx(400, rel=0.1)] * 2]
    stations = stations_of(asked, 0.01, 1_000, 100.0, 4_000.0)
    assert capacity(stations, 1.0)[1] == "provider"
