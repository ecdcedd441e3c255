from judged import NegativeMatch, NegativeReport, VerdictCounts
from judged.cli.negatives import negative_warnings, negatives_document

HIT = NegativeReport(3, 1, [NegativeMatch("q7", 4, 0, "d9", 0.9)], VerdictCounts(ok=8, relevant=1))


def test_a_match_is_told_with_its_place():
    (warning,) = negative_warnings(HIT)
    assert warning.startswith("1 of 3 queries with negative answers retrieved one (1 match)")
    assert "'q7' with result 5 ('d9')" in warning


def test_missing_verdicts_are_told():
    (warning,) = negative_warnings(NegativeReport(1, 0, [], VerdictCounts(ok=1, error=2)))
    assert warning == "2 of 3 verdicts on negative answers are missing"
    (warning,) = negative_warnings(NegativeReport(1, 0, [], VerdictCounts(error=1)))
    assert warning == "1 of 1 verdict on negative answers is missing"


def test_nothing_to_tell():
    assert list(negative_warnings(None)) == []
    assert list(negative_warnings(NegativeReport(1, 0, [], VerdictCounts(ok=1)))) == []
    assert negatives_document(None) == {}


def test_the_document_has_the_report():
    document = negatives_document(HIT)["negatives"]
    assert isinstance(document, dict)
    assert (document["queries"], document["queries_hit"]) == (3, 1)
    assert document["matches"] == [
        {"query_id": "q7", "retrieved": 4, "negative": 0, "document_id": "d9", "score": 0.9}
    ]
