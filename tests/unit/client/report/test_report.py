"""Reports of result documents as Markdown and JUnit XML, and what they call a failure."""

import re

import pytest
from judged.report import NoResultDocument, make_report, to_junit, to_markdown
from judged.report.content import Kind, kinds_of, read_run

from tests.fakes.junit import read_junit
from tests.fakes.result_documents import (
    HOSTILE,
    comparison,
    hostile_document,
    result_document,
)

SHOWN = "<script>window.owned = 1</script></script>\u2400<b>&amp;{{7*7}}\"'`--><!--\u241b[31m\ufffd"


def with_results(*results):
    """A query whose results have these fields, best rank first."""
    document = result_document(1)
    plain = {"document_id": "d", "status": "OK", "relevant": False, "score": 0.1}
    document["queries"][0]["retrieved"] = [plain | result for result in results]
    return read_run(document).queries[0]


class TestKinds:
    @pytest.mark.parametrize(
        ("results", "first_hit", "kinds"),
        [
            ([{}, {}], 0, Kind.NOTHING_RELEVANT),
            ([{}, {}, {"relevant": True}], 3, Kind(0)),
            ([{}, {}, {}, {"relevant": True}], 4, Kind.LOW),
            ([{}, {"duplicate": True}, {"relevant": True}], 2, Kind(0)),
            ([{}, {"status": "ERROR", "relevant": None}], 0, Kind.JUDGE_MISSING),
            ([{}, {"status": "ABSTAINED", "relevant": None}], 0, Kind.JUDGE_MISSING),
            ([{"relevant": True, "agreement": 0.67}], 1, Kind.JUDGES_DISAGREE),
        ],
    )
    def test_follow_from_the_results(self, results, first_hit, kinds):
        query = with_results(*results)
        assert (query.first_hit, kinds_of(query)) == (first_hit, kinds)


class TestMarkdown:
    def test_markup_stays_text(self):
        text = to_markdown(make_report(hostile_document(), title=HOSTILE))
        assert not re.search(r"(?<!\\)[<>]", text)
        assert "\0" not in text

    def test_nobody_is_called(self):
        document = result_document(3, fails=True)
        document["queries"][0]["query"] = "what does @octocat say at https://example.com"
        text = to_markdown(make_report(document))
        assert "@octocat" not in text
        assert "https://" not in text


class TestJUnit:
    def test_a_worse_metric_is_a_failure_a_better_one_is_not(self):
        rows = [comparison("ndcg@10", 0.05, 0.001), comparison("mrr", -0.06, 0.0004)]
        report = make_report(result_document(9, 2), result_document(9, 1), rows)
        root = read_junit(to_junit(report))
        assert root.find("testsuite").get("failures") == "1"

    def test_hostile_texts_leave_it_well_formed(self):
        root = read_junit(to_junit(make_report(hostile_document(), title=HOSTILE)))
        assert root.find("testsuite").get("name") == SHOWN


class TestDocuments:
    @pytest.mark.parametrize("document", [None, 1, [], {}, {"metrics": {}}, {"verdicts": []}])
    def test_another_document_is_refused(self, document):
        with pytest.raises(NoResultDocument, match=r"must be an object|judged evaluate --json"):
            make_report(document)

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"metrics": {"mrr": {"mean": "high"}}}, "metrics.mrr has 'mean' that is not a number"),
            ({"queries": [{"retrieved": [7]}]}, "queries[0].retrieved[0] must be an object"),
            ({"warnings": "none"}, "has 'warnings' that is not a list but text"),
        ],
    )
    def test_a_field_of_the_wrong_type_is_named(self, change, told):
        with pytest.raises(NoResultDocument) as caught:
            make_report(result_document(1) | change)
        assert str(caught.value).startswith(f"document: {told}")
