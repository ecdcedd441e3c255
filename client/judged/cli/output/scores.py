"""Scores of answers for people and for programs: tables, lines, a document, the warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from judged import ScoredAnswers, Status
from judged._views import of_all, plural, word
from judged.cli.output.usage import split_warnings
from judged.cli.output.writer import new_table
from judged.evaluation._steps.warnings import missing_kinds
from judged.report.summary import number
from judged.values import AnswerScore

_SHOWN_WARNINGS = 5


def rubrics_table(found: ScoredAnswers) -> Table:
    """Return a row for each rubric: its mean, and what its scores came to."""
    view = new_table(
        "rubric", "mean", "passed", "ok", "abstained", "error", "not assessable", "agreement"
    )
    for summary in found.rubrics:
        counts = summary.counts
        view.add_row(
            summary.rubric,
            number(summary.mean),
            f"{summary.passed} of {counts.ok}",
            *map(str, (counts.ok, counts.abstained, counts.error, counts.not_assessable)),
            number(agreement_of(found, summary.rubric)),
        )
    return view


def items_table(found: ScoredAnswers) -> Table:
    """Return a row for each answer: its score by each rubric, or why it has none."""
    view = new_table("item", *(summary.rubric for summary in found.rubrics))
    n = len(found.rubrics)
    for start in range(0, len(found), n):
        row = found.scores[start : start + n]
        view.add_row(row[0].item_id, *map(_cell, row))
    return view


def _cell(score: AnswerScore) -> str:
    if score.score is None:
        return score.status.name.lower().replace("_", " ")
    return f"{score.score:.4f}" if score.passed else f"{score.score:.4f} (below)"


def agreement_of(found: ScoredAnswers, rubric: str) -> float | None:
    """Return the mean agreement of the votes on a rubric's scores; None where none voted.

    One sample agrees with itself, which is no vote.
    """
    of_rubric = [score for score in found if score.rubric == rubric and score.samples > 1]
    shares = [score.agreement for score in of_rubric if score.agreement is not None]
    return sum(shares) / len(shares) if shares else None


def describe_scores(found: ScoredAnswers) -> str:
    """Return what was scored, as a line."""
    answers = len(found) // max(1, len(found.rubrics))
    rubrics = plural(len(found.rubrics), "rubric", "rubrics")
    return f"{plural(answers, 'answer', 'answers')} by {rubrics}"


def score_warnings(found: ScoredAnswers) -> Iterator[str]:
    """Yield what the reader of scores should know about them."""
    missing = Counter(score.status for score in found if score.status is not Status.OK)
    if missing:
        kinds = missing_kinds(
            *(missing[each] for each in (Status.ERROR, Status.ABSTAINED, Status.NOT_ASSESSABLE))
        )
        some = of_all(missing.total(), len(found), "score", "scores")
        yield f"{some} {word(missing.total(), 'is', 'are')} missing: {kinds}"
        for (rubric, reason), n in _reasons(found).most_common(_SHOWN_WARNINGS):
            yield f"{rubric}: {plural(n, 'score', 'scores')} missing: {reason}"
    split = sum(score.agreement is not None and score.agreement < 1 for score in found)
    yield from split_warnings(split, len(found), "score")
    said = Counter((score.rubric, text) for score in found for text in score.warnings)
    for (rubric, text), n in said.most_common(_SHOWN_WARNINGS):
        yield f"{rubric}: {plural(n, 'score', 'scores')}: {text}"


def _reasons(found: ScoredAnswers) -> Counter[tuple[str, str]]:
    """Return how often each reason left a rubric without a score."""
    return Counter(
        (score.rubric, f"{score.error.reason}: {score.error.message}")
        for score in found
        if score.error is not None
    )


def score_line(score: AnswerScore, *, details: bool) -> dict[str, Any]:
    """Return a score as a JSON object."""
    fields: dict[str, Any] = {
        "item_id": score.item_id,
        "rubric": score.rubric,
        "status": score.status.name,
        "score": score.score,
        "passed": score.passed,
        "min_score": score.min_score,
        "agreement": score.agreement if score.samples > 1 else None,
        "samples": score.samples,
        "source": None if score.source is None else score.source.name,
    }
    if score.probability is not None:
        fields["probability"] = score.probability
    if score.dimensions:
        fields["dimensions"] = {d.name: d.score for d in score.dimensions}
    if score.claims:
        fields["claims"] = dict(Counter(claim.verdict.name for claim in score.claims))
    if score.reported_overall is not None:
        fields["reported_overall"] = score.reported_overall
    if score.error is not None:
        fields["error"] = {"reason": score.error.reason, "message": score.error.message}
    if score.warnings:
        fields["warnings"] = list(score.warnings)
    return fields | {"detail": _detail(score)} if details else fields


def member_score(score: AnswerScore, *, details: bool) -> dict[str, Any]:
    """Return what a line of a panel's score tells of a member's."""
    line = score_line(score, details=details)
    told = ("status", "score", "passed", "error", "detail")
    return {name: line[name] for name in told if name in line}


def _detail(score: AnswerScore) -> dict[str, Any]:
    return {
        "reasoning": score.reasoning,
        "claims": [
            {"claim": c.claim, "verdict": c.verdict.name, "evidence": c.evidence}
            for c in score.claims
        ],
        "weights": {d.name: d.weight for d in score.dimensions},
        "raw_replies": list(score.raw_replies),
        "model": score.model,
        "system_fingerprint": score.system_fingerprint,
        "usage": asdict(score.usage),
        "signature": None if score.judge is None else score.judge.signature,
    }


def scores_document(
    found: ScoredAnswers, lines: Sequence[dict[str, Any]], warnings: list[str]
) -> dict[str, Any]:
    """Return the JSON document of a scoring."""
    return {
        "scores": list(lines),
        "rubrics": {
            summary.rubric: {
                "mean": summary.mean,
                "passed": summary.passed,
                "counts": {
                    name: n for name, n in asdict(summary.counts).items() if name in _COUNTED
                },
                "agreement": agreement_of(found, summary.rubric),
                "signature": None if summary.judge is None else summary.judge.signature,
            }
            for summary in found.rubrics
        },
        "usage": asdict(found.usage),
        "warnings": warnings,
    }


_COUNTED = ("ok", "error", "abstained", "not_assessable")
