"""Groups of real English prose, the same for a seed and an interpreter.

The prose is what CPython carries: the language reference behind `help()` and the docstrings of the
standard library.
"""

from __future__ import annotations

import ast
import functools
import pydoc_data.topics
import random
import re
import sysconfig
from dataclasses import dataclass
from pathlib import Path

PASSAGE_WORDS = 100

DOCUMENTED_MODULES = """argparse decimal difflib doctest email/message fractions heapq inspect
    logging/__init__ mailbox optparse pickle pickletools random shutil statistics subprocess
    tarfile textwrap threading traceback turtle typing unittest/case unittest/mock urllib/request
    zipfile"""

NEGATIONS = ("no", "not", "never", "none", "without", "cannot")
WITHOUT_LETTERS = ("", " ", "\n\t ", "\u00a0\u2003", "...", "?!", "\u2014")
WITHOUT_TOKENS = ("Привет, мир", "日本語の文章です。", "Αθήνα", "ελληνικά κείμενα", "한국어 문장")
SHORT = ("a", "of", "it is", "No.", "not", "42", "\u212a", "x y", "the end", "1.5", "B2")
RECODED = str.maketrans({"k": "\u212a", "i": "\u0130", "e": "é", " ": "\u00a0", "-": "\u2011"})


@dataclass(frozen=True, slots=True)
class Group:
    """One query with its expected and retrieved texts: the cross product is its contexts."""

    query: str
    expected: list[str]
    retrieved: list[str]


@functools.cache
def words() -> list[str]:
    """Return the prose as one list of words, punctuation and case as written."""
    texts = [text for _, text in sorted(pydoc_data.topics.topics.items())]
    library = Path(sysconfig.get_paths()["stdlib"])
    for module in DOCUMENTED_MODULES.split():
        path = library / f"{module}.py"
        if path.exists():
            texts += _docstrings(path.read_text(encoding="utf-8"))
    seen: dict[str, None] = {}
    for text in texts:
        for paragraph in re.split(r"\n\s*\n", text):
            seen.setdefault(" ".join(paragraph.split()))
    return [word for paragraph in seen if _is_prose(paragraph) for word in paragraph.split()]


def build_groups(
    seed: int, queries: int = 1000, retrieved: int = 10, expected: int = 3
) -> list[Group]:
    """Return `queries` groups of `retrieved` x `expected` contexts each."""
    rng = random.Random(seed)
    return [_group(rng, retrieved, expected) for _ in range(queries)]


def _docstrings(source: str) -> list[str]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, documented))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def _is_prose(paragraph: str) -> bool:
    """Tell sentences from grammar rules, tables and examples."""
    if paragraph.count(" ") < 9 or ">>>" in paragraph or "::=" in paragraph:
        return False
    plain = sum(character.isalpha() or character == " " for character in paragraph)
    return plain >= 0.92 * len(paragraph)


def _passage(rng: random.Random, size: int = PASSAGE_WORDS) -> list[str]:
    stream = words()
    length = max(1, round(size * rng.uniform(0.8, 1.2)))
    start = rng.randrange(len(stream) - length)
    return stream[start : start + length]


def _group(rng: random.Random, retrieved: int, expected: int) -> Group:
    # A wide stretch of one place in the prose: its windows share a subject, as rivals in a real
    # ranking do.
    place = _passage(rng, 4 * PASSAGE_WORDS)
    answers = [_window(rng, place) for _ in range(expected)]
    if expected > 1 and rng.random() < 0.5:
        answers[-1] = _reworded(rng, answers[0], rng.uniform(0.2, 0.5))
    if rng.random() < 0.04:
        answers[rng.randrange(expected)] = _passage(rng, 4)
    query = [word for word in rng.choice(answers) if rng.random() < 0.12]
    if rng.random() < 0.3:
        query = _passage(rng, 8)
    results = [_result(rng, answers, place) for _ in range(retrieved)]
    texts = [_odd(rng) if rng.random() < 0.02 else " ".join(answer) for answer in answers]
    return Group(" ".join(query), texts, results)


def _window(rng: random.Random, place: list[str]) -> list[str]:
    length = min(len(place), round(PASSAGE_WORDS * rng.uniform(0.8, 1.2)))
    start = rng.randrange(len(place) - length + 1)
    return place[start : start + length]


def _result(rng: random.Random, answers: list[list[str]], place: list[str]) -> str:
    answer = rng.choice(answers)
    draw = rng.random()
    if draw < 0.40:
        return " ".join(_passage(rng))
    if draw < 0.55:
        return " ".join(_window(rng, place))
    if draw < 0.85:
        # Around .4 of the words replaced leaves an overlap near .6, around .6 one near .45.
        return " ".join(_reworded(rng, answer, rng.choice((0.3, 0.4, 0.5, 0.6)), 0.08))
    if draw < 0.88:
        return _respelled(rng, " ".join(answer))
    if draw < 0.92:
        return _embedded(rng, answer)
    if draw < 0.96:
        return _negated(rng, answer)
    if draw < 0.98:
        return " ".join(_reworded(rng, answer, 0.3)).translate(RECODED)
    return _odd(rng)


def _reworded(rng: random.Random, source: list[str], rate: float, spread: float = 0.0) -> list[str]:
    """Replace or drop a share of the words."""
    rate += rng.uniform(-spread, spread)
    stream = words()
    result: list[str] = []
    for word in source:
        if rng.random() >= rate:
            result.append(word)
        elif rng.random() < 0.7:
            result.append(stream[rng.randrange(len(stream))])
    return result


def _respelled(rng: random.Random, text: str) -> str:
    """Change what normalisation undoes, or nearly: case, white space, outer punctuation."""
    spaces = (" ", "  ", "\n", " \t", "\u00a0", "\u2028", "\x1f", "\u3000")
    return rng.choice(
        (
            text,
            text.upper(),
            text.title(),
            rng.choice(spaces) + text.replace(" ", rng.choice(spaces)) + rng.choice(spaces),
            text.replace("k", "\u212a"),
            text.replace("i", "\u0130"),
            f"({text})",
            text.replace(",", ""),
        )
    )


def _embedded(rng: random.Random, answer: list[str]) -> str:
    """Put the answer inside a longer text, or return a piece of it, often cut inside a word."""
    text = " ".join(answer)
    if rng.random() < 0.5:
        before, after = " ".join(_passage(rng, 15)), " ".join(_passage(rng, 15))
        glue = rng.choice((" ", "", "x", "\n"))
        return f"{before}{glue}{text.upper() if rng.random() < 0.5 else text}{glue}{after}"
    start = rng.randrange(len(text))
    piece = text[start : start + rng.choice((3, 10, 40, 200))]
    return piece if rng.random() < 0.7 else piece + rng.choice(("!", "z", " etc", "\u00b7"))


def _negated(rng: random.Random, answer: list[str]) -> str:
    """Add a negation, or take out those that are there; the rest stays close to the answer."""
    kept = _reworded(rng, answer, rng.choice((0.0, 0.1, 0.3)))
    if rng.random() < 0.5:
        return " ".join(word for word in kept if word.lower().strip(".,;:") not in NEGATIONS)
    kept.insert(rng.randrange(len(kept) + 1), rng.choice(NEGATIONS))
    return " ".join(kept)


def _odd(rng: random.Random) -> str:
    """Return a text with little or nothing in it."""
    return rng.choice(rng.choice((WITHOUT_LETTERS, WITHOUT_TOKENS, SHORT)))
