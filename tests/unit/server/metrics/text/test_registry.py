from __future__ import annotations

import pytest
from judged_server import errors
from judged_server.metrics.text.metrics import TEXT_METRICS, parse_text_metrics


def test_names_are_those_of_the_contract():
    assert list(TEXT_METRICS) == ["bleu", "rouge1", "rouge2", "rougeL", "token_f1", "exact_match"]
    assert all(metric.description and metric.reference for metric in TEXT_METRICS.values())


def test_metrics_come_in_the_order_asked_for():
    names = ["rougeL", "bleu"]
    assert [metric.name for metric in parse_text_metrics(names)] == names


@pytest.mark.parametrize(
    ("names", "field", "words"),
    [
        ([], "metrics", "at least one"),
        (["bleu", "rougel"], "metrics[1]", "did you mean rougeL?"),
        (["f1"], "metrics[0]", "this server has bleu"),
        (["x" * 5000], "metrics[0]", "no text metric"),
        (["bleu", "rouge1", "bleu"], "metrics[2]", "again, as in metrics[0]"),
        (["bleu"] * 101, "metrics", "101 metrics"),
    ],
)
def test_bad_names_are_refused_with_their_place(names, field, words):
    with pytest.raises(errors.InvalidField) as caught:
        parse_text_metrics(names)
    assert caught.value.field == field
    assert words in caught.value.message
    assert len(caught.value.message) < 300


def test_an_unknown_name_is_cut_at_forty_letters_and_the_nearest_is_proposed():
    name = "x" * 45
    with pytest.raises(errors.InvalidField) as caught:
        parse_text_metrics([name])
    known = ", ".join(TEXT_METRICS)
    assert caught.value.rule == f"no text metric is called '{'x' * 40}' (this server has {known})"
    with pytest.raises(errors.InvalidField, match=r"did you mean rouge2\?"):
        parse_text_metrics(["rouge_2"])
