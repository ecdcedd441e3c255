"""The HTML page of a report: what is in the file. How it behaves is up to a browser's test."""

import base64
import json
import re
import zlib

import pytest
from judged._views import plain
from judged.cli.tables import usage_document
from judged.report import make_report, to_html, to_markdown
from judged.report.content import took, worst_first
from judged.values import CascadeUsage, StageUsage, Usage

from tests.fakes.result_documents import HOSTILE, comparison, hostile_document, result_document

SHOWN = "<script>window.owned = 1</script></script>\u2400<b>&amp;{{7*7}}\"'`--><!--\u241b[31m\ufffd"


def packed(page):
    data = re.search(r'id="data">([^<]*)<', page)[1]
    return json.loads(zlib.decompress(base64.b64decode(data)))


class TestPage:
    @pytest.mark.parametrize("room", [0, 20_000, 60_000])
    def test_texts_of_the_worst_fill_the_room(self, room):
        report = make_report(result_document(300))
        page = to_html(report, room)
        content = packed(page)
        kept = len(content["details"])
        assert len(content["ids"]) == 300
        assert kept == 0 if room == 0 else 0 < kept < 300
        assert f"the texts of {kept} of 300 queries" in page
        ids = [content["strings"][number] for number in content["ids"]]
        assert ids == [query.query_id for query in worst_first(report.run)]
        columns = to_html(report, 0)
        assert len(page) <= len(columns) + room

    def test_1000_queries_take_500_kb_at_most(self):
        assert len(to_html(make_report(result_document(1000))).encode()) <= 500_000

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
        assert SHOWN in packed(page)["strings"]

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


@pytest.mark.parametrize(
    "usage",
    [
        Usage(calls=3),
        Usage(calls=3, cost=None, left_out=("logprobs",)),
        Usage(calls=3, cascade=CascadeUsage((StageUsage("exact", 9, 4, None),))),
        Usage(calls=3, latency_s=6.0),
    ],
)
@pytest.mark.parametrize("write", [plain, lambda usage: usage_document(usage)["usage"]])
def test_what_language_models_took_is_shown_whatever_else_the_document_says_of_it(usage, write):
    usage_of = json.loads(json.dumps(write(usage)))
    report = make_report(result_document(2) | {"usage": usage_of})
    told = dict(took(report.run))
    assert told["calls answered"] == "3"
    assert told["cost"] == ("0" if usage.cost == 0 else "unknown: a price is not configured")
    assert told.get("seconds a call, mean") == ("2.000" if usage.latency_s else None)
    assert "calls answered 3" in to_markdown(report)
    assert "<dt>calls answered</dt>" in to_html(report)
