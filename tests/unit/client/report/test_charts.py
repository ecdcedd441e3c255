"""Charts as SVG."""

import re

from judged.report.charts import Bar, bars


def test_an_interval_that_leaves_the_scale_stays_in_the_picture():
    whole = bars("means", [Bar("a", 0.5, 0.0, 1.0)])
    beyond = bars("means", [Bar("a", 0.5, -0.7, 1.2)])
    drawn = re.compile(r'class="whisker" d="([^"]*)"')
    assert drawn.findall(beyond) == drawn.findall(whole) != []
    assert "[-0.700, 1.200]" in beyond
