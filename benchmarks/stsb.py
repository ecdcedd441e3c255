"""Asks what a backend costs in quality: rank correlation with people, and flips against fp32.

Pairs of sentences with a human score come from a file, which is not part of this project:

    STS benchmark   sts-test.tsv and sts-dev.tsv as published: tab-separated without a header, the
                    score (0 to 5) in the fifth column, the sentences in the sixth and seventh
    TSV             with a header line that has `sentence1`, `sentence2` and `score` (GLUE's files)
    JSONL           a line an object with these three

Without a file the pairs are made of prose, which nobody has scored: then there are flips alone. The
semantic judge scores every pair through the Python client, on a server of each backend, in its own
order and in another: scores must not depend on it.

spearman_NAME              Spearman's correlation of cosines and human scores; ties share ranks
spearman_less_than_fp32_NAME   what the backend loses of it
flips_NAME                 share of verdicts that are not fp32's, at most, from .50 to .95
flips_NAME_at_75           the same at the judge's own threshold
score_change_NAME          the largest change of a cosine against fp32
order_change_NAME          the largest change of a cosine with the order of pairs

    python -m benchmarks.stsb [--data FILE | --pairs 1500] [--backend NAME=FLAGS ...]
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import statistics
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from judged import QueryGroup

from benchmarks.harness import closing_line
from benchmarks.peers.backends import RunningBackend, add_backend_option, start_all
from tests.conformance.prose import build_groups

SEED = 5
PAIRS = 1_500
BARS = tuple(round(0.5 + 0.05 * i, 2) for i in range(10))
MIN_SCORE = 0.75


class DataError(ValueError):
    """A file of pairs can't be read; the message names the line and what is wrong."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences; `score` is what people gave, None where nobody did."""

    sentence1: str
    sentence2: str
    score: float | None


def read_pairs(path: Path) -> list[Pair]:
    """Return the pairs of a file. Raises DataError."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: can't be read as UTF-8 text ({type(error).__name__})") from error
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise DataError(f"{path}: is empty")
    rows = _json_rows(path, lines) if lines[0].lstrip().startswith("{") else _tsv_rows(path, lines)
    return [_pair(where, *row) for where, row in rows]


def _json_rows(path: Path, lines: list[str]) -> Iterable[tuple[str, tuple[object, ...]]]:
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        try:
            record = json.loads(line)
            yield where, (record["sentence1"], record["sentence2"], record["score"])
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{where}: is no object with sentence1, sentence2, score") from error


def _tsv_rows(path: Path, lines: list[str]) -> Iterable[tuple[str, tuple[object, ...]]]:
    # The published files hold quotation marks that open and never close: they are plain text.
    rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    names = ("sentence1", "sentence2", "score")
    header = set(names) <= set(rows[0])
    columns = [rows[0].index(name) for name in names] if header else [5, 6, 4]
    for number, row in enumerate(rows, 1):
        if header and number == 1:
            continue
        if len(row) <= max(columns):
            raise DataError(
                f"{path}:{number}: has {len(row)} columns; expected {max(columns) + 1} or a header "
                "with sentence1, sentence2 and score"
            )
        yield f"{path}:{number}", tuple(row[column] for column in columns)


def _pair(where: str, first: object, second: object, score: object) -> Pair:
    try:
        value = float(score) if isinstance(score, str | int | float) else math.nan
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or not isinstance(first, str) or not isinstance(second, str):
        raise DataError(f"{where}: wants two texts and a finite number")
    return Pair(first, second, value)


def prose_pairs(count: int) -> list[Pair]:
    """Return pairs of prose, many of them close to the thresholds, that nobody has scored."""
    rng = random.Random(SEED)
    return [
        Pair(expected, rng.choice(group.retrieved), None)
        for group in build_groups(SEED, count)
        for expected in group.expected[:1]
    ]


def spearman(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> float:
    """Return Spearman's rank correlation, with the mean rank for ties."""
    ranks = [_ranks(np.asarray(values, np.float64)) for values in (x, y)]
    a, b = (column - column.mean() for column in ranks)
    return float((a @ b) / math.sqrt((a @ a) * (b @ b)))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean_ranks: np.ndarray = (ends - (counts - 1) / 2)[places]
    return mean_ranks


def scores(server: RunningBackend, pairs: Sequence[Pair], order: Sequence[int]) -> np.ndarray:
    """Return the cosine of each pair, judged in an order."""
    groups = [QueryGroup("", [pairs[i].sentence1], [pairs[i].sentence2]) for i in order]
    verdicts = server.client.judge(groups, "semantic", timeout=3000)
    if verdicts.n_ok != len(verdicts):
        raise SystemExit(f"{server.name}: {len(verdicts) - verdicts.n_ok} verdicts are missing")
    found = np.empty(len(pairs))
    found[list(order)] = verdicts.score
    return found


def flips(ours: np.ndarray, reference: np.ndarray, threshold: float) -> float:
    """Return the share of verdicts that differ at a threshold."""
    return float(np.mean((ours >= threshold) != (reference >= threshold)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stsb")
    parser.add_argument("--data", type=Path, help="a file of pairs with human scores")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="of prose, without --data")
    add_backend_option(parser)
    arguments = parser.parse_args()
    try:
        pairs = read_pairs(arguments.data) if arguments.data else prose_pairs(arguments.pairs)
    except DataError as error:
        parser.error(str(error))
    not_run: dict[str, str] = {}
    samples: dict[str, list[float]] = {}
    with ExitStack() as stack:
        servers = start_all(stack, arguments.backend, not_run, "--vector-cache", "off")
        order = list(range(len(pairs)))
        shuffled = random.Random(SEED).sample(order, len(order))
        cosines = {server.name: scores(server, pairs, order) for server in servers}
        again = {server.name: scores(server, pairs, shuffled) for server in servers}
        facts: dict[str, object] = {
            "data": arguments.data.name if arguments.data else "prose of CPython, not scored",
            "pairs": len(pairs),
            "backends": {s.name: f"{s.precision} on {s.provider}" for s in servers},
        }
    reference = servers[0].name
    for name, found in cosines.items():
        if arguments.data:
            human = [pair.score or 0.0 for pair in pairs]
            samples[f"spearman_{name}"] = [spearman(found, human)]
            loss = spearman(cosines[reference], human) - samples[f"spearman_{name}"][0]
            if name != reference:
                samples[f"spearman_less_than_fp32_{name}"] = [loss]
        else:
            not_run[f"spearman_{name}"] = "no --data with human scores was given"
        samples[f"order_change_{name}"] = [float(np.abs(found - again[name]).max())]
        if name == reference:
            continue
        shares = [flips(found, cosines[reference], threshold) for threshold in BARS]
        told = ", ".join(
            f"{threshold:g}: {share:.2%}" for threshold, share in zip(BARS, shares, strict=True)
        )
        print(f"{name}: flips against {reference} by threshold: {told}")
        samples[f"flips_{name}"] = [max(shares)]
        samples[f"flips_{name}_at_75"] = [flips(found, cosines[reference], MIN_SCORE)]
        samples[f"score_change_{name}"] = [float(np.abs(found - cosines[reference]).max())]
    near = statistics.mean(float(np.min(np.abs(c - np.array(BARS)))) for c in cosines[reference])
    facts["mean_distance_to_a_threshold"] = round(near, 4)
    print(closing_line("stsb", samples, not_run, facts))


if __name__ == "__main__":
    main()
