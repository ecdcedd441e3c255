"""What is said of asking language models."""

from dataclasses import replace

from judged import Status, Verdicts
from judged.cli.tables import describe_usage, detail_document, usage_document, vote_warnings
from judged.values import JudgeIdentity, Usage, VerdictDetail, VerdictSample

IDENTITY = JudgeIdentity("llm", "", 0.5, "llm|v1", "", "")


class TestUsage:
    def test_is_one_line(self):
        line = describe_usage(Usage(1, 2, 30, 4, 0.00123, 1.0))
        assert line == "1 call answered in 2 tries, 30 input and 4 output tokens, cost 0.00123"

    def test_without_a_price_there_is_no_cost(self):
        assert describe_usage(Usage(2, 1, 0, 0, None)).startswith("2 calls answered in 1 try,")
        assert "cost" not in describe_usage(Usage(cost=None))

    def test_is_in_the_document_when_somebody_was_asked(self):
        assert usage_document(None) == {}
        assert usage_document(Usage(cost=None))["usage"]["cost"] is None


def test_votes_on_both_sides_are_a_warning():
    columns = [True] * 3, [1.0] * 3, [1, 1, 3], [1] * 3, [0] * 3
    verdicts = Verdicts(*columns, [0, 3], {}, IDENTITY, agreement=[1.0, 2 / 3, 0.0])
    (warning,) = vote_warnings(verdicts)
    assert warning.startswith("1 of 3 verdicts has votes on both sides")
    (warning,) = vote_warnings(replace(verdicts, agreement=[0.5, 2 / 3, 0.0]))
    assert warning.startswith("2 of 3 verdicts have votes on both sides")


def test_the_document_of_a_detail_names_statuses():
    sample = VerdictSample(Status.ABSTAINED, None, None, "REFUSED", "", "no")
    document = detail_document(VerdictDetail("", [sample], Usage(), "m", ""))
    assert document["samples"][0]["status"] == "ABSTAINED"
    assert document["samples"][0]["score"] is None
