"""Text metrics by their rules: values, bounds of work, tokens and stems."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.metrics import TextItem
from judged_server import errors
from judged_server.domain import plain_form, unread_share
from judged_server.metrics.text import formulas
from judged_server.metrics.text import formulas as tokens
from judged_server.metrics.text import metrics as text_metrics
from judged_server.metrics.text.formulas import ANSWER, STEMS, THIRTEEN_A, stem
from judged_server.metrics.text.metrics import (
    TEXT_METRICS,
    measure_texts,
    merge_text_values,
    parse_text_metrics,
)
from judged_server.scheduling.fairness import Abandoned, watched

ALL = tuple(TEXT_METRICS.values())
WORDS = st.sampled_from(["a", "the", "cat", "cats", "sat", "U.S.", "3.5", "-", "", "é", "!"])
TEXTS = st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=20)


def measure(hypothesis: str, *references: str):
    columns = measure_texts([TextItem(hypothesis, references)], ALL)
    return {column.metric.name: column for column in columns}


def test_worked_values():
    both = ("The capital of France is Paris.", "Paris")
    found = measure("Paris is the capital of France.", *both)
    assert found["bleu"].values[0] == 0.29071536848410967
    found = measure("Paris is the capital of France.", both[0])
    values = [found[name].values[0] for name in ("rouge1", "rouge2", "rougeL")]
    assert values == [1.0, pytest.approx(0.6), pytest.approx(0.6667, abs=1e-4)]


@given(TEXTS, st.lists(TEXTS, min_size=1, max_size=4).flatmap(lambda r: st.permutations(r + r[:1])))
def test_neither_the_order_of_references_nor_a_second_copy_matters(hypothesis, references):
    once = measure(hypothesis, *sorted(set(references)))
    for name, column in measure(hypothesis, *references).items():
        assert column.values[0] == pytest.approx(once[name].values[0], abs=0, nan_ok=True)


@given(TEXTS)
def test_a_text_equals_itself(text):
    found = measure(text, text)
    assert found["exact_match"].values[0] == found["token_f1"].values[0] == 1
    # Without letters there is nothing to share, and rouge2 needs two tokens.
    letters = unread_share(text) > 0 or any(c.isalnum() for c in plain_form(text))
    assert found["rouge1"].values[0] == found["rougeL"].values[0] == letters
    some = plain_form(text).strip()
    assert found["bleu"].values[0] == (pytest.approx(1, abs=1e-12) if some else 0) or (
        "<skipped>" in text
    )


@pytest.mark.parametrize(
    ("hypothesis", "reference"), [("", ""), ("", "cat"), ("cat", ""), (" ", "\n"), ("!", "\u2014")]
)
def test_texts_without_tokens_have_their_rule(hypothesis, reference):
    found = measure(hypothesis, reference)
    both_empty = float("cat" not in hypothesis + reference and reference != "\u2014")
    assert found["token_f1"].values[0] == found["exact_match"].values[0] == both_empty
    assert found["token_f1"].scores.tolist() == [[both_empty] * 3]
    for name in ("bleu", "rouge1", "rouge2", "rougeL"):
        assert found[name].values[0] == 0


def test_long_work_ends_when_nobody_waits():
    words = " ".join(str(i) for i in range(3000))
    items = [TextItem(words, [f"{words} x"])] * 20
    looks = iter([False] * 10)
    with pytest.raises(Abandoned):
        watched(lambda: next(looks, True), lambda: measure_texts(items, ALL))


def test_rouge_l_may_compare_as_many_pairs_as_its_bound(monkeypatch):
    items = [TextItem("a b", ["a b"]), TextItem("a", ["b", "c"])]
    monkeypatch.setattr(text_metrics, "MAX_TOKEN_PAIRS", 6)
    (column,) = measure_texts(items, parse_text_metrics(["rougeL"]))
    assert len(column.values) == 2
    monkeypatch.setattr(text_metrics, "MAX_TOKEN_PAIRS", 5)
    with pytest.raises(errors.LimitExceeded) as caught:
        measure_texts(items, parse_text_metrics(["rougeL"]))
    assert caught.value.field == "items[1]"
    assert measure_texts(items, parse_text_metrics(["rouge1"]))


def test_items_without_a_value_are_in_no_mean():
    bleu = parse_text_metrics(["bleu"])
    (column,) = merge_text_values(bleu, [np.array([1.0, math.nan, 0.5])])
    assert (column.mean, len(column.known), len(column.values)) == (0.75, 2, 3)
    (column,) = merge_text_values(bleu, [np.array([math.nan])])
    assert math.isnan(column.mean)


@pytest.mark.parametrize(
    ("hypothesis", "references", "values", "unread"),
    [
        # Each is of a script that rouge does not read.
        ("北京是中国的首都", ["北京是中国的首都"], (1, 1, 1, 1), {"rougeL", "bleu", "token_f1"}),
        ("दिल्ली भारत की राजधानी है", ["दिल्ली भारत की राजधानी है"], (1, 1, 1, 1), {"rougeL"}),
        ("القاهرة عاصمة مصر", ["القاهرة عاصمة مصر"], (1, 1, 1, 1), {"rougeL"}),
        ("中国的首都是北京", ["北京是中国的首都"], (None, 0, 0, 0), {"rougeL", "bleu", "token_f1"}),
        ("首都是北京。", ["首都是北京"], (None, 0, 0, 0), {"rougeL", "bleu", "token_f1"}),
        ("བོད་ཀྱི་རྒྱལ་ས།", ["རྒྱལ་ས"], (None, 0, 0, 0), {"rougeL", "bleu", "token_f1"}),
        ("Столица - Париж", ["Париж"], (None, 0.2752, 2 / 3, 0), {"rougeL"}),
        ("서울은 한국의 수도", ["수도는 서울"], (None, 0, 0, 0), {"rougeL"}),
        ("👍", ["👎"], (None, 0, 0, 0), {"rougeL"}),
        ("Paris", ["Париж"], (None, 0, 0, 0), {"rougeL"}),
        ("Париж", ["Paris"], (None, 0, 0, 0), {"rougeL"}),
        # And these are read, if not all of them.
        ("Paris", ["Париж", "Paris"], (1, 1, 1, 1), set()),
        ("Berlin Берлин", ["Berlin"], (1, 0.5, 2 / 3, 0), {"rougeL"}),
        ("Die Größe", ["Die Größe"], (1, 1, 1, 1), set()),
        ("", ["Paris"], (0, 0, 0, 0), set()),
        ("", ["Париж"], (0, 0, 0, 0), {"rougeL"}),
        ("Париж", [""], (0, 0, 0, 0), {"rougeL"}),
        ("...", ["Paris"], (0, 0, 0, 0), set()),
    ],
)
def test_what_a_metric_does_not_read_has_no_value(hypothesis, references, values, unread):
    found = measure(hypothesis, *references)
    names = ("rougeL", "bleu", "token_f1", "exact_match")
    expected = [math.nan if value is None else value for value in values]
    got = [found[name].values[0] for name in names]
    assert got == pytest.approx(expected, abs=1e-4, nan_ok=True)
    assert {name for name in names if found[name].unread} == unread


SEQUENCES = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.sampled_from([str(i) for i in range(n)]), max_size=40)
)


def by_table(first: list[str], second: list[str]) -> int:
    above = [0] * (len(second) + 1)
    for one in first:
        row = [0]
        for j, other in enumerate(second):
            row.append(above[j] + 1 if one == other else max(above[j + 1], row[j]))
        above = row
    return above[-1]


@pytest.mark.parametrize("bits", [16_384, 1, 5, 64])
@given(first=SEQUENCES, second=SEQUENCES)
def test_lengths_are_those_of_the_table(bits, first, second):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formulas, "BLOCK_BITS", bits)
        assert formulas.lcs_length(first, second) == by_table(first, second)


def test_long_texts_end_when_nobody_waits():
    first = [str(i % 7 * (i % 3)) for i in range(20_000)]
    second = [str(i % 5 * (i % 4)) for i in range(20_000)]
    looks = iter([False] * 5)
    with pytest.raises(Abandoned):
        watched(lambda: next(looks, True), lambda: formulas.lcs_length(first, second))
    assert formulas.lcs_length(first, first[::2]) == 10_000


ODD_TEXTS = st.text(alphabet="aBthe 1.,-'\u2019\t\n\u00a0é<&;!", max_size=60)


def split(text, form):
    return tokens.TokenStore(form).of(text)


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        (THIRTEEN_A, "It's 3.5%, (U.S.)", ["It's", "3.5", "%", ",", "(", "U", ".", "S", ".", ")"]),
        (THIRTEEN_A, "1...5 a..5 2-3 x-y", [*"1..", ".5", *"a.", ".5", *"2-3", "x-y"]),
        (THIRTEEN_A, "co-\noperate &amp; <skipped>go", ["cooperate", "&", "go"]),
        (STEMS, "Cats' relational 2.5 the flies", ["cat", "relat", "2", "5", "the", "fli"]),
        (ANSWER, "The U.S. an-x l\u2019a!", ["us", "anx", "l\u2019"]),
    ],
)
def test_forms(form, text, expected):
    assert split(text, form) == expected


@pytest.mark.parametrize("form", [THIRTEEN_A, STEMS, ANSWER], ids=lambda form: form.name)
@given(text=ODD_TEXTS)
def test_cutting_a_text_changes_nothing(form, text):
    whole = split(text, form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokens, "_WORDS_AT_ONCE", 2)
        patch.setattr(tokens, "MAX_KEPT_WORDS", 2)
        assert split(text, form) == whole


PAIRS = """caresses caress  ponies poni  ties tie  cats cat  feed feed  agreed agre
    plastered plaster
    motoring motor  sing sing  conflated conflat  troubled troubl  sized size  hopping hop
    falling fall  hissing hiss  failing fail  filing file  happy happi  sky sky  enjoy enjoy
    relational relat  conditional condit  digitizer digit  conformabli conform
    vietnamization vietnam  triplicate triplic  formative form  electrical electr
    hopeful hope  goodness good  revival reviv  adjustment adjust  adoption adopt
    probate probat  rate rate  cease ceas  controll control  roll roll  dying die  news news
    geologi geolog  by by  is is"""
CASES = PAIRS.split()


def test_the_papers_examples():
    assert [stem(word) for word in CASES[::2]] == CASES[1::2]
