"""Commands: those that the docs show over their files, and each command over the tests' files."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.fakes.result_documents import hostile_document, result_document
from tests.goldens.cases import Step
from tests.goldens.drawn.requests import ITEMS
from tests.goldens.servers import COMMANDS
from tests.integration.cli import test_label as labels
from tests.integration.cli_process import fill
from tests.integration.pages.test_tutorial import COMMANDS as SHOWN
from tests.integration.pages.test_tutorial import CONSOLES, DOCS, FILES

LISTED = Path(__file__).with_name("commands.txt")
TUTORIALS = [DOCS / "tutorial.md"]
LIBRARY = {f"library/{path.name}": path.read_text() for path in DOCS.glob("tutorial/library/*")}
_COMMAND = re.compile(r"^(?:\$ )?((?:JUDGED_\w+=\S+ )*judged .+)$", re.MULTILINE)
_NOT_ALONE = re.compile(r"[<|&;]|pip |curl |8470")


def good_files() -> dict[str, str]:
    """Return a good file of every kind, by the names that the docs use."""
    text = "rag combines retrieval with generation"
    found = [text, "rag bad", "vectors", "split rag retrieval", "refuse"] * 4
    contexts = [
        {"id": n, "query_id": f"q{n // 5}", "query": f"question {n // 5}", "document_id": f"d{n}"}
        | {"expected_text": text, "retrieved_text": each}
        for n, each in enumerate(found)
    ]
    answers = [
        {"item_id": f"i{n}", "query_id": f"q{n // 2}", "query": f"question {n // 2}"}
        | {"system": "ab"[n % 2], "answer": f"{word}. rag {n // 3}", "contexts": [text]}
        | {"references": [text, f"rag {n // 3}"]}
        for n, word in enumerate(["good", "bad", "split", "failing", "", "none"] * 3)
    ]
    labelled = [
        {"query": item["query"], "expected_text": item["expected"][0], "score": 0.7}
        | {"retrieved_text": item["retrieved"], "relevant": item["human"]}
        for item in ITEMS[:150]
    ]
    rated = [("good", "good"), ("fair", "poor"), ("poor", "fair"), ("good", "fair")] * 6
    ratings = [{"item_id": n, "ratings": {"a": a, "b": b}} for n, (a, b) in enumerate(rated)]
    human = [{"query_id": "q1", "relevant": [[True], [False]]}]
    run = "301 Q0 d2 1 0.9 t\n301 Q0 d3 2 0.5 t\n302 Q0 d1 1 0.4 t\n"
    main, branch = (json.dumps(result_document(40, seed)) for seed in (1, 2))
    table = "query_id,query,expected_answers,topic\nq1,what is rag,rag,a\nq2,who,me,b\n"
    of_lines: dict[str, list[Any]] = {"contexts": contexts, "answers": answers, "human": human}
    of_lines |= {"labels": labelled, "ratings": ratings}
    others = {"embedding.run": run, "bm25.run": run.replace("d3", "d9"), "dataset.csv": table}
    others |= {"result.json": main, "main.json": main, "branch.json": branch}
    others |= {"judged.toml": "[score]\nrubric = ['helpfulness']\n"}
    others |= {"hostile.json": json.dumps(hostile_document())}
    written = {f"{name}.jsonl": _lines(rows) for name, rows in of_lines.items()}
    return _written(fill) | written | others


def files_of_labels() -> dict[str, str]:
    """Return judged lines, and the table of their labels as people fill it in."""
    said = {f"i{n}": "y" if labels.people_say(n) else "n" for n in range(labels.ITEMS)}
    rows = "".join(f"{item},{label}\n" for item, label in said.items())
    return {**_written(labels.fill), "filled.csv": f"id,label\n{rows}"}


def _lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def _written(write: Callable[[Path], Any]) -> dict[str, str]:
    """Return the files that a helper of the tests writes."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        return {path.name: path.read_text() for path in Path(folder).iterdir()}


class Folder:
    """A folder in which commands run one after the other, with the files that they name."""

    def __init__(self, name: str, files: Mapping[str, str], server: str = COMMANDS) -> None:
        self.name, self.server, self.files, self._steps = name, server, dict(files), 0

    def step(self, line: str) -> Step:
        """Return the next step: a command line, with NAME=VALUE before the program."""
        words = shlex.split(line, comments=True)
        n = next(n for n, word in enumerate(words) if "=" not in word)
        self._steps += 1
        name, environment = f"{self.name} {self._steps:02}: {line}", words[:n]
        named = {name: self.files.pop(name) for name in list(self.files) if name in line}
        variables = dict(word.split("=", 1) for word in environment)
        return Step(name, self.server, self.name, words[n], words[n + 1 :], variables, named)


def of_tutorials() -> Iterator[Step]:
    """Yield the commands of the tutorials over their files, those that programs make included."""
    folder, known = Folder("tutorial", LIBRARY), dict(LIBRARY)
    for page in TUTORIALS:
        text = page.read_text(encoding="utf-8")
        known |= (own := dict(FILES.findall(text)))
        folder.files |= own
        for console in CONSOLES.findall(text):
            for line, _ in SHOWN.findall(console):
                if line.startswith("judged "):
                    yield folder.step(line)
                elif line.startswith("python ") and " > " in line:
                    known |= (made := _made(line, known))
                    folder.files |= made


def _made(line: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return the file that a program of a tutorial makes, which is part of the recording."""
    command, _, target = line.partition(" > ")
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            (Path(folder) / name).write_text(content)
        given = [sys.executable, *shlex.split(command)[1:]]
        return {target: subprocess.check_output(given, cwd=folder, text=True)}


def of_pages() -> Iterator[Step]:
    """Yield the commands that the other pages show, over good files of the names that they have."""
    for page in sorted(set(DOCS.rglob("*.md")) - set(TUTORIALS)):
        folder = Folder(f"docs/{page.stem}", good_files())
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in _COMMAND.findall(text):
            if not _NOT_ALONE.search(line.partition("#")[0]):
                yield folder.step(line)


def of_list() -> Iterator[Step]:
    for part in LISTED.read_text(encoding="utf-8").split("\n[")[1:]:
        (name, *listed) = part.splitlines()
        name, _, server = name.strip("]").partition(" on ")
        files = files_of_labels() if "table" in name else good_files()
        folder = Folder(f"commands/{name}", files, server or COMMANDS)
        yield from map(folder.step, listed)


def steps() -> list[Step]:
    return [*of_tutorials(), *of_pages(), *of_list()]
