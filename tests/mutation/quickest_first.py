"""The tests of a mutant, quickest first, up to a sum of seconds.

A plugin of pytest that mutmut's workers load. mutmut hands over every test that reaches the mutated
function, in no order; most mutants die in the quickest ones. What a pass may spend is in
JUDGED_MUTANT_SECONDS; one test always runs.
"""

from __future__ import annotations

import os
from itertools import accumulate

import pytest
from mutmut.mutation.trampoline import get_mutant_under_test
from mutmut.state import state

NOT_A_MUTANT = ("", "stats", "list_all_tests", "mutant_generation", "fail")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort, and cut off what would take too long, where a mutant is under test."""
    if get_mutant_under_test() in NOT_A_MUTANT:
        return
    seconds = state().duration_by_test
    items.sort(key=lambda item: seconds.get(item.nodeid, 0.0))
    spent = accumulate(seconds.get(item.nodeid, 0.0) for item in items)
    limit = float(os.environ.get("JUDGED_MUTANT_SECONDS", "inf"))
    del items[max(1, sum(total <= limit for total in spent)) :]
