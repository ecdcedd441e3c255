# ruff: noqa: RUF001 - letters that look alike are what is tested
"""Texts that look the same to a reader are the same, to the lexical judges and to metrics."""

from __future__ import annotations

import unicodedata

import pytest
from judged.values.metrics import TextItem
from judged_server.metrics.text.metrics import measure_texts, parse_text_metrics

from tests.unit.server.judges.reference import judge_of, one

SAME = {
    "NFD sentence": (
        "Le café près de l'hôtel est fermé à Noël",
        unicodedata.normalize("NFD", "Le café près de l'hôtel est fermé à Noël"),
    ),
    "NFD word": ("Café", "Cafe\u0301"),
    "NFD Korean": ("서울은 한국의 수도", unicodedata.normalize("NFD", "서울은 한국의 수도")),
    "full width": ("ABC 123", "ＡＢＣ\u3000１２３"),
    "ligatures": ("the office file is fine", "the oﬃce ﬁle is ﬁne"),
    "soft hyphens": ("information retrieval", "infor\u00admation re\u00adtrieval"),
    "zero width spaces": (
        "information retrieval systems",
        "information\u200bretrieval\u200bsystems",
    ),
    # And of the same kind:
    "NFD Vietnamese": (
        "Thủ đô của Việt Nam là Hà Nội",
        unicodedata.normalize("NFD", "Thủ đô của Việt Nam là Hà Nội"),
    ),
    "byte order mark": ("the capital is Paris", "\ufeffthe capital is Paris"),
    "zero width joiners": ("the capital is Paris", "the cap\u200dital is\u2060 Par\u200cis"),
    "marks of direction": ("the capital is Paris", "\u202athe capital is \u200eParis\u202c"),
    "Arabic presentation forms": ("لا إله", "ﻻ ﺇﻟﻪ"),
    "half-width kana": ("ガスの会社", "ｶﾞｽの会社"),
    "Kangxi radicals": ("一人の日本人", "⼀⼈の⽇本⼈"),
    "mathematical letters": ("the big sale", "𝐭𝐡𝐞 𝒃𝒊𝒈 𝖘𝖆𝖑𝖊"),
    "long s and Roman numerals": ("Congress must act IV", "Congreſs muſt act Ⅳ"),
    "hyphens": ("a well-known co-op", "a well\u2011known co\u2010op"),
    "narrow spaces": ("12 000 km", "12\u202f000\u2009km"),
    "emoji as text or picture": ("done ✔ well", "done ✔\ufe0f well"),
    "Khmer with spaces of no width": ("ភ្នំពេញជារាជធានី", "ភ្នំពេញ\u200bជា\u200bរាជធានី"),
}
OTHER = {
    "an exponent": ("it is 10² times", "it is 102 times"),
    "a fraction": ("take 1½ cups", "take 11\u20442 cups"),
    "an accent": ("the résumé", "the resume"),
    "regions": (
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    ),
}
JUDGES = [
    ("exact", "normalized"),
    ("token_overlap", "classic"),
    ("token_overlap", "weighted"),
    ("token_overlap", "unicode"),
]


@pytest.mark.parametrize(("kind", "profile"), JUDGES)
@pytest.mark.parametrize("name", SAME)
def test_the_same_text_is_relevant(name: str, kind: str, profile: str) -> None:
    one_text, other = SAME[name]
    assert one(judge_of(kind, profile), one_text, other) == 1
    assert one(judge_of(kind, profile), other, one_text) == 1


@pytest.mark.parametrize("name", OTHER)
def test_another_text_is_not_exact(name: str) -> None:
    assert one(judge_of("exact", "normalized"), *OTHER[name]) == 0


@pytest.mark.parametrize("name", SAME)
def test_verbatim_compares_byte_for_byte(name: str) -> None:
    assert one(judge_of("exact", "verbatim"), *SAME[name]) == 0


@pytest.mark.parametrize("name", SAME)
def test_metrics_of_the_same_text_are_those_of_one_text(name: str) -> None:
    one_text, other = SAME[name]
    names = ["bleu", "rouge1", "rougeL", "token_f1", "exact_match"]
    items = [TextItem(other, [one_text]), TextItem(one_text, [one_text])]
    values = [c.values.tolist() for c in measure_texts(items, parse_text_metrics(names))]
    assert [value[0] for value in values] == [value[1] for value in values]
    assert [value[0] for value in values] == pytest.approx([1] * 5)
