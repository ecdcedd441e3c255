"""Measures how often the guarantee of a cascade's bounds is violated.

Labels are drawn repeatedly from human-labelled data (benchmarks/equivalence/data): whole questions
with replacement, so that the data are the population and its error is known. The bounds are those
of Calibrate, from cross-validated scores of `answer_equivalence`. A guarantee is violated when more
than `max_error` of all items that a bound settles are wrong; this may happen in at most
1 - confidence of the draws, for each bound.

violations           share of draws with a violation, for the worse bound and the worst population
settled              mean share of all items that the bounds settle, averaged over the populations
violations_frontier  the same for the cascade that CalibrateCascade proposes, of `token_overlap` and
                     `answer_equivalence`, which may abstain: one guarantee for the whole cascade
settled_frontier     mean share of all items that it settles

    python -m benchmarks.guarantees
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from judged_server.domain import TIE_TOLERANCE, BoolArray, FloatArray, IntArray, JudgeSpec
from judged_server.judges.lexical import TokenOverlapKind
from judged_server.statistics.calibration.cascade import cascade_bounds
from judged_server.statistics.calibration.frontier import (
    FrontierOptions,
    ScoredStage,
    StagedItems,
    frontier,
    run,
)
from judged_server.statistics.calibration.reliability import sigmoid
from judged_server.statistics.quality import LabelledScores

from benchmarks.equivalence.data import FILES, Items, load
from benchmarks.equivalence.train import N_FOLDS, cross_validated, table_of
from benchmarks.harness import closing_line

DRAWS = 1_000
SEED = 3
CONFIDENCE = 0.9
POPULATIONS = (("evouna_nq", 60, 0.1), ("evouna_nq", 120, 0.05), ("evouna_tq", 120, 0.1))
"""File, questions drawn, max_error. NQ301 has too few questions to be a population."""


def measure(
    scores: FloatArray,
    labels: BoolArray,
    questions: IntArray,
    n_drawn: int,
    max_error: float,
    draws: int,
) -> tuple[float, float]:
    """Return the share of draws that violated the guarantee, and the share settled."""
    rng = np.random.default_rng(SEED)
    order = np.argsort(questions, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(questions[order])) + 1)
    broken, settled = np.zeros(2), 0.0
    for _ in range(draws):
        drawn = [members[q] for q in rng.integers(0, len(members), n_drawn)]
        places = np.concatenate(drawn)
        clusters = np.repeat(np.arange(n_drawn), [len(one) for one in drawn])
        items = LabelledScores(scores[places], labels[places], clusters)
        found, _ = cascade_bounds(items, scores, max_error, CONFIDENCE)
        settled += (1 - found.escalated) / draws
        if found.accept is not None:
            taken = scores + TIE_TOLERANCE >= found.accept
            broken[0] += np.mean(~labels[taken]) > max_error
        if found.reject is not None:
            taken = scores - TIE_TOLERANCE <= found.reject
            broken[1] += np.mean(labels[taken]) > max_error
    return float(broken.max()) / draws, settled


def measure_frontier(
    stages: Sequence[ScoredStage],
    labels: BoolArray,
    questions: IntArray,
    n_drawn: int,
    max_error: float,
    draws: int,
) -> tuple[float, float]:
    """Return the same for the proposed cascade."""
    rng = np.random.default_rng(SEED)
    order = np.argsort(questions, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(questions[order])) + 1)
    everything = np.arange(len(labels))
    whole = StagedItems(tuple(stages), labels, questions)
    broken, settled = 0, 0.0
    for draw in range(draws):
        drawn = [members[q] for q in rng.integers(0, len(members), n_drawn)]
        places = np.concatenate(drawn)
        clusters = np.repeat(np.arange(n_drawn), [len(one) for one in drawn])
        some = tuple(replace(stage, scores=stage.scores[places]) for stage in stages)
        items = StagedItems(some, labels[places], clusters)
        options = FrontierOptions(max_error, may_abstain=True, confidence=CONFIDENCE, seed=draw)
        found = frontier(items, options)
        if found.proposed is not None:
            outcome = run(whole, found.points[found.proposed].stages, everything)
            broken += float(np.mean(outcome.wrong[outcome.settled])) > max_error
            settled += float(outcome.settled.mean()) / draws
    return broken / draws, settled


def overlaps(items: Items) -> FloatArray:
    """Return the best score of `token_overlap` of each item."""
    judge = TokenOverlapKind().build(
        JudgeSpec("token_overlap", "unicode", None, {"min_tokens": 2, "query_boost": True})
    )
    starts = np.cumsum([0, *(group.n_contexts for group in items.groups)])[:-1]
    best: FloatArray = np.maximum.reduceat(judge.score(items.groups).scores, starts)
    return best


def main() -> None:
    """Draw, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=DRAWS)
    arguments = parser.parse_args()
    items = load()
    scores = sigmoid(cross_validated(items, table_of(items), N_FOLDS, SEED))
    overlap = overlaps(items)
    samples: dict[str, list[float]] = {}
    for name, n_drawn, max_error in POPULATIONS:
        of_file = items.files == FILES.index(name)
        violations, settled = measure(
            scores[of_file],
            items.labels[of_file],
            items.questions[of_file],
            n_drawn,
            max_error,
            arguments.draws,
        )
        print(
            f"{name}, {n_drawn} questions, error {max_error:g}: the bounds broke their promise in "
            f"{violations:.3f} of {arguments.draws} draws and settled {settled:.3f}",
            flush=True,
        )
        samples.setdefault("violations", []).append(violations)
        samples.setdefault("settled", []).append(settled)
        stages = (
            ScoredStage("token_overlap", overlap[of_file], 0.0),
            ScoredStage("answer_equivalence", scores[of_file], 1.0),
        )
        broken, share = measure_frontier(
            stages,
            items.labels[of_file],
            items.questions[of_file],
            2 * n_drawn,
            max_error,
            arguments.draws,
        )
        print(
            f"{name}, {2 * n_drawn} questions, error {max_error:g}: the proposed cascade broke its "
            f"promise in {broken:.3f} of {arguments.draws} draws and settled {share:.3f}",
            flush=True,
        )
        samples.setdefault("violations_frontier", []).append(broken)
        samples.setdefault("settled_frontier", []).append(share)
    print(closing_line("guarantees", samples, facts={"promised_at_most": 1 - CONFIDENCE}))


if __name__ == "__main__":
    main()
