"""Mutants of the metrics: how many small faults in the code its tests notice.

    python -m tests.mutation [--survivors] [--report] [FILE ...]

mutmut changes one thing at a time (a bound, an operator, a constant, an argument) in a copy of
`server/judged_server/metrics` under out/mutation, and runs the tests that reach the changed
function. Files are named from that folder: `gains.py`, `text/rouge.py`, `text`. Without a file all
that was not decided before is run; what is named is run again. Two passes: the tests that take
QUICK_S together, quickest first, then, for what survives these, those that take THOROUGH_S.

docs/metrics/mutation.md has the figures and says of each survivor why it may live.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

SCRATCH = Path("out") / "mutation"
MUTANTS = SCRATCH / "mutants"
PACKAGE = Path("judged_server") / "metrics"
COPIED = {
    "server/judged_server": "judged_server",
    "client/judged": "judged",
    "tests": "tests",
    "benchmarks/demo": "benchmarks/demo",
    "pyproject.toml": "pyproject.toml",
}
TESTS = (
    "tests/unit/server/metrics",
    "tests/conformance/test_agreement.py",
    "tests/conformance/test_other_metrics.py",
    "tests/conformance/test_text_metrics.py",
    "tests/conformance/test_trec_eval.py",
)
QUICK_S = 10.0
THOROUGH_S = 60.0
MEMORY_BYTES = 6 << 30
OUTCOMES = {
    None: "open", 0: "survived", 1: "killed", 3: "killed", 5: "untested", 33: "untested",
    36: "timed out", -24: "timed out", 24: "timed out", 152: "timed out", -9: "timed out",
}  # fmt: skip


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("files", nargs="*", metavar="FILE", help="file or folder of metrics/")
    parser.add_argument("--survivors", action="store_true", help="run what survived once more")
    parser.add_argument("--report", action="store_true", help="run nothing; print what stands")
    arguments = parser.parse_args()
    chosen = tuple(
        name.removeprefix("server/").removeprefix(f"{PACKAGE}/").removesuffix(".py")
        for name in arguments.files
    )
    if not arguments.report:
        copy()
        if not arguments.survivors:
            patterns = (f"judged_server.metrics.{name.replace('/', '.')}.*" for name in chosen)
            mutmut(*patterns, seconds=QUICK_S)
        again = survivors(chosen, 0.0 if arguments.survivors else QUICK_S)
        if again:
            mutmut(*again, seconds=THOROUGH_S)
    report(chosen)
    return 0


def copy() -> None:
    """Bring the copy up to date; mutmut keeps what it knows of functions that did not change."""
    MUTANTS.mkdir(parents=True, exist_ok=True)  # Python forgets a path that begins as nothing
    for source, target in COPIED.items():
        place = SCRATCH / target
        if Path(source).is_file():
            shutil.copy2(source, place)
            continue
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
    lines = {
        "source_paths": ("judged_server",),
        "only_mutate": (f"{PACKAGE}/*",),
        "also_copy": ("judged", "tests", "benchmarks"),
        "pytest_add_cli_args_test_selection": TESTS,
        "pytest_add_cli_args": ("-p", "tests.mutation.quickest_first", "-p", "no:cacheprovider"),
        "timeout_multiplier": ("0.5",),
        "timeout_constant": ("15",),
        "on_dependency_change": ("ignore",),
        "use_git_change_detection": ("false",),
    }
    text = "".join(f"{key}=" + "\n    ".join(values) + "\n" for key, values in lines.items())
    (SCRATCH / "setup.cfg").write_text("[mutmut]\n" + text, encoding="utf-8")


def mutmut(*names: str, seconds: float) -> None:
    """Run mutmut on the mutants named, or on all that are undecided, in one worker."""
    subprocess.run(
        [Path(sys.prefix) / "bin" / "mutmut", "run", "--max-children", "1", *names],
        cwd=SCRATCH,
        check=True,
        env={
            **os.environ,
            "PYTHONPATH": str(MUTANTS.resolve()),
            "PYTHONHASHSEED": "0",
            "CI": "1",  # property tests draw the same examples in every run
            "OPENBLAS_NUM_THREADS": "1",
            "JUDGED_MUTANT_SECONDS": str(seconds),
        },
        # A mutant that never stops growing ends with a MemoryError, not with the machine.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )


def survivors(chosen: tuple[str, ...], seconds: float) -> list[str]:
    """Return what survived in the files chosen, where the tests that reach it take longer."""
    return [
        key
        for meta in metas(chosen)
        for key, code in meta["exit_code_by_key"].items()
        if OUTCOMES.get(code) == "survived"
        and meta["estimated_durations_by_key"].get(key, seconds + 1) > seconds
    ]


def metas(chosen: tuple[str, ...]) -> list[dict[str, dict[str, Any]]]:
    """Return what mutmut noted of each of the files chosen."""
    found = []
    for path in sorted((MUTANTS / PACKAGE).rglob("*.py.meta")):
        name = str(path.relative_to(MUTANTS / PACKAGE)).removesuffix(".py.meta")
        if not chosen or any(name == one or name.startswith(f"{one}/") for one in chosen):
            found.append(json.loads(path.read_text("utf-8")))
    return found


def report(chosen: tuple[str, ...]) -> None:
    """Print the survivors as differences, then the counts of every file."""
    counts: dict[str, Counter[str]] = {}
    for key, code in (item for meta in metas(chosen) for item in meta["exit_code_by_key"].items()):
        outcome = OUTCOMES.get(code, "killed")
        module = key.rpartition(".")[0].removeprefix("judged_server.metrics.").replace(".", "/")
        counts.setdefault(module + ".py", Counter())[outcome] += 1
        if outcome in ("survived", "untested"):
            print(f"{outcome}: {key}\n{difference(key)}")
    kinds = ("killed", "timed out", "survived", "untested", "open")
    print(f"{'file':36}" + "".join(f"{kind:>10}" for kind in kinds) + f"{'share':>8}")
    counts["all"] = sum(counts.values(), Counter())
    for name, count in counts.items():
        decided = sum(count.values()) - count["open"]
        share = (count["killed"] + count["timed out"]) / decided if decided else 0.0
        print(f"{name:36}" + "".join(f"{count[kind]:10}" for kind in kinds) + f"{share:8.1%}")


def difference(key: str) -> str:
    """Return the lines that a mutant changes, as a diff."""
    module, _, name = key.rpartition(".")
    path = MUTANTS / (module.replace(".", "/") + ".py")
    spans = json.loads(Path(f"{path}.spans").read_text("utf-8"))["spans"]
    lines = path.read_text("utf-8").splitlines()
    original = re.sub(r"__mutmut_\d+$", "__mutmut_orig", name)
    before, after = (lines[first:last] for first, last in (spans[original], spans[name]))
    return "\n".join(
        line
        for line in difflib.unified_diff(before, after, n=1, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    )


if __name__ == "__main__":
    sys.exit(main())
