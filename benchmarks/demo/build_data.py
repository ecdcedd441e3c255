"""Cut the passages of the demo data set from CPython's own language reference.

The text comes from `pydoc_data.topics`, the plain-text topics behind `help()` of the
running interpreter.  The shipped `data/passages.jsonl` was made with CPython 3.11.7;
that version reproduces it byte for byte.  The evidence in `data/dataset.json` need not
apply to what another version writes.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from pydoc_data.topics import topics

MADE_WITH = "3.11.7"
DEFAULT = Path(__file__).parent / "data" / "passages.jsonl"
LOW, HIGH, LIMIT = 52, 110, 135  # words: minimum to stand alone, soft maximum, hard maximum
CODE_MOST, LEAST = 50, 12  # words: longest example kept, shortest passage kept

# Chapters that repeat other topics come last, so that a shared section keeps its own topic's id.
TOPICS = """
    assert assignment augassign async atom-identifiers atom-literals attribute-access await
    binary bitwise booleans break calls class comparisons context-managers continue
    conversions customization debugger del dict else exceptions exprlists floating for
    formatstrings function global id-classes identifiers if imaginary import in integers
    lambda lists naming nonlocal numeric-types objects operator-summary pass power raise
    return sequence-types shifting slicings string-methods strings subscriptions truth try
    typesfunctions typesmapping typesmethods typesseq-mutable typesseq unary while with
    yield attribute-references callable-types compound execmodel types specialnames
"""

PROSE = re.compile(r"(\d+\.|[IVX]+\.|\*) |[A-Z][a-z]* [a-z]|[A-Z\"*\[(].*[].:;)?!”\"]$", re.DOTALL)
FOLLOWS = re.compile(r"[a-z][a-z,]* |(New|Changed|Deprecated) (in|since) version")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"])|(?<=;) (?=co_)")
# Quoted code may contain strings: "d["x"]", "f(a, "b")", ""ss"".
GROUP = r'(?![(\[{]+"(?!\w))[(\[{](?:[^()\[\]{}]|[(\[{][^()\[\]{}]*[)\]}])*[)\]}]'
INNER = rf'(?<!\w)"[^"\s]+"|""(?= )|{GROUP}|[^"]'
QUOTED = re.compile(rf'(?<![\w"])"((?:{INNER})+|")"(?=[^\w"]|s\b|$)')
LABELS = ("Note:", "See also:", "Warning:")


def size(text: str) -> int:
    """Count the words."""
    return len(text.split())


@dataclass(frozen=True)
class Block:
    """One paragraph, list item, signature or short piece of code."""

    indent: int
    text: str


def plain(text: str) -> str:
    """Undo the decoration of prose: emphasis, code quotes, footnote and list marks."""
    text = " ".join(re.sub(r"(?<=\w)-\n\s*(?=\w)", "-", text).split())
    text = re.sub(r"^(\[\d+\] |\* |Syntax:$)|\s+Syntax:$|\s*\[\d+\](?=[\s.,;:)]|$)", "", text)
    text = re.sub(r"(?<![\w*\"])\*\*([A-Za-z][^*\"=]*[^*\"\s(])\*\*(?![\w*])", r"\1", text)
    text = re.sub(r"(?<![\w*])\*(\w[^*\"]*?)\*(?![\w*])", r"\1", text)
    return QUOTED.sub(r"\1", text).strip()


def sections(source: str) -> Iterator[tuple[str, list[Block]]]:
    """Yield (heading, blocks) for each section of a topic, without grammar and tables."""
    heading, blocks, label = "", list[Block](), ""
    for raw in re.split(r"\n\s*\n", source.strip("\n")):
        lines = raw.strip("\n").split("\n")
        first = lines[0].strip()
        underlined = len(lines) == 2 and re.match(r"([*=\-~])\1{2,}$", lines[1].strip())
        if underlined or first.startswith("-["):
            yield heading, blocks
            heading, blocks = plain(first.strip("-[] ")), []
        elif first in LABELS and len(lines) == 1:
            label = first + " "
        elif not re.search(r"::=|>>>|^\s*(\+-|\| |===)", raw):
            indent = len(lines[0]) - len(lines[0].lstrip())
            code = indent > 0 and ("  #" in raw or not PROSE.match(raw.strip()))
            text = " ".join(raw.split()) if code else plain(raw)
            if text and (not code or size(text) <= CODE_MOST):
                blocks.append(Block(indent, label + text))
            label = ""
    yield heading, blocks


def split_long(block: Block) -> Iterator[Block]:
    """Split a block of more than HIGH words at sentence ends into parts of similar size."""
    target, current = size(block.text) / -(-size(block.text) // HIGH), ""
    for sentence in SENTENCE_END.split(block.text):
        if current and size(current) + size(sentence) / 2 > target:
            yield Block(block.indent, current)
            current = ""
        current = f"{current} {sentence}".strip()
    yield Block(block.indent, current)


def passages(blocks: list[Block]) -> Iterator[str]:
    """Join neighbouring blocks until a passage can stand alone."""
    pieces = [piece for block in blocks for piece in split_long(block)]
    done, current = list[str](), list[str]()
    for piece, after in pairwise([*pieces, Block(0, "")]):
        current.append(piece.text)
        leads = piece.text.endswith(":") or after.indent > piece.indent
        words = size(" ".join(current))
        if words + size(after.text) > LIMIT:
            carried = current[1:][-1:] if leads and size(piece.text) < LEAST else []
            done.append(" ".join(current[: len(current) - len(carried)]))
            current = carried
        elif words >= LOW and not leads and not FOLLOWS.match(after.text):
            done.append(" ".join(current))
            current = []
    tail = " ".join(current)
    if done and size(tail) < LOW and size(f"{done[-1]} {tail}") <= LIMIT:
        tail = f"{done.pop()} {tail}"
    yield from (text.strip() for text in [*done, tail])


def build() -> Iterator[dict[str, object]]:
    """Yield the passages of every chosen topic, each distinct text once."""
    seen: set[str] = set()
    for topic in TOPICS.split():
        number = 0
        for heading, blocks in sections(topics[topic]):
            for text in passages(blocks):
                if text not in seen and size(text) >= LEAST:
                    seen.add(text)
                    number += 1
                    metadata = {"topic": topic, "section": heading}
                    yield {"doc_id": f"{topic}:{number:02}", "text": text, "metadata": metadata}


def main() -> None:
    """Write the passages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("output", type=Path, nargs="?", default=DEFAULT)
    output: Path = parser.parse_args().output
    rows = [json.dumps(row, ensure_ascii=False) + "\n" for row in build()]
    output.write_text("".join(rows), encoding="utf-8", newline="\n")
    sys.stdout.write(f"{len(rows)} passages ({platform.python_version()}; shipped: {MADE_WITH})\n")


if __name__ == "__main__":
    main()
