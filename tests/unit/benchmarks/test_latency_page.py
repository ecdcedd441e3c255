"""The page of a load run: one file, well-formed, with the numbers of the run."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

from benchmarks.load.latency_page import HEIGHT, WIDTH, curve, page, plot
from benchmarks.load.open_loop import Outcome, Tally


def _tally(*milliseconds: float, **errors: int) -> Tally:
    tally = Tally(answered=len(milliseconds))
    for value in milliseconds:
        tally.histogram.record_value(round(value * 1e3))
    tally.errors.update(errors)
    return tally


def _svg(text: str) -> ET.Element:
    return ET.fromstring(re.search(r"<svg.*</svg>", text, re.DOTALL).group())  # noqa: S314


def test_the_page_needs_no_other_file_and_escapes_what_it_is_told():
    outcome = Outcome({"semantic:1x4": _tally(1, 2, 90, UNAVAILABLE=2)})
    text = page("<load>", outcome, {"target": "a&b"})
    HTMLParser().feed(text)
    assert "&lt;load&gt;" in text
    assert "a&amp;b" in text
    assert "UNAVAILABLE" in text
    assert not re.search(r"src=|href=|url\(|<script", text)


def test_every_line_stays_inside_the_plot():
    tallies = {"a": _tally(*range(1, 500)), "b": _tally(0.01, 700.0)}
    svg = _svg(plot(tallies))
    lines = svg.findall("polyline")
    assert len(lines) == 2
    for line in lines:
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= WIDTH
            assert 0 <= y <= HEIGHT


def test_a_curve_rises_and_ends_at_the_slowest():
    points = curve(_tally(*range(1, 2_000)))
    assert points == sorted(points)
    assert points[-1][0] == 100
    assert abs(points[-1][1] - 1_999) < 3


def test_without_answers_there_is_a_sentence_instead():
    assert "No request was answered" in plot({"a": _tally(UNAVAILABLE=1)})


def test_one_answer_is_drawn():
    assert _svg(plot({"a": _tally(5.0)})).findall("polyline")
