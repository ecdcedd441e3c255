"""The formulas of BLEU, ROUGE, token F1 and exact match, with their tokens and stems.

BLEU counts the tokens of mteval-v13a, as WMT and sacrebleu do. "<skipped>" marks and hyphens at
line ends are removed from a text, and four entities are replaced by their characters. Then, between
white space:

* every ASCII symbol except the apostrophe, hyphen, period and comma is a token of its own;
* so is a period or comma, unless it is between two digits;
* and so is a hyphen after a digit.

These are substitutions in this order. The original applies them to the whole line; here they are
applied to each word, so that the tokens of words can be cached. The result is the same, since no
pattern matches across white space.

Stems are by the algorithm of M. F. Porter, "An algorithm for suffix stripping", Program 14(3),
1980; the step numbers below are the paper's. The extensions are those that the Natural Language
Toolkit documents for its mode NLTK_EXTENSIONS, which rouge_score uses:

* a few irregular words have their stem in a table, and words of one or two letters stay;
* "ies" and "ied" keep their e in words of four letters (dies, tied);
* a final y becomes i only after a consonant that is not the first letter (by, say and enjoy keep
  theirs);
* "bli" replaces "abli"; "fulli" and "logi" are added to step 2, which is applied again after it
  has shortened "alli" to "al";
* a vowel and a consonant that are all the letters count as the ending that takes an e (step 1b).

BLEU is the number that sacrebleu's sentence_bleu prints, divided by 100.

K. Papineni et al., "BLEU: a method for automatic evaluation of machine translation", ACL 2002; the
smoothing is that of mteval-v13a (method 3 of Chen and Cherry, WMT 2014), and orders above the
length of the hypothesis are left out ("effective order").

    bleu = bp * exp(mean over n = 1..N of log p_n),   N = min(4, length of the hypothesis)
    p_n  = clipped matches / n-grams of the hypothesis; without a match, half of what one match
           would give, a quarter the next time, and so on
    bp   = exp(1 - r / h) if h < r, else 1; r is the length of the reference nearest to h in
           length, the shorter of two

Operations and their order are sacrebleu's, so that results agree to the last bit. A hypothesis
without any matching token scores 0, and so do empty texts. A result above 1 by rounding is 1.

ROUGE-1, ROUGE-2 and ROUGE-L are precision, recall, and their harmonic mean.

C.-Y. Lin, "ROUGE: a package for automatic evaluation of summaries", 2004.

    precision = shared / of the hypothesis,   recall = shared / of the reference

where shared are the n-grams that both have, as multisets, or for ROUGE-L the tokens of their
longest common subsequence. Of several references, the first with the largest harmonic mean counts.
A text without n-grams (without tokens, for ROUGE-L) scores 0. Tokens are `STEMS`; operations and
their order are rouge_score's, so that results agree to the last bit. ROUGE-L takes m * n / 30 digit
operations instead of m * n steps: a long row is cut into blocks, and each passes the carries of its
additions to the next (Crochemore et al. 2001), so that neither memory nor a step grows with the
texts.

Token F1 and exact match are those of SQuAD.

P. Rajpurkar et al., "SQuAD: 100,000+ questions for machine comprehension of text", EMNLP 2016, and
for answers without tokens "Know what you don't know", ACL 2018: if either side has no tokens, both
metrics are 1 if the other side has none either, else 0. Tokens are `ANSWER`. The best reference
counts; for precision and recall, the first with the largest F1.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter

import numpy as np

from judged_server.domain import IntArray, plain_form
from judged_server.scheduling.fairness import checkpoint

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SUBSTITUTIONS = (
    (re.compile(r"([ -&(-+/:-@\[-`{-~])"), r" \1 "),
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def prepare(text: str) -> str:
    """Return the text as 13a prepares it for the split at white space."""
    text = text.rstrip().replace("<skipped>", "").replace("-\n", "")
    for entity, character in _ENTITIES:
        text = text.replace(entity, character)
    return text


def split_word(word: str) -> list[str]:
    """Return the tokens of a word, which has no white space."""
    if word.isalnum():
        return [word]
    word = f" {word} "
    for pattern, replacement in _SUBSTITUTIONS:
        word = pattern.sub(replacement, word)
    return word.split()


_WORDS = re.compile(r"[a-z0-9]+")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Form:
    """How a text is tokenized: `prepare` it, split it at white space, and `split` each word.

    Texts are in `plain_form`.
    """

    name: str
    prepare: Callable[[str], str]
    split: Callable[[str], list[str]]


def split_stems(word: str) -> list[str]:
    """Return the stems of a word in lower case without white space."""
    return [stem(part) if len(part) > 3 else part for part in _WORDS.findall(word)]


def split_answer(word: str) -> list[str]:
    """Return the tokens that SQuAD keeps of a word in lower case without white space."""
    return _ARTICLES.sub(" ", word.translate(_WITHOUT_PUNCTUATION)).split()


THIRTEEN_A = Form("13a", prepare, split_word)
STEMS = Form("stems", str.lower, split_stems)
ANSWER = Form("answer", str.lower, split_answer)


Tokens = list[str]

_WORDS_AT_ONCE = 1 << 12
MAX_KEPT_WORDS = 100_000
"""The most words cached, so that odd texts can't fill the memory."""


class TokenStore(dict[str, tuple[str, ...]]):
    """The tokens of a request's texts in one form, cached by word."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self._form = form

    def __missing__(self, word: str) -> tuple[str, ...]:
        if len(self) >= MAX_KEPT_WORDS:
            self.clear()
        tokens = self[word] = tuple(self._form.split(word))
        return tokens

    def of(self, text: str) -> Tokens:
        """Return the tokens of a text."""
        tokens: Tokens = []
        words = self._form.prepare(plain_form(text)).split()
        for begin in range(0, len(words), _WORDS_AT_ONCE):
            tokens += [t for word in words[begin : begin + _WORDS_AT_ONCE] for t in self[word]]
            checkpoint()
        return tokens


_IRREGULAR_FORMS = """
sky: sky skies, die: dying, lie: lying, tie: tying, news: news, inning: inning innings,
outing: outing outings, canning: canning cannings, howe: howe, proceed: proceed,
exceed: exceed, succeed: succeed
"""
_IRREGULAR = {
    form: stem.strip()
    for stem, _, forms in (entry.partition(":") for entry in _IRREGULAR_FORMS.split(","))
    for form in forms.split()
}


def _rules(table: str) -> list[tuple[str, str]]:
    """Return suffixes with their replacements, from a table like "izer ize, ful -"."""
    pairs = (rule.split() for rule in table.split(","))
    return [(suffix, replacement.strip("-")) for suffix, replacement in pairs]


_STEP_2 = _rules("""
ational ate, tional tion, enci ence, anci ance, izer ize, bli ble, entli ent, eli e, ousli ous,
ization ize, ation ate, ator ate, alism al, iveness ive, fulness ful, ousness ous, aliti al,
iviti ive, biliti ble, fulli ful
""")
_STEP_3 = _rules("icate ic, ative -, alize al, iciti ic, ical ic, ful -, ness -")
_STEP_4 = _rules("""
al -, ance -, ence -, er -, ic -, able -, ible -, ant -, ement -, ment -, ent -, ion -, ou -,
ism -, ate -, iti -, ous -, ive -, ize -
""")


def stem(word: str) -> str:
    """Return the stem of a word in lower case; digits and foreign letters count as consonants."""
    if len(word) <= 2 or word in _IRREGULAR:
        return _IRREGULAR.get(word, word)
    word = _past_and_progressive(_plural(word))
    if word[-1:] == "y" and len(word) > 2 and _shape(word[:-1])[-1] == "c":
        word = word[:-1] + "i"  # step 1c
    word = _double_suffix(word)
    word = _replace(word, _STEP_3)
    if not word.endswith("ion") or word.endswith(("sion", "tion")):
        word = _replace(word, _STEP_4, least=1)
    if word.endswith("e"):  # step 5a
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _takes_e(word[:-1])):
            word = word[:-1]
    # Step 5b.
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


def _shape(letters: str) -> str:
    """Return c for every consonant and v for every vowel; y is a vowel after a consonant."""
    shape = ""
    for letter in letters:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(letters: str) -> int:
    """Return Porter's m: the number of times that vowels are followed by consonants."""
    return _shape(letters).count("vc")


def _takes_e(letters: str) -> bool:
    """Return whether letters end as in "hop": consonant, vowel, consonant except w, x and y."""
    shape = _shape(letters)
    return shape == "vc" or (shape[-3:] == "cvc" and letters[-1] not in "wxy")


def _plural(word: str) -> str:
    """Step 1a."""
    if word.endswith("ies") and len(word) == 4:
        return word[:-1]
    if word.endswith(("sses", "ies")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past_and_progressive(word: str) -> str:
    """Step 1b."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    letters = word[:-2] if word.endswith("ed") else word.removesuffix("ing")
    return _mended(letters) if letters != word and "v" in _shape(letters) else word


def _mended(letters: str) -> str:
    """Return the word without "ed" or "ing", repaired: conflat to conflate, hopp to hop."""
    if letters.endswith(("at", "bl", "iz")):
        return letters + "e"
    if letters[-1:] == letters[-2:-1] and _shape(letters)[-1] == "c":
        return letters if letters[-1] in "lsz" else letters[:-1]
    if _measure(letters) == 1 and _takes_e(letters):
        return letters + "e"
    return letters


def _double_suffix(word: str) -> str:
    """Step 2."""
    if word.endswith("alli"):
        return _double_suffix(word[:-2]) if _measure(word[:-4]) > 0 else word
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replace(word, _STEP_2)


def _replace(word: str, rules: list[tuple[str, str]], least: int = 0) -> str:
    """Apply the first rule whose suffix the word has, if more than `least` measures come before."""
    for suffix, replacement in rules:
        if word.endswith(suffix):
            letters = word.removesuffix(suffix)
            return letters + replacement if _measure(letters) > least else word
    return word


Score = tuple[float, ...]
"""The value of one item in [0, 1], with its precision and recall if it has them."""

LONG_TOKENS = 4096
"""Items with more tokens than this are counted by sorting the hashes of their n-grams."""
MAX_ORDER = 4
BLOCK_BITS = 16_384
_CHUNK, _STEP = 1 << 13, 512
_ROUNDING = 1e-9


def bleu(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return the BLEU of 13a tokens against all references together."""
    length, smoothing, matched = len(hypothesis), 1.0, 1
    logs: list[float] = []
    for order in range(1, min(MAX_ORDER, length) + 1):
        if matched:  # a longer n-gram contains this one
            (matched,) = _overlaps(hypothesis, [references], order)
        if not matched and order == 1:
            return (0.0,)
        if not matched:
            smoothing *= 2
        ngrams = length - order + 1
        logs.append(math.log(100.0 * matched / ngrams if matched else 100.0 / (smoothing * ngrams)))
    if not logs:
        return (0.0,)
    nearest = min(map(len, references), key=lambda other: (abs(length - other), other))
    brevity = math.exp(1 - nearest / length) if length < nearest else 1.0
    value = brevity * math.exp(sum(logs) / len(logs)) / 100
    return (1.0 if 1.0 < value < 1.0 + _ROUNDING else value,)


def rouge_n(hypothesis: Tokens, references: Sequence[Tokens], order: int) -> Score:
    """Return ROUGE-1 or ROUGE-2 of stems."""
    shared = _overlaps(hypothesis, [[reference] for reference in references], order)
    return _best(hypothesis, references, shared, order)


def rouge_l(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return ROUGE-L of stems."""
    shared = [lcs_length(hypothesis, reference) for reference in references]
    return _best(hypothesis, references, shared)


def token_f1(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return the harmonic mean of the shares of tokens that both sides have."""
    if not hypothesis:
        return (float(hypothesis in references),) * 3
    return rouge_n(hypothesis, references, 1)


def exact_match(hypothesis: Tokens, references: Sequence[Tokens]) -> Score:
    """Return 1 if the tokens are those of any reference, in order; else 0."""
    return (float(hypothesis in references),)


def _best(
    hypothesis: Tokens, references: Sequence[Tokens], shared: Sequence[int], order: int = 1
) -> Score:
    """Return the largest harmonic mean over references, with its precision and recall."""
    scores = []
    for both, reference in zip(shared, references, strict=True):
        precision, recall = (
            both / max(len(tokens) - order + 1, 1) for tokens in (hypothesis, reference)
        )
        total = precision + recall
        value = 2 * precision * recall / total if total > 0 else 0.0
        scores.append((value, precision, recall))
    return max(scores, key=itemgetter(0))


def _overlaps(hypothesis: Tokens, groups: Sequence[Sequence[Tokens]], order: int) -> list[int]:
    """Return the number of n-grams that the hypothesis shares with each group of references.

    Each counts at most as often as in the reference of the group that has it most often.
    """
    if len(hypothesis) + sum(len(each) + 1 for group in groups for each in group) > LONG_TOKENS:
        ours = _hashed(hypothesis, order)
        return [_shared_hashes(ours, group, order) for group in groups]
    return [_shared(hypothesis, group, order) for group in groups]


def _ngrams(tokens: Tokens, order: int) -> Iterable[Hashable]:
    if order == 1:
        return tokens
    return zip(*[tokens[start:] for start in range(order)], strict=False)


def _shared(hypothesis: Tokens, references: Sequence[Tokens], order: int) -> int:
    """Return the number of n-grams in the references, each at most as often as one of them has it.

    Counting costs several times as much as sets, and is needed only for repeated n-grams.
    """
    distinct = set(_ngrams(hypothesis, order))
    theirs = [_ngrams(reference, order) for reference in references]
    common = distinct.intersection(chain.from_iterable(theirs))
    if len(distinct) > len(hypothesis) - order or not common:  # no n-gram repeats
        return len(common)
    counts = Counter(_ngrams(hypothesis, order))
    repeated = {ngram: n for ngram, n in counts.items() if n > 1 and ngram in common}
    if not repeated:
        return len(common)
    each = [Counter(_ngrams(reference, order)) for reference in references]
    clipped = [min(n, max([count[ngram] for count in each])) for ngram, n in repeated.items()]
    return len(common) - len(repeated) + sum(clipped)


def _hashed(tokens: Tokens, order: int) -> tuple[IntArray, IntArray]:
    """Return the hashes of n-grams, ascending, and their counts: 16 bytes per token.

    The chance that two of a million n-grams share a hash is one in 30 million.
    """
    ngrams = iter(_ngrams(tokens, order))
    parts = [np.zeros(0, np.int64)]
    while len(part := np.fromiter(map(hash, islice(ngrams, _CHUNK)), np.int64)):
        parts.append(part)
        checkpoint()
    hashes, counts = np.unique(np.concatenate(parts), return_counts=True)
    return hashes, counts


def _shared_hashes(
    ours: tuple[IntArray, IntArray], references: Sequence[Tokens], order: int
) -> int:
    """Return the same as `_shared` for the hashed n-grams of a hypothesis."""
    hashes, counts = ours
    most = np.zeros_like(counts)
    for reference in references if len(hashes) else ():
        found, times = _hashed(reference, order)
        at = np.minimum(np.searchsorted(hashes, found), len(hashes) - 1)
        known = hashes[at] == found
        most[at[known]] = np.maximum(most[at[known]], times[known])
        checkpoint()
    return int(np.minimum(counts, most).sum())


def lcs_length(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the number of tokens in the longest common subsequence."""
    # Tokens that the other side lacks are in no common subsequence.
    shared = set(first).intersection(second)
    column, row = sorted(([t for t in text if t in shared] for text in (first, second)), key=len)
    if row == column:
        return len(row)
    carries = bytearray(len(column))  # into the current block, by token of the column
    length = 0
    for start in range(0, len(row), BLOCK_BITS):
        block = row[start : start + BLOCK_BITS]
        masks: dict[str, int] = {}
        for place, token in enumerate(block):
            masks[token] = masks.get(token, 0) | (1 << place)
        width = len(block)
        full = zeros = (1 << width) - 1
        for index, token in enumerate(column):
            if index % _STEP == 0:
                checkpoint()
            mask, carry = masks.get(token, 0), carries[index]
            if mask or carry:
                met = zeros & mask
                total = zeros + met + carry
                carries[index] = total >> width
                zeros = (total & full) | (zeros - met)
        checkpoint()
        length += width - zeros.bit_count()
    return length
