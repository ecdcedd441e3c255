"""The tests of a mutant, quickest first, up to a sum of seconds.

A plugin of pytest that mutmut's workers load. mutmut hands over every test that reaches the mutated
function, in no order; most mutants die in the quickest ones. What a pass may spend on a mutant is
in JUDGED_MUTANT_SECONDS, and on the unchanged code in JUDGED_UNCHANGED_SECONDS; one test always
runs.

While mutmut notes which test reaches what, each test begins with empty caches: otherwise only the
first one to need a table would be seen to reach the functions that make it. So does each mutant,
which is forked off a process that has run the tests: it would find what the code made unchanged.
"""

from __future__ import annotations

import os
import sys
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, settings
from mutmut.mutation.trampoline import get_mutant_under_test
from mutmut.state import state

ALL_TESTS = ("stats", "list_all_tests", "mutant_generation", "fail")


def pytest_configure() -> None:
    """Let property tests run more than once in a process, as mutmut runs them."""
    settings.register_profile(
        "mutation", settings(), suppress_health_check=[HealthCheck.differing_executors]
    )
    settings.load_profile("mutation")


def pytest_runtest_setup() -> None:
    """Begin with empty caches where it is noted which test reaches what."""
    if get_mutant_under_test() == "stats":
        empty_caches()


def empty_caches() -> None:
    """Forget what the functions of the metrics keep."""
    for name, module in list(sys.modules.items()):
        if name.startswith(("judged_server.metrics.", "judged_server.statistics.")):
            for value in list(vars(module).values()):
                clear = getattr(value, "cache_clear", None)
                if callable(clear):
                    clear()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort, and cut off what would take too long."""
    under_test = get_mutant_under_test()
    if under_test in ALL_TESTS:
        return
    if under_test:
        empty_caches()
    seconds = state().duration_by_test
    items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))
    spent = accumulate(seconds.get(item.nodeid, 0.0) for item in items)
    spending = "JUDGED_MUTANT_SECONDS" if under_test else "JUDGED_UNCHANGED_SECONDS"
    limit = float(os.environ.get(spending, "inf"))
    del items[max(1, sum(total <= limit for total in spent)) :]
