"""The page of a load: what is in it, and that it asks nobody for anything."""

import re
from dataclasses import asdict

from judged._load.measuring import Bound, Search, document
from judged._load.open_loop import Outcome, Sent
from judged._load.page import to_html

FACTS = {
    "headline": "20 requests a second at p99 <= 100 ms",
    "target": "<b>host:1",
    "server": "0.1.0",
    "mix": "semantic:1x10",
    "arrivals": "poisson",
    "duration_s": 10.0,
    "rps": 20.0,
    "warnings": ["<script>late</script>"],
}


def outcome():
    times = ((0.0, 0.01), (5.0, 0.02), (7.0, 0.3))
    made = Outcome([Sent("semantic:1x10", due, 0.001, took, "", 10) for due, took in times])
    made.sent += [Sent("semantic:1x10", 8.0, 0.001, 0.1, "UNAVAILABLE")] * 2
    made.seconds = 10.0
    return made


def test_what_was_measured_is_there_and_texts_are_escaped():
    page = to_html({**FACTS, **document(outcome(), 10.0)})
    assert "20 requests a second at p99 &lt;= 100 ms" in page
    assert "UNAVAILABLE 2" in page
    assert "<td>300.0</td>" in page
    assert page.count("<polyline") == 3
    assert "<script" not in page
    assert "<b>" not in page
    assert "Rates that were tried" not in page
    assert "http" not in page.replace("http-equiv", "")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy


def test_a_search_shows_its_rates_and_the_bound():
    steps = [Bound(400.0, 5).step(rate, outcome()) for rate in (10.0, 20.0)]
    search = {"p99_ms": 400.0, **asdict(Search(10.0, 20.0, "server", steps))}
    page = to_html({**FACTS, **document(outcome(), 10.0), **search})
    assert page.count("<polyline") == 5
    assert page.count('class="bound"') == 2
    assert page.count("not held, by the server</td>") == 2


def test_one_answer_is_enough_for_a_page():
    made = outcome()
    del made.sent[1:]
    assert "<polyline" in to_html({**FACTS, **document(made, 10.0)})
    made.sent[:] = [Sent("semantic:1x10", 8.0, 0.001, 0.1, "UNAVAILABLE")]
    assert "<polyline" not in to_html({**FACTS, **document(made, 10.0)})
