"""The bars of the chart are as long as their values, and everything on it can be read."""

import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from benchmarks.chart import LEFT, RIGHT, TOP, WIDTH, Bar, bar_chart

SVG = "{http://www.w3.org/2000/svg}"


def _bars(*values: float) -> list[Bar]:
    return [Bar(f"peer {value}", "texts a second", value, value, value, "") for value in values]


def _parsed(*bars: Bar) -> ET.Element:
    return ET.fromstring(bar_chart("Speed", "two cores", bars))  # noqa: S314 - our own text


def _of_class(chart: ET.Element, tag: str, kind: str) -> list[ET.Element]:
    return [found for found in chart.iter(f"{SVG}{tag}") if found.get("class") == kind]


def test_bars_are_as_long_as_their_values():
    drawn = _of_class(_parsed(*_bars(1.0, 2.0, 8.0)), "rect", "bar")
    lengths = [float(bar.attrib["width"]) for bar in drawn]
    assert lengths == pytest.approx([lengths[0], 2 * lengths[0], 8 * lengths[0]], abs=0.2)
    assert {bar.attrib["x"] for bar in drawn} == {str(LEFT)}


def test_the_longest_line_ends_on_the_scale():
    bar = Bar("peer", "", 3.0, 2.0, 14.2, "")
    line = _of_class(_parsed(bar), "line", "spread")[0]
    assert LEFT < float(line.attrib["x1"]) < float(line.attrib["x2"]) <= RIGHT


def test_rows_do_not_overlap_and_lie_on_the_page():
    chart = _parsed(*_bars(1.0, 2.0, 3.0))
    tops = [float(bar.attrib["y"]) for bar in _of_class(chart, "rect", "bar")]
    assert tops[0] >= TOP
    assert min(after - before for before, after in pairwise(tops)) > 20
    assert chart.attrib["viewBox"] == f"0 0 {WIDTH} {chart.attrib['height']}"
    assert tops[-1] < float(chart.attrib["height"])


def test_a_label_may_have_any_character():
    label = _of_class(_parsed(Bar('a < b & "c"', "", 1.0, 1.0, 1.0, "")), "text", "label")[0]
    assert label.text == 'a < b & "c"'


def test_dark_has_a_colour_of_its_own_for_all_that_has_one_in_light():
    style = _parsed(*_bars(1.0)).find(f"{SVG}style").text
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    coloured = re.compile(r"(\S+) \{[^}]*?(?:fill|stroke): #[0-9a-f]{6}")
    assert set(coloured.findall(light)) == set(coloured.findall(dark)) != set()


def test_a_value_beyond_every_scale_is_refused():
    with pytest.raises(ValueError, match="too large"):
        bar_chart("", "", _bars(1e9))
