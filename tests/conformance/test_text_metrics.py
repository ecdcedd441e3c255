"""Our text metrics against sacrebleu and rouge_score, to the last bit, and SQuAD's definition."""

from __future__ import annotations

import logging
import random
import re
import string
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from judged.values.metrics import TextItem
from judged_server.domain import plain_form, unread_share
from judged_server.metrics.text.formulas import stem
from judged_server.metrics.text.metrics import measure_texts, parse_text_metrics

from tests.conformance import prose

BLEU = pytest.importorskip("sacrebleu.metrics").BLEU(effective_order=True)
ROUGES = ["rouge1", "rouge2", "rougeL"]
SUFFIX_LIST = """s es ies ied ed ing eed at bl iz ational tional enci anci izer bli abli alli entli
    eli
    ousli ization ation ator alism iveness fulness ousness aliti iviti biliti fulli logi icate ative
    alize iciti ical ful ness al ance ence er ic able ible ant ement ment ent ion sion tion ou ism
    ate iti ous ive ize e ll y ly"""
SUFFIXES = SUFFIX_LIST.split()
ODD_PIECES = [
    *"..,,,--115a b\t\n'&;<>\"_~{[`/:é\u00a0\u2003٣ßΣ",
    "<skipped>",
    "-\n",
    "&quot;",
    "&amp;",
    "&lt;",
    "&gt;",
    "\r\n",
    "\x1c",
    "\x85",
    "\u212a",
    "İ",
]


@pytest.fixture(scope="module")
def rouge():
    logging.getLogger("absl").setLevel(logging.ERROR)
    return pytest.importorskip("rouge_score.rouge_scorer").RougeScorer(ROUGES, use_stemmer=True)


def odd_text(rng: random.Random) -> str:
    """Return odd pieces in the form in which texts are compared: in others the oracles differ."""
    alphabet = rng.sample(ODD_PIECES, k=rng.randint(1, 8)) if rng.random() < 0.7 else ODD_PIECES
    return plain_form("".join(rng.choice(alphabet) for _ in range(rng.randint(0, 12))))


def alter(words: Sequence[str], rng: random.Random) -> str:
    kept = [word for word in words if rng.random() > 0.15]
    for _ in range(len(kept) // 8):
        kept[rng.randrange(len(kept))] = rng.choice(prose.words())
    return " ".join(kept)


def items(n: int, seed: int) -> list[TextItem]:
    """Real passages against altered ones, odd texts, short texts; one to four references."""
    rng = random.Random(seed)
    words = prose.words()
    made = []
    for _ in range(n):
        references = rng.choice([1, 1, 1, 2, 4])
        if rng.random() < 0.3:
            made.append(TextItem(odd_text(rng), [odd_text(rng) for _ in range(references)]))
            continue
        start, length = rng.randrange(len(words) - 40), rng.randint(1, 40)
        passage = words[start : start + length]
        made.append(TextItem(alter(passage, rng), [alter(passage, rng) for _ in range(references)]))
    return made


def unreadable(text: str) -> bool:
    return unread_share(text) > 0 and not re.search("[a-z0-9]", text.lower())


def columns(texts: Sequence[TextItem], names: Sequence[str]):
    return measure_texts(texts, parse_text_metrics(names))


def test_bleu_is_sacrebleus_to_the_last_bit():
    texts = items(6_000, 1)
    (ours,) = columns(texts, ["bleu"])
    for item, value in zip(texts, ours.values, strict=True):
        theirs = BLEU.sentence_score(item.hypothesis, item.references).score / 100
        assert value == (1.0 if theirs > 1 else theirs), item


def test_rouge_is_rouge_scores_to_the_last_bit(rouge):
    texts = items(4_000, 2)
    ours = columns(texts, ROUGES)
    for i, item in enumerate(texts):
        theirs = rouge.score_multi(item.references, item.hypothesis)
        for name, column in zip(ROUGES, ours, strict=True):
            expected = theirs[name]
            if unreadable(item.hypothesis) or all(map(unreadable, item.references)):
                assert expected.fmeasure == 0, (name, item)
                continue  # ours is none, or 1 for equal texts
            assert column.values[i] == expected.fmeasure, (name, item)
            assert column.scores[i, 1] == expected.precision, (name, item)
            assert column.scores[i, 2] == expected.recall, (name, item)


def test_long_texts_are_counted_as_short_ones_are(monkeypatch):
    from judged_server.metrics.text import formulas
    from judged_server.metrics.text import formulas as tokens

    texts = [*items(400, 3), TextItem("", ["", "a"]), TextItem("a b c", [""] * 3)]
    names = ["bleu", *ROUGES, "token_f1", "exact_match"]
    short = columns(texts, names)
    monkeypatch.setattr(formulas, "LONG_TOKENS", -1)
    monkeypatch.setattr(formulas, "_CHUNK", 7)
    monkeypatch.setattr(formulas, "BLOCK_BITS", 5)
    monkeypatch.setattr(formulas, "_STEP", 3)
    monkeypatch.setattr(tokens, "_WORDS_AT_ONCE", 2)
    long = columns(texts, names)
    for ours, same in zip(short, long, strict=True):
        np.testing.assert_array_equal(ours.values, same.values, ours.metric.name)


def test_stems_are_nltks():
    theirs = pytest.importorskip("nltk.stem.porter").PorterStemmer()
    rng = random.Random(6)
    data = Path(__file__).parents[2] / "benchmarks" / "demo" / "data" / "passages.jsonl"
    text = " ".join([*prose.words(), data.read_text(encoding="utf-8")]).lower()
    shipped = sorted(set(re.findall("[a-z0-9]+", text)))
    words = set(shipped)
    for _ in range(15_000):
        letters = "aeiouybcdlstwxz0" if rng.random() < 0.5 else string.ascii_lowercase
        word = "".join(rng.choices(letters, k=rng.randint(1, 6)))
        words.add(word + "".join(rng.choices(SUFFIXES, k=rng.randint(0, 3))))
        words.add(rng.choice(shipped) + rng.choice(SUFFIXES))
    assert len(words) > 25_000
    assert [word for word in words if stem(word) != theirs.stem(word)] == []


def squad_tokens(text: str) -> list[str]:
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def squad_f1(hypothesis: str, reference: str) -> float:
    ours, gold = squad_tokens(hypothesis), squad_tokens(reference)
    if not ours or not gold:
        return float(ours == gold)
    same = sum((Counter(ours) & Counter(gold)).values())
    if not same:
        return 0.0
    precision, recall = same / len(ours), same / len(gold)
    return 2 * precision * recall / (precision + recall)


def test_token_f1_and_exact_match_follow_squads_definition():
    extra = ["The", "a", "an", "the.", "l\u2019a", "A-b", "--", "a\u2019the", "Σ.Σ"]
    rng = random.Random(7)
    texts = items(2_000, 8)
    for _ in range(2_000):
        texts.append(
            TextItem(" ".join(rng.choices(extra, k=rng.randint(0, 4))), [rng.choice(extra)])
        )
    f1, exact = columns(texts, ["token_f1", "exact_match"])
    for i, item in enumerate(texts):
        assert f1.values[i] == max(squad_f1(item.hypothesis, r) for r in item.references), item
        tokens = squad_tokens(item.hypothesis)
        assert exact.values[i] == any(tokens == squad_tokens(r) for r in item.references), item
