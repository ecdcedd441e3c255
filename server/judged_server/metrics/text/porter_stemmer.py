"""Porter's stemmer with the extensions of NLTK: "relational" and "relate" become "relat".

The algorithm is that of M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980;
the step numbers below are the paper's. The extensions are those that the Natural Language Toolkit
documents for its mode NLTK_EXTENSIONS, which is what rouge_score stems with:

* a few irregular words have their stem in a table, and words of one or two letters stay;
* "ies" and "ied" keep their e in words of four letters (dies, tied);
* a final y becomes i only behind a consonant that is not the first letter (by, say and enjoy keep
  theirs);
* "bli" takes the place of "abli"; "fulli" and "logi" join step 2, and what "alli" leaves is
  looked at again;
* vowel and consonant, when they are the whole word, count as the ending that takes an e (step 1b).
"""

from __future__ import annotations

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
    """Return suffixes with what takes their place, of a table like "izer ize, ful -"."""
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
    """Return c for every consonant and v for every vowel; y is one behind a consonant."""
    shape = ""
    for letter in letters:
        vowel = letter in "aeiou" or (letter == "y" and shape[-1:] == "c")
        shape += "v" if vowel else "c"
    return shape


def _measure(letters: str) -> int:
    """Return Porter's m: how often vowels are followed by consonants."""
    return _shape(letters).count("vc")


def _takes_e(letters: str) -> bool:
    """Say whether letters end as in "hop": consonant, vowel, and a consonant but w, x and y."""
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
    """Return what "ed" or "ing" left, as a word: conflat(ed) to conflate, hopp(ing) to hop."""
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
