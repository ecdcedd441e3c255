"""Draws the terminals in the documentation: runs a command, and makes an SVG of what it printed.

python docs/images/terminals.py            draw them
python docs/images/terminals.py --check    say which of them are stale, and end with 1
"""

from __future__ import annotations

import io
import json
import os
import pty
import random
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

from rich.console import Console
from rich.text import Text

FOLDER = Path(__file__).resolve().parent
PICTURES = {
    "demo.svg": (92, "demo"),
    "evaluate.svg": (
        80,
        (
            "evaluate dataset.json --results results.jsonl --judge token_overlap"
            " -m ndcg@5 -m mrr --interval bca --slice-by topic"
        ),
    ),
    "metrics.svg": (80, "metrics --qrels qrels.txt --run bm25.run -m ap -m mrr --interval bca"),
}
"""The file, the columns of the terminal, and what is typed after `judged`."""
_TOPICS, _DOCUMENTS, _RELEVANT, _DEPTH = 60, 40, 4, 10
_LIFTS = {"bm25": 0.30, "embedding": 0.45, "fused": 0.50}
"""How much better than chance each made run ranks a relevant document."""


def write_files(folder: Path) -> None:
    """Write what the commands read: the data set of the demo, and TREC files from a fixed seed."""
    with resources.as_file(resources.files("judged.cli") / "data") as data:
        dataset = (data / "demo.json").read_text("utf-8")
        found = (data / "all_words.jsonl").read_text("utf-8").splitlines()
    (folder / "dataset.json").write_text(dataset, "utf-8")
    with (folder / "results.jsonl").open("w", encoding="utf-8") as results:
        for line in map(json.loads, found):
            ids = [{"doc_id": one["doc_id"]} for one in line["results"]]
            results.write(json.dumps({**line, "results": ids}) + "\n")
    chance = random.Random(7)
    documents = [f"d{number:02}" for number in range(_DOCUMENTS)]
    lines: dict[str, list[str]] = {"qrels.txt": [], **{f"{name}.run": [] for name in _LIFTS}}
    for topic in range(301, 301 + _TOPICS):
        relevant = set(chance.sample(documents, _RELEVANT))
        lines["qrels.txt"] += [f"{topic} 0 {document} 1" for document in sorted(relevant)]
        for name, lift in _LIFTS.items():
            scores = {one: chance.random() + lift * (one in relevant) for one in documents}
            best = sorted(scores, key=lambda one: -scores[one])[:_DEPTH]
            lines[f"{name}.run"] += [
                f"{topic} Q0 {one} {rank} {scores[one]:.6f} {name}"
                for rank, one in enumerate(best, start=1)
            ]
    for name, written in lines.items():
        (folder / name).write_text("\n".join(written) + "\n", "utf-8")


def printed(typed: str, columns: int, folder: Path) -> str:
    """Return what a command prints on a terminal's standard output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JUDGED_")}
    reads, terminal = pty.openpty()
    with os.fdopen(reads, "rb") as output:
        try:
            subprocess.run(
                [sys.executable, "-m", "judged.cli", *typed.split()],
                cwd=folder,
                env=clean | {"COLUMNS": str(columns)},
                stdout=terminal,
                stderr=subprocess.PIPE,
                timeout=90,
                check=True,
            )
            # What is printed is little, so that it waits in the terminal's buffer.
            return output.read1(1 << 16).decode().replace("\r\n", "\n")
        finally:
            os.close(terminal)


def picture(typed: str, columns: int, output: str) -> str:
    """Return the SVG of a terminal; the same output gives the same bytes."""
    console = Console(
        record=True, width=columns, height=100, file=io.StringIO(), force_terminal=True
    )
    console.print(Text(f"$ judged {typed}", style="bold"))
    console.print(Text(output.rstrip("\n")))
    command = typed.split(maxsplit=1)[0]
    return console.export_svg(title=f"judged {command}", unique_id=f"judged-{command}")


def main() -> None:
    """Draw the pictures, or with --check compare them."""
    stale = []
    with tempfile.TemporaryDirectory() as made:
        write_files(Path(made))
        for name, (columns, typed) in PICTURES.items():
            drawn = picture(typed, columns, printed(typed, columns, Path(made)))
            path = FOLDER / name
            if "--check" not in sys.argv:
                path.write_text(drawn, encoding="utf-8")
            elif not path.is_file() or path.read_text("utf-8") != drawn:
                stale.append(name)
    if stale:
        raise SystemExit(f"stale: {', '.join(stale)}; run python docs/images/terminals.py")


if __name__ == "__main__":
    main()
