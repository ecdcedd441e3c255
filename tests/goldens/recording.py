"""The recording: what was asked, and what came back; and how what comes now differs from it."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.goldens.canonical import differences, dumped
from tests.goldens.cases import Case, Step, case_of, line_of
from tests.goldens.meant import MEANT
from tests.goldens.replay import replaying
from tests.goldens.servers import COMMANDS, LLM, PLAIN, running_servers

FOLDER = Path(__file__).parent / "recording"
ASKED = "asked.jsonl.gz"
RESULTS = {"calls.jsonl": False, "commands.jsonl": True}
"""Files of results, by whether they are those of commands."""


def results(cases: list[Case]) -> dict[str, Any]:
    """Ask new servers, by commands beside calls, and return what came back by name."""
    parts = [[c for c in cases if isinstance(c, Step) is is_step] for is_step in (False, True)]
    with (
        running_servers(PLAIN, LLM, COMMANDS) as servers,
        replaying(servers) as replay,
        ThreadPoolExecutor(2) as pool,
    ):
        both = pool.map(lambda part: {c.name: replay.result_of(c) for c in part}, parts)
        return {name: result for part in both for name, result in part.items()}


def record(cases: list[Case], folder: Path = FOLDER, only: str = "") -> None:
    """Write what the cases get; where a pattern is given, keep what the others had."""
    kept = {n: r for n, r in recorded(folder).items() if not re.search(only, n)} if only else {}
    found = results(cases) | kept
    folder.mkdir(exist_ok=True)
    asked = "".join(f"{line_of(case)}\n" for case in cases)
    (folder / ASKED).write_bytes(gzip.compress(asked.encode(), mtime=0))
    for file, is_step in RESULTS.items():
        names = [case.name for case in cases if isinstance(case, Step) is is_step]
        lines = "".join(dumped({"name": name, "result": found[name]}) + "\n" for name in names)
        (folder / file).write_text(lines, "utf-8", "surrogatepass")


def asked(folder: Path = FOLDER) -> list[Case]:
    return [case_of(line) for line in gzip.decompress((folder / ASKED).read_bytes()).splitlines()]


def recorded(folder: Path = FOLDER) -> dict[str, Any]:
    texts = [(folder / name).read_text("utf-8", "surrogatepass") for name in RESULTS]
    lines = [json.loads(line) for text in texts for line in text.split("\n") if line]
    return {line["name"]: line["result"] for line in lines}


def compare(folder: Path = FOLDER) -> tuple[list[str], Counter[str]]:
    """Return a line for each difference that nobody meant, and how often each reason was met."""
    before, after = recorded(folder), results(asked(folder))
    unmeant, meant = [], Counter[str]()
    for name, result in after.items():
        for where, one, other in differences(before[name], json.loads(dumped(result))):
            line = f"{name}: {where}: {one} -> {other}"
            why = next((why for pattern, why in MEANT.items() if re.search(pattern, line)), None)
            if why is None:
                unmeant.append(line)
            else:
                meant[why] += 1
    return unmeant, meant
