"""What there is to ask, from the tests, the docs and fixed seeds.

A recording has all of it. Once one is kept, this folder may go before the rest of the goldens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tests.goldens.cases import Case
from tests.goldens.drawn.commands import steps
from tests.goldens.drawn.refusals import refused_by_http, refused_calls
from tests.goldens.drawn.requests import by_http, good_calls


def drawn() -> Iterator[Case]:
    """Yield all cases under names of their own."""
    calls = [*good_calls(), *refused_calls()]
    seen: Counter[str] = Counter()
    cases: list[Case] = [*calls, *by_http(calls), *refused_by_http(), *steps()]
    for case in cases:
        seen[case.name] += 1
        number = seen[case.name]
        yield case if number == 1 else replace(case, name=f"{case.name} #{number}")
