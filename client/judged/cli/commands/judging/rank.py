"""`judged rank`: several systems' answers to the same queries, compared two by two and ranked."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.table import Table

from judged import IntervalOptions, SystemRanking
from judged._views import plural, word
from judged.cli.commands.judging.score import flagged
from judged.cli.connection import connect
from judged.cli.inputs.candidates import read_candidates
from judged.cli.options import common, intervals
from judged.cli.options.asking import KIND, AskingFlags, named_as_typed, with_parameters
from judged.cli.options.rubrics import RubricModelFlags, read_rubrics
from judged.cli.options.server import JudgingFlags
from judged.cli.output.scores import score_warnings
from judged.cli.output.usage import describe_usage, report_estimate
from judged.cli.output.writer import Output, check_apart, new_table, progress_bar
from judged.cli.problems import Problem
from judged.evaluation._steps.walking import run_steps
from judged.evaluation.answers.ranking import RUBRIC, AnswerPairs, ComparedAnswers, comparing_steps
from judged.values import PositionBias, Status


def command(
    answers: Annotated[
        str,
        typer.Argument(
            metavar="ANSWERS.jsonl",
            help="A line an answer: {query_id, query, system, answer}; - reads standard input.",
        ),
    ],
    rubric: Annotated[
        str,
        typer.Option(
            metavar="ID[@VERSION]",
            help="Rubric that shows an answer and the other answer; see `judged judges`.",
        ),
    ] = RUBRIC,
    *,
    model: RubricModelFlags,
    ask: AskingFlags,
    param: common.Parameters = None,
    confidence: intervals.Confidence = None,
    resamples: Annotated[
        int, typer.Option(metavar="N", min=100, max=100_000, help="Resamples of queries.")
    ] = 1_000,
    seed: intervals.Seed = None,
    shared: JudgingFlags,
) -> None:
    """Rank systems: a language model compares their answers."""
    out = shared.output()
    check_apart({"ANSWERS.jsonl": answers}, json=shared.json_to)
    asking = ask.asking(KIND)
    with out.told_misspellings():
        pairs = AnswerPairs(read_candidates(answers))
    flags = model.parameters(KIND)
    interval = IntervalOptions.of(confidence=confidence, resamples=resamples, seed=seed)
    with (
        connect(shared) as server,
        named_as_typed(flags),
        flagged([rubric], lambda _: None),
        progress_bar("comparing", len(pairs.items)) as progress,
    ):
        fields = {info.rubric: info.fields for info in server.info.rubrics}
        shown = fields.get(rubric.partition("@")[0])
        if shown is not None and not {"answer", "other_answer"} <= set(shown):
            raise Problem(f"--rubric {rubric}: shows no two answers; {RUBRIC} does")
        [asked] = read_rubrics([rubric], server.info, None, with_parameters(flags, param), None)
        if ask.estimate:
            report_estimate(out, server.client.estimate_scores(pairs.items, [asked], asking=asking))
            return
        steps = comparing_steps(pairs, asked, interval, asking, shared.timeout, progress)
        found = run_steps(server.client, steps)
    _report(out, found)


def _report(out: Output, found: ComparedAnswers) -> None:
    ranking, scores = found.ranking, found.scores
    out.warn(*ranking.warnings)
    comparisons = plural(len(found.comparisons), "comparison", "comparisons")
    queries = plural(ranking.queries, "query", "queries")
    made_from = [
        f"{comparisons} of {queries}; {ranking.signature}",
        _position_line(ranking.position),
    ]
    if scores is not None:
        out.warn(*score_warnings(scores))
        failed = sum(score.status is Status.ERROR for score in scores)
        out.count(failed=failed, total=len(scores), errors=scores.errors.values())
        judges = {s.judge.signature: None for s in scores.rubrics if s.judge is not None}
        made_from += [*(f"judge {signature}" for signature in judges), describe_usage(scores.usage)]
    out.show(_table(ranking), "", "\n".join(made_from))
    out.write_json(_document(found, out.warnings))
    out.finish()


def _table(ranking: SystemRanking) -> Table:
    view = new_table("system", "strength", "interval", "won/tied/lost")
    for system in ranking.systems:
        interval = system.strength.interval
        told = "-" if interval is None else f"{interval.lower:+.3f} to {interval.upper:+.3f}"
        view.add_row(
            system.name,
            f"{system.strength.value or 0.0:+.3f}",
            told,
            f"{system.wins:g}/{system.ties:g}/{system.losses:g}",
        )
    return view


def _position_line(bias: PositionBias) -> str:
    if bias.preference_for_first is None:
        return "no pair has an outcome in both orders"
    return (
        f"of {plural(bias.pairs, 'pair', 'pairs')} in both orders {bias.same} "
        f"{word(bias.same, 'has', 'have')} the same outcome; the first place won both times in "
        f"{bias.first}, the second in {bias.second}; mean preference for the first place "
        f"{bias.preference_for_first:.3f} (0.5 without bias)"
    )


def _document(found: ComparedAnswers, warnings: list[str]) -> dict[str, Any]:
    ranking, scores = found.ranking, found.scores
    judge = next((s.judge for s in scores.rubrics if s.judge), None) if scores is not None else None
    return {
        "systems": [asdict(system) for system in ranking.systems],
        "tie": ranking.tie,
        "position": asdict(ranking.position),
        "queries": ranking.queries,
        "comparisons": [asdict(one) for one in found.comparisons],
        "missing": found.missing,
        "judge": None if judge is None else judge.signature,
        "usage": None if scores is None else asdict(scores.usage),
        "signature": ranking.signature,
        "warnings": list(warnings),
    }
