"""The HTML page of a report: what is in the file. How it behaves is up to a browser's test."""

import base64
import json
import re
import zlib

from judged.report import html, make_report, to_html
from judged.report.content import worst_first

from tests.fakes.result_documents import HOSTILE, comparison, hostile_document, result_document

SHOWN = "<script>window.owned = 1</script></script>\u2400<b>&amp;{{7*7}}\"'`--><!--\u241b[31m\ufffd"


def packed(page):
    data = re.search(r'id="data">([^<]*)<', page)[1]
    return json.loads(zlib.decompress(base64.b64decode(data)))


class TestPage:
    def test_texts_of_the_worst_fill_the_room(self, monkeypatch):
        monkeypatch.setattr(html, "MOST_TEXT", 100_000)
        report = make_report(result_document(300))
        page = to_html(report)
        content = packed(page)
        kept = len(content["details"])
        assert 0 < kept < len(content["ids"]) == 300
        assert f"the texts of {kept} of 300 queries" in page
        assert content["ids"] == [query.query_id for query in worst_first(report.run)]
        assert len(json.dumps(content["details"])) < 110_000

    def test_only_its_own_script_and_style_may_run(self):
        page = to_html(make_report(result_document(2)))
        policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
        assert policy.startswith("default-src 'none';")
        assert "unsafe" not in policy
        assert "http" not in re.sub(r"http-equiv", "", page)

    def test_hostile_texts_end_no_element(self):
        page = to_html(make_report(hostile_document(), title=HOSTILE))
        page.encode()  # half a character could not be written
        assert "<script>window" not in page
        assert "<b>" not in page
        assert "\0" not in page
        assert page.count("</script>") == 3
        assert packed(page)["queries"] == [SHOWN] * 6

    def test_a_baseline_is_shown_beside_the_run(self):
        rows = [comparison("ndcg@10", 0.05, 0.001), comparison("mrr", -0.06, 0.0004)]
        rows.append(comparison("recall@10", -0.06, 0.06))
        page = to_html(
            make_report(result_document(20, 2), result_document(20, 1), rows, names=("pr", "main"))
        )
        assert "pr beside the baseline main" in page
        cells = re.findall(r'<td class="words[^"]*">([^<]*)</td>', page)
        assert sorted(cells) == sorted(2 * ["better", "worse", "no clear difference"])
        assert packed(page)["runs"] == ["main", "pr"]
