"""Mutants of the metrics and statistics: how many small faults in the code its tests notice.

    python -m tests.mutation [--sample N] [--seed S] [--survivors] [--report] [--workers N]
                             [FILE ...]

mutmut changes one thing at a time (a bound, an operator, a constant, an argument) in a copy of
`server/judged_server` under out/mutation, and runs the tests that reach the changed
function. Files are named from that folder: `gains.py`, `text/rouge.py`, `text`. Without a file all
that was not decided before is run; what is named or drawn is run again. Two passes: the tests that
take QUICK_S together, quickest first, then, for what survives these or times out, those that take
THOROUGH_S.

CONTRIBUTING.md has the figures.
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
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from tests.mutation.sample import draw, wilson

SCRATCH = Path("out") / "mutation"
MUTANTS = SCRATCH / "mutants"
PACKAGE = Path("judged_server")
MUTATED = ("metrics", "statistics")
COPIED = {
    "server/judged_server": "judged_server",
    "client/judged": "judged",
    "tests": "tests",
    "benchmarks/demo": "benchmarks/demo",
    "pyproject.toml": "pyproject.toml",
}
TESTS = (
    "tests/unit/server/metrics",
    "tests/unit/server/statistics",
    "tests/conformance/test_agreement.py",
    "tests/conformance/test_other_metrics.py",
    "tests/conformance/test_text_metrics.py",
    "tests/conformance/test_trec_eval.py",
)
QUICK_S = 10.0
THOROUGH_S = 60.0
GRACE_S = 25.0  # before a time-out; half as long again as the tests may take, for busy machines
MEMORY_BYTES = 6 << 30
OUTCOMES = {
    None: "open", 0: "survived", 1: "killed", 3: "killed", 5: "untested", 33: "untested",
    36: "timed out", -24: "timed out", 24: "timed out", 152: "timed out", -9: "timed out",
}  # fmt: skip


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("files", nargs="*", metavar="FILE", help="of metrics/ or statistics/")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the sample; 1 unless told")
    parser.add_argument("--survivors", action="store_true", help="run what survived once more")
    parser.add_argument("--report", action="store_true", help="run nothing; print what stands")
    parser.add_argument("--workers", type=int, default=1, help="mutants at a time; 1 unless told")
    arguments = parser.parse_args()
    if arguments.sample is not None and arguments.sample < 1:
        parser.error("--sample must be at least 1")
    files = tuple(
        name.removeprefix("server/").removeprefix(f"{PACKAGE}/").removesuffix(".py")
        for name in arguments.files
    )
    chosen = Chosen(files, arguments.sample, arguments.seed)
    if not arguments.report:
        copy()
        if arguments.sample:
            generate()
        run(chosen, survivors_only=arguments.survivors, workers=arguments.workers)
    report(chosen)
    return 0


@dataclass(frozen=True, slots=True)
class Chosen:
    """The mutants spoken of: those of the files, of all files where none is named, or a sample."""

    files: tuple[str, ...]
    size: int | None
    seed: int

    def codes(self) -> dict[str, int | None]:
        """Return what pytest's exit status was under each mutant; None where it was not run."""
        found = {
            key: code
            for meta in metas(self.files)
            for key, code in meta["exit_code_by_key"].items()
        }
        return (
            {key: found[key] for key in draw(found, self.size, self.seed)} if self.size else found
        )

    def patterns(self) -> list[str]:
        """Return what mutmut is to run; nothing stands for all that it did not run before."""
        if self.size:
            return list(self.codes())
        return [f"judged_server.{name.replace('/', '.')}.*" for name in self.files]


def run(chosen: Chosen, *, survivors_only: bool, workers: int) -> None:
    """Run both passes, or the second one alone on all that survived before."""
    if not survivors_only:
        if chosen.size:
            forget(set(chosen.codes()))
        mutmut(chosen.patterns(), QUICK_S, workers)
    again = doubtful(chosen, 0.0 if survivors_only else QUICK_S)
    if again:
        # The first pass has shown that the tests pass where nothing is changed.
        mutmut(again, THOROUGH_S, workers, unchanged_s=inf if survivors_only else THOROUGH_S)


def copy() -> None:
    """Bring the copy up to date; mutmut keeps what it knows of functions that did not change."""
    MUTANTS.mkdir(parents=True, exist_ok=True)  # Python forgets a path that begins as nothing
    before = code()
    for source, target in COPIED.items():
        place = SCRATCH / target
        if Path(target) != PACKAGE:
            shutil.rmtree(MUTANTS / target, ignore_errors=True)  # what was deleted is deleted
        if Path(source).is_file():
            shutil.copy2(source, place)
            continue
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
    if code() != before:  # a new function is reached by tests that mutmut has met already
        (MUTANTS / "mutmut-stats.json").unlink(missing_ok=True)


def code() -> list[bytes]:
    """Return the code of the copy that is mutated."""
    folders = [SCRATCH / PACKAGE / name for name in MUTATED]
    return [path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py"))]


def configure(seconds: float) -> None:
    """Tell mutmut what to change and what to run, for a pass of so many seconds a mutant."""
    lines = {
        "source_paths": ("judged_server",),
        "only_mutate": tuple(f"{PACKAGE}/{name}/*" for name in MUTATED),
        "also_copy": ("judged", "tests", "benchmarks"),
        "pytest_add_cli_args_test_selection": TESTS,
        "pytest_add_cli_args": ("-p", "tests.mutation.quickest_first", "-p", "no:cacheprovider"),
        # mutmut multiplies the sum of the tests' time and the constant; most of them are not run.
        "timeout_multiplier": ("0.2",),
        "timeout_constant": (str(5 * (GRACE_S + 1.5 * seconds)),),
        "on_dependency_change": ("ignore",),
        "use_git_change_detection": ("false",),
    }
    text = "".join(f"{key}=" + "\n    ".join(values) + "\n" for key, values in lines.items())
    (SCRATCH / "setup.cfg").write_text("[mutmut]\n" + text, encoding="utf-8")


def generate() -> None:
    """Write the mutants of the copy, and run none of them."""
    configure(QUICK_S)
    subprocess.run(
        [sys.executable, "-m", "tests.mutation.generate"],
        cwd=SCRATCH,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def mutmut(names: list[str], seconds: float, workers: int, *, unchanged_s: float = inf) -> None:
    """Run mutmut on the mutants named, or on all that are undecided."""
    configure(seconds)
    subprocess.run(
        [Path(sys.prefix) / "bin" / "mutmut", "run", "--max-children", str(workers), *names],
        cwd=SCRATCH,
        check=True,
        env={
            **os.environ,
            "PYTHONPATH": str(MUTANTS.resolve()),
            "PYTHONHASHSEED": "0",
            "CI": "1",  # property tests draw the same examples in every run
            "OPENBLAS_NUM_THREADS": "1",
            "JUDGED_MUTANT_SECONDS": str(seconds),
            "JUDGED_UNCHANGED_SECONDS": str(unchanged_s),
        },
        # A mutant that never stops growing ends with a MemoryError, not with the machine.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES)),
    )


def forget(keys: set[str]) -> None:
    """Count the mutants as not run, so that a run cut short leaves no result of an older one."""
    for path in (MUTANTS / PACKAGE).rglob("*.py.meta"):
        meta = json.loads(path.read_text("utf-8"))
        codes = meta["exit_code_by_key"]
        meta["exit_code_by_key"] = {key: None if key in keys else codes[key] for key in codes}
        path.write_text(json.dumps(meta, indent=4), encoding="utf-8")


def doubtful(chosen: Chosen, seconds: float) -> list[str]:
    """Return what survived of the chosen where the tests that reach it take longer, and time-outs.

    A mutant that only waited for its turn may time out; the second pass leaves it more time.
    """
    needed = {
        key: estimate
        for meta in metas(chosen.files)
        for key, estimate in meta["estimated_durations_by_key"].items()
    }
    outcomes = {key: OUTCOMES.get(code, "killed") for key, code in chosen.codes().items()}
    return [
        key
        for key, outcome in outcomes.items()
        if outcome == "timed out"
        or (outcome == "survived" and needed.get(key, seconds + 1) > seconds)
    ]


def metas(files: tuple[str, ...]) -> list[dict[str, dict[str, Any]]]:
    """Return what mutmut noted of each of the files, those that are no longer there left out."""
    found = []
    for path in sorted((MUTANTS / PACKAGE).rglob("*.py.meta")):
        name = str(path.relative_to(MUTANTS / PACKAGE)).removesuffix(".py.meta")
        if not (SCRATCH / PACKAGE / f"{name}.py").exists():
            continue
        if not files or any(name == one or name.startswith(f"{one}/") for one in files):
            found.append(json.loads(path.read_text("utf-8")))
    return found


def report(chosen: Chosen) -> None:
    """Print what was not killed by a test as differences, then the counts of every file."""
    counts: dict[str, Counter[str]] = {}
    for key, code in chosen.codes().items():
        outcome = OUTCOMES.get(code, "killed")
        module = key.rpartition(".")[0].removeprefix("judged_server.").replace(".", "/")
        counts.setdefault(module + ".py", Counter())[outcome] += 1
        if outcome in ("survived", "untested", "timed out"):
            print(f"{outcome}: {key}\n{difference(key)}")
    kinds = ("killed", "timed out", "survived", "untested", "open")
    print(f"{'file':36}" + "".join(f"{kind:>10}" for kind in kinds) + f"{'share':>8}")
    counts["all"] = sum(counts.values(), Counter())
    for name, count in counts.items():
        decided = sum(count.values()) - count["open"]
        hits = count["killed"] + count["timed out"]
        share = hits / decided if decided else 0.0
        print(f"{name:36}" + "".join(f"{count[kind]:10}" for kind in kinds) + f"{share:8.1%}")
    if chosen.size:
        low, high = wilson(hits, decided)
        whole = len(Chosen(chosen.files, None, 0).codes())
        print(
            f"seed {chosen.seed}: {decided} mutants of {whole}, "
            f"killed {share:.1%}, 95 % interval {low:.1%} to {high:.1%}"
        )


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
