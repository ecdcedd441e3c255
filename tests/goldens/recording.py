"""The recording: what was asked, and what came back; and how a new one differs from it."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.goldens.canonical import differences, dumped
from tests.goldens.cases import Calls, Case, Step, case_of, line_of
from tests.goldens.commands import steps
from tests.goldens.meant import MEANT, RENAMED
from tests.goldens.refusals import refused_by_http, refused_calls
from tests.goldens.replay import replaying
from tests.goldens.requests import by_http, good_calls
from tests.goldens.servers import COMMANDS, LLM, PLAIN, running_servers

FOLDER = Path(__file__).parent / "recording"
ASKED, RESULTS = "asked.jsonl.gz", ("calls.jsonl", "commands.jsonl")


def drawn() -> list[Case]:
    """Return what the tests, the docs and fixed seeds have to ask."""
    calls = Calls()
    good = list(good_calls(calls))
    bad = list(refused_calls(calls))
    http = [*by_http(calls, good + bad), *refused_by_http(calls)]
    return [*good, *bad, *http, *steps()]


def results(cases: list[Case]) -> dict[str, Any]:
    """Ask everything of new servers, commands beside calls, and return what came back by name."""
    parts = [[c for c in cases if isinstance(c, Step) is is_step] for is_step in (False, True)]
    with running_servers(PLAIN, LLM, COMMANDS) as servers, replaying(servers) as replay:
        with ThreadPoolExecutor(2) as pool:
            both = pool.map(lambda part: {c.name: replay.result_of(c) for c in part}, parts)
            return {name: result for part in both for name, result in part.items()}


def record(cases: list[Case], folder: Path = FOLDER, only: str = "") -> int:
    """Write what the cases get, of those alone whose names match; return how many there are."""
    folder.mkdir(exist_ok=True)
    found = results(cases)
    kept = {n: r for n, r in recorded(folder).items() if not re.search(only, n)} if only else {}
    found |= kept
    asked = "".join(f"{line_of(case)}\n" for case in cases)
    (folder / ASKED).write_bytes(gzip.compress(asked.encode(), mtime=0))
    for name, is_step in zip(RESULTS, (False, True), strict=True):
        lines = [
            dumped({"name": case.name, "result": found[case.name]}) + "\n"
            for case in cases
            if isinstance(case, Step) is is_step and case.name in found
        ]
        (folder / name).write_text("".join(lines), encoding="utf-8", errors="surrogatepass")
    return len(cases)


def asked(folder: Path = FOLDER) -> list[Case]:
    return [case_of(line) for line in gzip.decompress((folder / ASKED).read_bytes()).splitlines()]


def recorded(folder: Path = FOLDER) -> dict[str, Any]:
    lines = [
        json.loads(line)
        for name in RESULTS
        for line in (folder / name).read_text("utf-8", "surrogatepass").splitlines()
    ]
    return {line["name"]: line["result"] for line in lines}


def compare(folder: Path = FOLDER) -> tuple[list[str], Counter[str]]:
    """Return a line for each difference that nobody meant, and how often each reason was met."""
    before, after = recorded(folder), results(asked(folder))
    unmeant, meant = [], Counter[str]()
    for name, result in after.items():
        for where, one, other in differences(_renamed(before[name]), result):
            line = f"{name}: {where}: {one} -> {other}"
            why = next((why for pattern, why in MEANT.items() if re.search(pattern, line)), None)
            if why is None:
                unmeant.append(line)
            else:
                meant[why] += 1
    return unmeant, meant


def _renamed(value: Any) -> Any:
    match value:
        case dict():
            return {RENAMED.get(key, key): _renamed(each) for key, each in value.items()}
        case list():
            return [_renamed(each) for each in value]
    return value
