"""`judged score` and `judged rank`: score answers by rubrics, rank systems by their answers.

The server validates the values of options.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from judged import Calibrator, IntervalOptions, Rubric, ScoredAnswers, Source, Status
from judged._files import json_line
from judged._views import of_all, plural, row_of, word
from judged.cli.documents import scored_metric
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import (
    Drawn,
    MinCoverage,
    check_coverage,
    check_items,
    check_mean,
    read_gate,
    split_min_scores,
)
from judged.cli.inputs import name_of, read_answers, read_candidates
from judged.cli.judging import (
    MODEL,
    NONE,
    REPLAYED,
    AskingOptions,
    ModelOptions,
    TraceOptions,
    kept_trace,
    read_calibration,
    read_judge,
    read_trace,
    refuse_uncached,
    replayed,
)
from judged.cli.output import (
    STDOUT,
    Gate,
    Outcome,
    Output,
    Places,
    Problem,
    Table,
    explained,
    say,
)
from judged.cli.tables import describe_usage, report_estimate, split_warnings
from judged.evaluation import compare_answers
from judged.evaluation.answers import RUBRIC, AnswerPairs
from judged.evaluation.asking import judging_models, warn_circular
from judged.evaluation.result import missing_kinds
from judged.report.content import ends
from judged.traces import ScoreReplay
from judged.values import (
    AnswerScore,
    PositionBias,
    RubricSummary,
    ServerInfo,
    SystemRanking,
)

ANSWERS = "answers"
"""The judge whose parameters are those of every rubric."""


class ScoringOptions(ModelOptions, AskingOptions):
    """Which language model scores, and how it is asked."""

    judge_model: str | None = opt("NAME", "Language model, see `judged judges`.")
    judge_samples: int | None = opt(
        "N", "Samples of each score; by default 1 at temperature 0 and 3 above."
    )


def read_thresholds(
    texts: Sequence[str], rubrics: Sequence[str]
) -> tuple[float | None, list[Gate]]:
    """Return the threshold of an answer and the gates on means of `--min-score`. Raises Problem."""
    threshold, given = split_min_scores(texts)
    known, gates = [Rubric(name).id for name in rubrics], []
    for text in given:
        name, _, number = text.rpartition("=")
        typed = f"{Rubric(name).id}={number}"
        gates.append(read_gate(typed, "--min-score", known, option="--rubric"))
    return threshold, gates


def outcomes(
    gates: Sequence[Gate], summaries: Sequence[RubricSummary], min_coverage: float | None
) -> Iterator[Outcome]:
    """Yield the gates' outcomes, then coverage: of all rubrics, or by default those with gates.

    A missing score counts as 0; an item that is not assessable is not missing.
    """
    found = {summary.rubric: summary for summary in summaries}
    for gate in gates:
        metric = scored_metric(gate.metric, found[gate.metric].mean, found[gate.metric].counts)
        yield check_mean(gate, metric.mean, metric.lower_bound if metric.n else None)
    for rubric in dict.fromkeys(gate.metric for gate in gates) if min_coverage is None else found:
        yield from check_coverage(min_coverage, found[rubric].counts, "scores", rubric)


def places_of_rubrics(names: Sequence[str]) -> Places:
    """Return the names of a request's rubrics in messages."""
    return {
        r"rubrics\[(\d+)\]\.calibration.*": lambda n: f"--rubric {names[int(n)]}: --calibration",
        r"rubrics\[(\d+)\](?:\.(?:rubric|id|version))?": lambda n: f"--rubric {names[int(n)]}",
    }


def read_rubrics(
    names: Sequence[str], info: ServerInfo, threshold: float | None, given: Mapping[str, str]
) -> list[Rubric]:
    """Return the rubrics that the flags name. Raises Problem."""
    parameters = read_judge(info, ANSWERS, None, None, given).parameters
    return [Rubric(name, threshold, parameters) for name in names]


def with_calibrations(rubrics: Sequence[Rubric], given: Sequence[str]) -> list[Rubric]:
    """Return the rubrics with the calibrations that the flags name. Raises Problem."""
    names = [rubric.id for rubric in rubrics]
    found: dict[str, Calibrator | str] = {}
    for text in given:
        name, equals, source = text.partition("=")
        if len(names) == 1 and (not equals or name not in names):
            name, equals, source = names[0], "=", text
        if not equals or name not in names or name in found:
            known = ", ".join(names)
            raise Problem(
                f"--calibration {text}: write it as RUBRIC=FILE, once for each of {known}"
            )
        found[name] = read_calibration(source)
    return [replace(rubric, calibration=found.get(rubric.id)) for rubric in rubrics]


_SHOWN_WARNINGS = 5
_COUNTED = "ok error abstained not_assessable"
_LINE = (
    "item_id",
    "rubric",
    "status",
    "score",
    "passed",
    "min_score",
    "agreement",
    "samples",
    "source",
)
_DETAIL = ("reasoning", "claims", "raw_replies", "model", "system_fingerprint", "usage")


class ScoreCommand(ScoringOptions, TraceOptions, MinCoverage):
    """Score answers by rubrics.

    Examples:
    judged score answers.jsonl --rubric faithfulness --rubric answer_relevance
    judged score answers.jsonl --rubric faithfulness --min-score faithfulness=0.8
    """

    answers: str = arg(
        "ANSWERS.jsonl",
        "Lines of {item_id, query, answer, references, contexts}; - reads standard input.",
    )
    rubric: Sequence[str] = many(
        "ID[@VERSION]",
        "Rubric to score by, see `judged judges`; may be repeated. With a version, another one of "
        "the server's is refused.",
        required=True,
    )
    min_score: Sequence[str] = many(
        "X|RUBRIC=X",
        "A number: score from which an answer passes. RUBRIC=X, a gate: exit with 1 when the mean "
        "of the rubric is below X, scores that are missing counted as 0; may be repeated.",
    )
    calibration: Sequence[str] = many(
        "[RUBRIC=]FILE|NAME",
        "Give each score a probability, by a file of `judged calibrate --rubric -o` or by the name "
        "of a calibration that the server has; repeat it for each rubric.",
    )
    details: bool = flag("Give reasoning, claims, replies and usage with each score.")
    judge: str | None = opt("none", "Ask no model: take what --trace has.")
    output: str | None = opt(
        "FILE|-", "Write every score as a JSON line; - prints them.", writes=True
    )

    def settle(self) -> None:
        """Refuse judges other than none, and options that don't go with that."""
        if self.judge not in {None, NONE}:  # JUDGED_JUDGE may be set for other commands
            self.leave_out(
                "judge",
                "answers are scored by language models, see --judge-model; only none is one",
            )
        super().settle()
        if self.replays:
            self.leave_out("cache_only")
            names = f"{MODEL} param calibration judge_refresh"
            self.leave_out(names, f"{REPLAYED} takes scores as they are kept")

    def places(self) -> Places:
        """Return the names of rubrics in messages: as they were typed."""
        return places_of_rubrics(self.rubric) | super().places()

    def run(self, out: Output) -> Document:
        """Score, and write lines, tables and gates."""
        threshold, gates = read_thresholds(self.min_score, self.rubric)
        file, given, asking = read_answers(self.answers), self.parameters(), self.asking_options()
        kept = kept_trace(self)
        items, total = file.items, len(file.lines) * len(self.rubric)
        with self.asking("scoring", total, file.places()) as (client, info, how):
            rubrics = read_rubrics(self.rubric, info, threshold, given)
            rubrics = with_calibrations(rubrics, self.calibration)
            how["include_replies"] = self.details
            if self.replays:
                replay = ScoreReplay(read_trace(self))
                with replayed(self, {}):
                    found = replay.scores(items, rubrics, info.rubrics)
            else:
                systems = (line.system_model for line in file.lines if line.system_model)
                warn_circular(systems, judging_models(info, rubrics))
                if self.estimate:
                    would = client.estimate_scores(items, rubrics, asking=asking)
                    return report_estimate(out, would)
                how["asking"] = asking
                found = client.score_answers(items, rubrics, **how)
                if kept is not None:
                    kept.keep_scores(items, found.scores)
            refuse_uncached(found)
        out.gates = [*outcomes(gates, found.rubrics, self.min_coverage)]
        min_scores = {
            line.item.item_id: line.min_score for line in file.lines if line.min_score is not None
        }
        if min_scores:
            out.gates.append(check_items(found, min_scores))
        return self._report(out, found)

    def _report(self, out: Output, found: ScoredAnswers) -> Document:
        """Print the tables and write the lines."""
        lines = [score_line(score, details=self.details) for score in found]
        out.write("--output", self.output, map(json_line, lines))
        answers = plural(len(found) // max(1, len(found.rubrics)), "answer", "answers")
        by = plural(len(found.rubrics), "rubric")
        made_from = [f"{answers} by {by}", *_report_scores(out, found)]
        if any(score.source is not Source.REPLAY for score in found):  # else no model was asked
            made_from.append(describe_usage(found.usage))
        if self.output == STDOUT:  # the lines have standard output to themselves
            for text in made_from:
                say(text)
        else:
            out.show(rubrics_table(found), "", *made_from)
        return {
            "scores": lines,
            "rubrics": {
                summary.rubric: {
                    **row_of(summary, "mean passed"),
                    "counts": row_of(summary.counts, _COUNTED),
                    "agreement": agreement_of(found, summary.rubric),
                    "signature": None if summary.judge is None else summary.judge.signature,
                }
                for summary in found.rubrics
            },
            "usage": found.usage,
        }


def _report_scores(out: Output, found: ScoredAnswers) -> list[str]:
    """Print warnings, count failures; return the judges' signatures, a line each."""
    out.warn(*score_warnings(found))
    failed = sum(score.status is Status.ERROR for score in found)
    out.count(failed=failed, total=len(found), errors=found.errors.values())
    judges = {s.judge.signature: None for s in found.rubrics if s.judge is not None}
    return [f"judge {signature}" for signature in judges]


def rubrics_table(found: ScoredAnswers) -> Table:
    """Return a row for each rubric: its mean, and the counts of its scores."""
    heads = ["rubric", "mean", "passed", "ok", "abstained", "error", "not assessable", "agreement"]
    rows = []
    for summary in found.rubrics:
        counts, name = summary.counts, summary.rubric
        numbers = (counts.ok, counts.abstained, counts.error, counts.not_assessable)
        passed = f"{summary.passed} of {counts.ok}"
        rows.append((name, summary.mean, passed, *numbers, agreement_of(found, name)))
    return Table(heads, rows)


def agreement_of(found: ScoredAnswers, rubric: str) -> float | None:
    """Return the mean agreement of the votes on a rubric's scores; None if there were no votes.

    A single sample is not a vote.
    """
    of_rubric = [score for score in found if score.rubric == rubric and score.samples > 1]
    shares = [score.agreement for score in of_rubric if score.agreement is not None]
    return sum(shares) / len(shares) if shares else None


def score_warnings(found: ScoredAnswers) -> Iterator[str]:
    """Yield warnings about scores."""
    status = Counter(score.status for score in found)
    if missing := len(found) - status[Status.OK]:
        kinds = missing_kinds(
            status[Status.ERROR], status[Status.ABSTAINED], status[Status.NOT_ASSESSABLE]
        )
        some = of_all(missing, len(found), "score")
        yield f"{some} {word(missing, 'is', 'are')} missing: {kinds}"
    why = Counter(
        (score.rubric, f" missing: {score.error.reason}: {score.error.message}")
        for score in found
        if score.error is not None
    )
    warned = Counter((score.rubric, f": {text}") for score in found for text in score.warnings)
    split = sum(score.agreement is not None and score.agreement < 1 for score in found)
    for counts in (why, warned):
        for (rubric, text), n in counts.most_common(_SHOWN_WARNINGS):
            yield f"{rubric}: {plural(n, 'score')}{text}"
    yield from split_warnings(split, len(found), "score")


def score_line(score: AnswerScore, *, details: bool) -> dict[str, Any]:
    """Return a score as a JSON object."""
    fields = score.to_dict()
    rare = {
        "probability": score.probability,
        "dimensions": {d.name: d.score for d in score.dimensions},
        "claims": dict(Counter(claim.verdict.name for claim in score.claims)),
        "reported_overall": score.reported_overall,
        "error": score.error and row_of(score.error, "reason message"),
        "warnings": fields["warnings"],
    }
    line = {name: fields[name] for name in _LINE}
    line |= {name: value for name, value in rare.items() if value not in (None, {}, [])}
    if details:
        line["detail"] = {
            **{name: fields[name] for name in _DETAIL},
            "weights": {d.name: d.weight for d in score.dimensions},
            "signature": None if score.judge is None else score.judge.signature,
        }
    return line


class RankCommand(ScoringOptions, Drawn):
    """Rank systems: a language model compares their answers.

    Examples:
    judged rank answers.jsonl --judge-model small --json ranking.json
    judged rank answers.jsonl --estimate
    """

    answers: str = arg(
        "ANSWERS.jsonl",
        "A line an answer: {query_id, query, system, answer}; - reads standard input.",
    )
    rubric: str = opt(
        "ID[@VERSION]",
        "Rubric that shows an answer and the other answer; see `judged judges`.",
        RUBRIC,
    )
    resamples: int = opt("N", "Resamples of queries.", 1_000)

    def run(self, out: Output) -> Document:
        """Compare, and rank."""
        read = read_candidates(self.answers)
        places: Places = {
            r"answers\[(\d+)\]": lambda at: f"{name_of(self.answers)}:{read[int(at)][0]}",
            "answers": name_of(self.answers),
        }
        with explained(places):
            pairs = AnswerPairs([answer for _, answer in read])
        if n := len(pairs.alone):
            queries = plural(n, "query has an answer", "queries have answers")
            out.warn(f"{queries} of one system alone, left out; the first is {pairs.alone[0]!r}")
        given, asking = self.parameters(), self.asking_options()
        of_rubric = places_of_rubrics([self.rubric])
        with self.asking("comparing", len(pairs.items), of_rubric) as (client, info, how):
            fields = {each.rubric: each.fields for each in info.rubrics}
            shown = fields.get(Rubric(self.rubric).id)
            if shown is not None and not {"answer", "other_answer"} <= set(shown):
                raise Problem(f"--rubric {self.rubric}: shows no two answers; {RUBRIC} does")
            [asked] = read_rubrics([self.rubric], info, None, given)
            if self.estimate:
                would = client.estimate_scores(pairs.items, [asked], asking=asking)
                return report_estimate(out, would)
            interval = self.options(IntervalOptions)
            how |= {"rubric": asked, "interval": interval, "asking": asking}
            found = compare_answers(pairs, client=client, **how)
        ranking, scores = found.ranking, found.scores
        out.warn(*ranking.warnings)
        comparisons = plural(len(found.comparisons), "comparison")
        queries = plural(ranking.queries, "query", "queries")
        made_from = [
            f"{comparisons} of {queries}; {ranking.signature}",
            _position(ranking.position),
        ]
        if scores is not None:
            made_from += [*_report_scores(out, scores), describe_usage(scores.usage)]
        out.show(_ranking_table(ranking), "", *made_from)
        judges = [s.judge.signature for s in (scores.rubrics if scores else ()) if s.judge]
        return {
            **row_of(ranking, "systems tie position queries signature"),
            **row_of(found, "comparisons missing"),
            "judge": judges[0] if judges else None,
            "usage": None if scores is None else scores.usage,
        }


def _ranking_table(ranking: SystemRanking) -> Table:
    rows = []
    for system in ranking.systems:
        interval = ends(system.strength.interval, "+.3f")
        counts = f"{system.wins:g}/{system.ties:g}/{system.losses:g}"
        rows.append([system.name, f"{system.strength.value or 0.0:+.3f}", interval, counts])
    return Table(["system", "strength", "interval", "won/tied/lost"], rows)


def _position(bias: PositionBias) -> str:
    if bias.preference_for_first is None:
        return "no pair has an outcome in both orders"
    return (
        f"of {plural(bias.pairs, 'pair')} in both orders {bias.same} have the same outcome; mean "
        f"preference for the first place {bias.preference_for_first:.3f} (0.5 without bias)"
    )
