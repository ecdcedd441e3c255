"""Run one installed version of Evret over groups; a program of its own, started by the tests.

Usage: evret_oracle.py VERSION_DIR GROUPS.jsonl DECISIONS

Reads one group a line, {"query", "expected", "retrieved"}, judges its contexts retrieved-major
with the default token overlap judge and writes one byte a context, "1" for relevant. The last
line on standard output is the CPU seconds the judging took. Knows nothing of this project.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import types
from pathlib import Path


def load(version_dir: Path) -> types.ModuleType:
    """Return Evret's `judges` package without running the top package's imports.

    Those want libraries (a progress bar, database clients) that judging does not use.
    """
    package = types.ModuleType("evret")
    package.__path__ = [str(version_dir / "evret")]
    sys.modules["evret"] = package
    return importlib.import_module("evret.judges")


def main(version_dir: str, groups_file: str, decisions_file: str) -> None:
    """Judge every context of `groups_file` and write the decisions."""
    judges = load(Path(version_dir))
    judge = judges.TokenOverlapJudge()
    with Path(groups_file).open(encoding="utf-8") as lines:
        groups = [json.loads(line) for line in lines]
    contexts = [
        judges.JudgmentContext(group["query"], expected, retrieved)
        for group in groups
        for retrieved in group["retrieved"]
        for expected in group["expected"]
    ]
    start = time.process_time()
    decisions = judge.batch_judge(contexts)
    elapsed = time.process_time() - start
    Path(decisions_file).write_bytes(bytes(48 + bool(decision) for decision in decisions))
    print(f"{elapsed:.6f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
