"""A scoring in parts: where it is cut, what is asked again, what sums it up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import (
    AnswerItem,
    Asking,
    DeadlineExceeded,
    InternalError,
    InvalidArgument,
    JudgedError,
    Overloaded,
)
from judged._batching import scoring as scoring_module
from judged._batching.scoring import Scoring
from judged._transport.call import Attempts, Deadline, Patience
from judged.v1 import judge_service_pb2 as pb

from tests.fakes.score_service import score_of


def of(items: list[AnswerItem], rubrics=("a",), asking: Asking | None = None, **options) -> Scoring:
    return Scoring(items, rubrics, asking, **options)


def fail(scoring: Scoring, error: JudgedError) -> None:
    """End a message for good."""
    assert scoring.wait_after(error, Attempts(Deadline(60), Patience())) == 0


def scoring(n: int = 3, rubrics=("a", "b"), **options) -> Scoring:
    return of([AnswerItem(str(i), "q", "answer") for i in range(n)], rubrics, **options)


def reply(item_id: str, rubric: str, value: float = 1.0) -> pb.ScoreAnswersResponse:
    return pb.ScoreAnswersResponse(score=score_of(item_id, rubric, value))


class TestCut:
    @given(
        st.lists(st.integers(0, 40), min_size=1, max_size=30),
        st.integers(1, 20),
        st.integers(1, 4),
    )
    def test_parts_hold_every_item_once_in_order_and_within_the_sizes(self, sizes, most, n_rubrics):
        items = [AnswerItem(str(i), answer="x" * size) for i, size in enumerate(sizes)]
        rubrics = [f"r{i}" for i in range(n_rubrics)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scoring_module, "PART_SCORES", most)
            patch.setattr(scoring_module, "PART_BYTES", 50)
            asked = list(of(items, rubrics).requests())
        assert [i.item_id for r in asked for i in r.items] == [i.item_id for i in items]
        for request in asked:
            n = len(request.items)
            assert n == 1 or n * n_rubrics <= most
            assert n == 1 or sum(len(i.item_id + i.answer) for i in request.items) <= 50


class TestPart:
    def test_what_nobody_asked_for_is_a_fault_of_the_server(self):
        part = scoring()
        part.request()
        with pytest.raises(InternalError):
            part.take(reply("7", "a"))
        with pytest.raises(InternalError):
            part.take(reply("0", "c"))

    @pytest.mark.parametrize("came", [[], ["2"]])
    def test_an_error_names_the_item_of_the_whole(self, came, monkeypatch):
        monkeypatch.setattr(scoring_module, "PART_SCORES", 2)
        whole = scoring(5, ["a"])
        whole.request()
        for item_id in "01":
            whole.take(reply(item_id, "a"))
        whole.ended()
        whole.request()
        for item_id in came:
            whole.take(reply(item_id, "a"))
        place = len(whole.request().items) - 1
        wrong = InvalidArgument.of_field(f"items[{place}].contexts[0]", "is too long")
        with pytest.raises(
            InvalidArgument, match=r"^items\[3\]\.contexts\[0\]: is too long"
        ) as caught:
            fail(whole, wrong)
        assert caught.value.field == "items[3].contexts[0]"


class TestMaxCost:
    def test_each_part_gets_what_is_left_and_what_it_took_is_gone(self, monkeypatch):
        items = [AnswerItem(str(i)) for i in range(5)]
        monkeypatch.setattr(scoring_module, "PART_SCORES", 4)
        whole = of(items, ["a", "b"], Asking(max_cost=10.0))
        limits = []
        while not whole.done:
            request = whole.request()
            limits.append(request.asking.max_cost)
            whole.take(reply(request.items[0].item_id, "a"))  # it cost 0.5
            assert whole.request().asking.max_cost == pytest.approx(limits[-1] - 0.5)
            fail(whole, Overloaded("later", code="RESOURCE_EXHAUSTED"))
        assert limits == pytest.approx([10, 9.5, 9])

    def test_a_part_that_failed_may_have_spent_it_all(self, monkeypatch):
        items = [AnswerItem(str(i)) for i in range(3)]
        monkeypatch.setattr(scoring_module, "PART_SCORES", 1)
        whole = of(items, ["a"], Asking(max_cost=10.0))
        limits = []
        while not whole.done:
            limits.append(whole.request().asking.max_cost)
            # One that was turned away has asked nothing, one that was late may have asked all.
            busy = Overloaded("later", code="RESOURCE_EXHAUSTED")
            fail(whole, busy if len(limits) == 1 else DeadlineExceeded("late"))
        assert limits == pytest.approx([10, 10, 1e-12])

    def test_one_part_gets_it_whole(self):
        assert of([AnswerItem("0")], asking=Asking(max_cost=0.1)).request().asking.max_cost == 0.1
