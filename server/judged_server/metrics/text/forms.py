"""The three forms in which texts are compared, each a way from a text to its tokens.

* THIRTEEN_A: the tokens of BLEU, see `tokenizer_13a`.
* STEMS: those of ROUGE. The text in lower case, runs of [a-z0-9], words of more than three letters
  by their stem (`porter_stemmer`); all else only separates. As in rouge_score, after the original
  ROUGE-1.5.5 (Lin 2004).
* ANSWER: those of SQuAD (Rajpurkar et al. 2016). The text in lower case without ASCII punctuation,
  without the words a, an and the, split at white space.

Every form looks at one word at a time, once the whole text is prepared: nothing depends on what
stands on the other side of white space. That is why words can be kept and long texts be cut.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass

from judged_server.metrics.text import porter_stemmer, tokenizer_13a

_WORDS = re.compile(r"[a-z0-9]+")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Form:
    """A way from text to tokens: `prepare` the text, split it at white space, `split` each word."""

    name: str
    prepare: Callable[[str], str]
    split: Callable[[str], list[str]]


def split_stems(word: str) -> list[str]:
    """Return the stems of a word in lower case, which has no white space."""
    return [porter_stemmer.stem(part) if len(part) > 3 else part for part in _WORDS.findall(word)]


def split_answer(word: str) -> list[str]:
    """Return what SQuAD keeps of a word in lower case, which has no white space."""
    return _ARTICLES.sub(" ", word.translate(_WITHOUT_PUNCTUATION)).split()


THIRTEEN_A = Form("13a", tokenizer_13a.prepare, tokenizer_13a.split_word)
STEMS = Form("stems", str.lower, split_stems)
ANSWER = Form("answer", str.lower, split_answer)
