"""The targets under atheris, one after the other, each in a process of its own.

    python -m tests.fuzz [--seconds 60 | --inputs 40000] [--seed 1] [--target NAME ...]

`--seconds` are for all targets together, and a fast machine comes further in them. `--inputs` are
for each target: with the same seed and code they are the same on every machine, so that a check
that passed here does not fail elsewhere on an input that nobody had tried. An input that breaks a
promise is written to out/fuzz, with the command that tries it again, and the exit status is 1.
Where atheris is not installed, as it has no wheels for every Python, nothing is fuzzed; that is
said, and the exit status is 0.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LONGEST_INPUT = 4096
SLOW_S = 10
TOO_LONG_S = 3600
MEMORY_MB = 2048
OUT = Path("out") / "fuzz"
_RUNS = re.compile(r"Done (\d+) runs|stat::number_of_executed_units:\s*(\d+)")


def main() -> int:
    """Run the command line; return the exit status."""
    arguments = parsed()
    if arguments.child:
        return child(arguments.child, arguments.flags)
    if arguments.again is not None:
        from tests.fuzz.targets import TARGETS

        TARGETS[arguments.target[0]](arguments.again.read_bytes())
        print("every promise held")
        return 0
    if importlib.util.find_spec("atheris") is None:
        version = ".".join(map(str, sys.version_info[:2]))
        print(f"fuzzing skipped: atheris is not installed (no wheel for Python {version} here?)")
        return 0
    from tests.fuzz.targets import TARGETS

    names = arguments.target or list(TARGETS)
    failed = [
        name for name in names if not fuzzed(name, _until(arguments, len(names)), arguments.seed)
    ]
    return 1 if failed else 0


def _until(arguments: argparse.Namespace, targets: int) -> tuple[str, ...]:
    """Return libFuzzer's flags that say how far to go.

    For a count of inputs, what libFuzzer does by the clock is off: entropic weights know how long
    an input took, and the corpus is read anew every second.
    """
    if arguments.inputs is not None:
        return (f"-runs={arguments.inputs}", "-entropic=0", "-reload=0")
    return (f"-max_total_time={max(1, arguments.seconds // targets)}",)


def parsed() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    far = parser.add_mutually_exclusive_group()
    far.add_argument("--seconds", type=int, default=60, help="for all targets together")
    far.add_argument("--inputs", type=int, help="for each target, however long it takes")
    parser.add_argument(
        "--seed", type=int, default=1, help="of what is drawn; 0 for another each time"
    )
    parser.add_argument("--target", action="append", help="one of the targets; may be repeated")
    parser.add_argument("--again", type=Path, metavar="FILE", help="try one input on --target")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("flags", nargs="*", help=argparse.SUPPRESS)
    return parser.parse_args()


def fuzzed(name: str, until: tuple[str, ...], seed: int) -> bool:
    """Fuzz one target as far as libFuzzer's flags say; return whether every promise held."""
    from tests.fuzz.corpora import seeds

    OUT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for place, raw in enumerate(seeds(name)):
            Path(folder, f"{place:04}").write_bytes(raw)
        flags = (
            *until, f"-seed={seed}", f"-max_len={LONGEST_INPUT}", f"-timeout={SLOW_S}",
            f"-rss_limit_mb={MEMORY_MB}", "-print_final_stats=1",
            f"-artifact_prefix={OUT}/{name}-", folder,
        )  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz", "--child", name, "--", *flags],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TOO_LONG_S,
            check=False,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
    said = done.stdout + done.stderr
    runs = [int(a or b) for a, b in _RUNS.findall(said)]
    if done.returncode == 0 and runs and max(runs) > 0:
        print(f"{name:14} {max(runs):9,} inputs, every promise held", flush=True)
        return True
    print(f"{name:14} FAILED (status {done.returncode})\n{said[-6000:]}")
    for path in sorted(OUT.glob(f"{name}-*")):
        print(f"  again: python -m tests.fuzz --target {name} --again {path}")
    return False


def child(name: str, flags: list[str]) -> int:
    """Run one target under atheris; libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["judged_server"]):
        from tests.fuzz.targets import TARGETS

    atheris.Setup([sys.argv[0], *flags], TARGETS[name])
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
