"""`judged score` and `judged rank`: answers scored by rubrics, systems ranked by their answers.

Whether a value of an option is allowed is the server's to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from judged import IntervalOptions, Rubric, ScoredAnswers, Source, Status
from judged._files import json_line
from judged._inputs import read_number
from judged._views import of_all, plural, word
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import (
    Drawn,
    MinCoverage,
    coverage_outcomes,
    hold_items,
    hold_mean,
    not_assessed,
    split_gate,
    split_min_scores,
)
from judged.cli.inputs import read_answers, read_candidates
from judged.cli.judging import (
    NONE,
    REPLAYED,
    AskingOptions,
    ModelOptions,
    TraceOptions,
    kept_trace,
    open_score_replay,
    read_calibration,
    read_judge,
    refuse_uncached,
    replayed,
    tell_circular,
    tell_kept,
)
from judged.cli.output import (
    STDOUT,
    Gate,
    Outcome,
    Output,
    Places,
    Problem,
    Table,
    open_output,
    say,
)
from judged.cli.tables import describe_usage, report_estimate, split_warnings
from judged.evaluation import compare_answers, score_by_panel
from judged.evaluation.answer_comparison import (
    RUBRIC,
    AnswerPairs,
    Combine,
    ComparedAnswers,
    replace_model,
)
from judged.evaluation.warnings import missing_kinds
from judged.report.summary import number
from judged.values import AnswerScore, PositionBias, RubricSummary, ServerInfo, SystemRanking

ANSWERS = "answers"
"""The judge whose parameters are those of every rubric."""


@dataclass(kw_only=True)
class ScoringOptions(ModelOptions, AskingOptions):
    """Which language model scores, and how it is asked."""

    judge_model: str | None = opt("NAME", "Language model, see `judged judges`.")
    judge_samples: int | None = opt(
        "N", "Samples of each score; by default 1 at temperature 0 and 3 above."
    )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What `--min-score` said: the threshold of an answer, and the gates on means."""

    threshold: float | None
    gates: Sequence[Gate]

    def outcomes(
        self, summaries: Sequence[RubricSummary], min_coverage: float | None
    ) -> list[Outcome]:
        """Return what became of every gate, with the coverage of what they are about."""
        found = {summary.rubric: summary for summary in summaries}
        gates = [_outcome(gate, found[gate.metric]) for gate in self.gates]
        gated = dict.fromkeys(gate.metric for gate in self.gates)
        for rubric in gated if min_coverage is None else found:
            counts = found[rubric].counts
            covered = [(counts.ok, counts.error + counts.abstained, "scores")]
            gates += coverage_outcomes(min_coverage, covered, rubric)
        return gates


def read_thresholds(texts: Sequence[str], rubrics: Sequence[str]) -> Thresholds:
    """Return the threshold and the gates of `--min-score`. Raises Problem."""
    known = [id_of(name) for name in rubrics]
    threshold, given = split_min_scores(texts)
    gates = []
    for text in given:
        name, value = split_gate(text, "--min-score")
        if (rubric := id_of(name)) not in known:
            raise Problem(
                f"--min-score {text}: {rubric} is not scored; add --rubric {rubric}, or name one "
                f"of {', '.join(known)}"
            )
        gates.append(Gate("--min-score", rubric, value))
    return Thresholds(threshold, gates)


def _outcome(gate: Gate, summary: RubricSummary) -> Outcome:
    """Hold a rubric's mean against its threshold, with what is missing at the bottom of the scale.

    What is not assessable is not missing: there is nothing that could be scored.
    """
    counts, mean = summary.counts, summary.mean
    if mean is None:
        return not_assessed(gate, f"{gate.metric} has no mean, since no answer has a score")
    missing = counts.error + counts.abstained
    lower = mean * counts.ok / (counts.ok + missing) if missing else None
    return hold_mean(gate, mean, lower)


def id_of(rubric: str) -> str:
    """Return a rubric's id without its version."""
    return rubric.partition("@")[0]


def places_of_rubrics(names: Sequence[str]) -> Places:
    """Return what the rubrics of a request are known as."""
    return {
        r"rubrics\[(\d+)\]\.calibration.*": lambda n: f"--rubric {names[int(n)]}: --calibration",
        r"rubrics\[(\d+)\](?:\.(?:rubric|id|version))?": lambda n: f"--rubric {names[int(n)]}",
    }


def read_rubrics(
    names: Sequence[str],
    info: ServerInfo,
    threshold: float | None,
    parameters: Sequence[str],
    weights: str | None = None,
) -> list[Rubric]:
    """Return the rubrics that the flags ask for. Raises Problem."""
    for place, name in enumerate(names):
        if id_of(name) in map(id_of, names[:place]):
            raise Problem(f"--rubric {name}: is given twice")
    asked = read_judge(info, ANSWERS, None, None, parameters).parameters
    given = {} if weights is None else _read_weights(weights)
    has = {rubric.rubric: rubric.dimensions.keys() for rubric in info.rubrics}
    # Without one that has them all the server says which dimensions there are.
    fit = [n for n in names if given.keys() <= has.get(id_of(n), given.keys())] or names
    return [Rubric(name, threshold, asked, given if name in fit else {}) for name in names]


def _read_weights(text: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        weight = read_number(number)
        if not name or weight is None or weight < 0:
            raise Problem(
                f"--weights {text}: write name=weight with weights of 0 or more, as in "
                "accuracy=2,completeness=1"
            )
        if name in weights:
            raise Problem(f"--weights {text}: {name} is given twice")
        weights[name] = weight
    return weights


def with_calibrations(
    rubrics: Sequence[Rubric], info: ServerInfo, given: Sequence[str]
) -> list[Rubric]:
    """Return the rubrics with the calibrations that the flags name. Raises Problem."""
    found = {rubric.id: rubric for rubric in rubrics}
    for text in given:
        name, equals, source = text.partition("=")
        if not equals or name not in found:
            if len(found) > 1:
                raise Problem(
                    f"--calibration {text}: say which rubric it is of, RUBRIC=FILE, one of "
                    f"{', '.join(found)}"
                )
            (name,), source = found, text
        if found[name].calibration is not None:
            raise Problem(f"--calibration {text}: {name} has one already")
        found[name] = replace(found[name], calibration=read_calibration(info, source))
    return [*found.values()]


def by_model(
    rubrics: Sequence[Rubric], models: Sequence[str], info: ServerInfo
) -> list[list[Rubric]]:
    """Return the rubrics as each member of a panel is asked by them, else as they are.

    Raises Problem for a member that the server lacks.
    """
    known = [model.name for model in info.chat_models]
    for name in models:
        if known and name not in known:
            raise Problem(
                f"--member {name}: no language model is called that; this server has "
                f"{', '.join(known)}"
            )
    if not models:
        return [list(rubrics)]
    return [[replace_model(rubric, model) for rubric in rubrics] for model in models]


_SHOWN_WARNINGS = 5
_COUNTED = ("ok", "error", "abstained", "not_assessable")


@dataclass(kw_only=True)
class ScoreCommand(ScoringOptions, TraceOptions, MinCoverage):
    """Score answers by rubrics.

    Examples:
    judged score answers.jsonl --rubric faithfulness --rubric answer_relevance
    judged score answers.jsonl --rubric faithfulness --min-score faithfulness=0.8
    judged score answers.jsonl --rubric helpfulness --member small --member large
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
    weights: str | None = opt(
        "NAME=W,...",
        "Weights of a rubric's dimensions, as in accuracy=2,completeness=1; a dimension left out "
        "counts for nothing.",
    )
    calibration: Sequence[str] = many(
        "[RUBRIC=]FILE|NAME",
        "Give each score a probability, by a file of `judged calibrate --rubric -o` or by the name "
        "of a calibration that the server has; repeat it for each rubric.",
    )
    member: Sequence[str] = many(
        "MODEL",
        "Language model of a panel, in place of --judge-model, see `judged judges`; repeat it for "
        "each, from 2 to 16.",
    )
    combine: Combine | None = opt(
        None, "How the scores of the members become one; mean by default."
    )
    per_item: bool = flag("Show the scores of every answer, not only the means.")
    details: bool = flag("Give reasoning, claims, replies and usage with each score.")
    judge: str | None = opt("none", "Ask no model: see --trace and --no-judge.")
    output: str | None = opt(
        "FILE|-", "Write every score as a JSON line; - prints them.", writes=True
    )

    def settle(self) -> None:
        """Refuse judges other than none, and what does not go with that."""
        if self.judge not in {None, NONE}:  # answers have one judge, whatever others are to ask
            if "judge" in self.typed:
                raise Problem(
                    f"--judge {self.judge}: answers are scored by language models, see "
                    "--judge-model; only --judge none is there"
                )
            self.leave_out("judge")
        super().settle()
        if self.replays:
            if self.calibration:
                raise Problem(
                    f"--calibration and {REPLAYED} exclude each other: a trace has bare scores"
                )
            self.leave_out("cache_only")
            self.leave_out("judge_refresh", f"no model is asked with {REPLAYED}; leave one out")
        if self.combine is not None and not self.member:
            raise Problem(f"--combine {self.combine}: is for a panel; name its models by --member")
        if self.member and self.judge_model is not None:
            raise Problem("--member: takes the place of --judge-model; leave that out")
        if self.member and (self.trace is not None or self.replays):
            raise Problem(
                f"--member: a trace keeps the scores of one model; leave out --trace and "
                f"{REPLAYED}. To ask no model again, say --cache-only"
            )

    def run(self, out: Output) -> Document:
        """Score, and write lines, tables and gates."""
        thresholds = read_thresholds(self.min_score, self.rubric)
        file = read_answers(self.answers)
        given, asking = self.parameters(), self.how_asked()
        members: Mapping[str, ScoredAnswers] = {}
        kept = kept_trace(self, out)
        places = {**self.places(), **places_of_rubrics(self.rubric), **file.places()}
        total = len(file.items) * len(self.rubric)
        with self.asking("scoring", total, places) as (server, progress):
            client, info = server.client, server.info
            rubrics = read_rubrics(self.rubric, info, thresholds.threshold, given, self.weights)
            each_model = by_model(rubrics, self.member, info)
            if not self.replays:
                asked = [rubric for some in each_model for rubric in some]
                tell_circular(out, file.system_models, info, asked)
            rubrics = with_calibrations(rubrics, info, self.calibration)
            if self.replays:
                replay = open_score_replay(
                    *(self, out, server),
                    from_cache=bool(given or self.weights),
                    details=self.details,
                    timeout=self.timeout,
                )
                with replayed(self, out, replay):
                    found = replay.scores(file.items, rubrics, info.rubrics)
            elif self.estimate:
                would = [client.estimate_scores(file.items, r, asking=asking) for r in each_model]
                return report_estimate(out, sum(would[1:], would[0]))
            else:
                how: dict[str, Any] = {
                    "include_replies": self.details,
                    "asking": asking,
                    "timeout": self.timeout,
                    "progress": progress,
                }
                if self.member:
                    combine = self.combine or Combine.MEAN
                    scored = score_by_panel(
                        file.items, rubrics, self.member, client=client, combine=combine, **how
                    )
                    found, members = scored.scores, scored.members
                else:
                    found = client.score_answers(file.items, rubrics, **how)
                if kept is not None:
                    kept.keep_scores(file.items, found.scores, info.rubrics)
                    tell_kept(kept)
            for some in members.values() or [found]:
                refuse_uncached(some)
        return self._report(out, found, members, thresholds, file.min_scores)

    def _report(
        self,
        out: Output,
        found: ScoredAnswers,
        members: Mapping[str, ScoredAnswers],
        thresholds: Thresholds,
        min_scores: Mapping[str, float],
    ) -> Document:
        """Print the tables and write the lines; `members` are the scores of the models of a panel.

        `min_scores` are what the scores of single items must reach, by their lines.
        """
        lines = [score_line(score, details=self.details) for score in found]
        for model, of_model in members.items():
            for line, score in zip(lines, of_model, strict=True):
                whole = score_line(score, details=self.details)
                told = ("status", "score", "passed", "error", "detail")
                line.setdefault("members", {})[model] = {k: whole[k] for k in told if k in whole}
        if self.output is not None and not (self.output == STDOUT and out.takes_stdout):
            with open_output(self.output, "--output") as file:
                file.writelines(map(json_line, lines))
        out.gates = thresholds.outcomes(found.rubrics, self.min_coverage)
        if min_scores:
            out.gates.append(hold_items(found, min_scores))
        made_from = [describe_scores(found), *_tell_scores(out, found)]
        if any(score.source is not Source.REPLAY for score in found):  # else nobody was asked
            made_from.append(describe_usage(found.usage))
        if self.output == STDOUT:  # the lines have standard output to themselves
            for text in made_from:
                say(text)
        else:
            if self.per_item:
                out.show(items_table(found), "")
            out.show(rubrics_table(found), "", "\n".join(made_from))
        return _scores_document(found, lines)


def _tell_scores(out: Output, found: ScoredAnswers) -> list[str]:
    """Warn of what needs it, take note of failures; return the judges' signatures, a line each."""
    out.warn(*score_warnings(found))
    failed = sum(score.status is Status.ERROR for score in found)
    out.count(failed=failed, total=len(found), errors=found.errors.values())
    judges = {s.judge.signature: None for s in found.rubrics if s.judge is not None}
    return [f"judge {signature}" for signature in judges]


def rubrics_table(found: ScoredAnswers) -> Table:
    """Return a row for each rubric: its mean, and what its scores came to."""
    heads = ["rubric", "mean", "passed", "ok", "abstained", "error", "not assessable", "agreement"]
    rows = []
    for summary in found.rubrics:
        counts, name = summary.counts, summary.rubric
        numbers = map(str, (counts.ok, counts.abstained, counts.error, counts.not_assessable))
        passed = f"{summary.passed} of {counts.ok}"
        agreement = number(agreement_of(found, name))
        rows.append([name, number(summary.mean), passed, *numbers, agreement])
    return Table(heads, rows)


def items_table(found: ScoredAnswers) -> Table:
    """Return a row for each answer: its score by each rubric, or why it has none."""
    n = len(found.rubrics)
    rows = [found.scores[start : start + n] for start in range(0, len(found), n)]
    heads = ["item", *(summary.rubric for summary in found.rubrics)]
    return Table(heads, [[row[0].item_id, *map(_cell, row)] for row in rows])


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


def _scores_document(found: ScoredAnswers, lines: Sequence[dict[str, Any]]) -> Document:
    return {
        "scores": list(lines),
        "rubrics": {
            summary.rubric: {
                "mean": summary.mean,
                "passed": summary.passed,
                "counts": {name: getattr(summary.counts, name) for name in _COUNTED},
                "agreement": agreement_of(found, summary.rubric),
                "signature": None if summary.judge is None else summary.judge.signature,
            }
            for summary in found.rubrics
        },
        "usage": asdict(found.usage),
    }


@dataclass(kw_only=True)
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
    resamples: int = opt("N", "Resamples of queries.", 1_000, low=100, high=100_000)

    def run(self, out: Output) -> Document:
        """Compare, and rank."""
        pairs = AnswerPairs(read_candidates(self.answers))
        given, asking = self.parameters(), self.how_asked()
        interval = IntervalOptions.of(
            confidence=self.confidence, resamples=self.resamples, seed=self.seed
        )
        places = {**self.places(), **places_of_rubrics([self.rubric])}
        with self.asking("comparing", len(pairs.items), places) as (server, progress):
            fields = {info.rubric: info.fields for info in server.info.rubrics}
            shown = fields.get(id_of(self.rubric))
            if shown is not None and not {"answer", "other_answer"} <= set(shown):
                raise Problem(f"--rubric {self.rubric}: shows no two answers; {RUBRIC} does")
            [asked] = read_rubrics([self.rubric], server.info, None, given)
            if self.estimate:
                would = server.client.estimate_scores(pairs.items, [asked], asking=asking)
                return report_estimate(out, would)
            found = compare_answers(
                pairs,
                client=server.client,
                rubric=asked,
                interval=interval,
                asking=asking,
                timeout=self.timeout,
                progress=progress,
            )
        ranking, scores = found.ranking, found.scores
        out.warn(*ranking.warnings)
        comparisons = plural(len(found.comparisons), "comparison", "comparisons")
        queries = plural(ranking.queries, "query", "queries")
        made_from = [
            f"{comparisons} of {queries}; {ranking.signature}",
            _position(ranking.position),
        ]
        if scores is not None:
            made_from += [*_tell_scores(out, scores), describe_usage(scores.usage)]
        out.show(_ranking_table(ranking), "", "\n".join(made_from))
        return _ranking_document(found)


def _ranking_table(ranking: SystemRanking) -> Table:
    rows = []
    for system in ranking.systems:
        interval = system.strength.interval
        told = "-" if interval is None else f"{interval.lower:+.3f} to {interval.upper:+.3f}"
        counts = f"{system.wins:g}/{system.ties:g}/{system.losses:g}"
        rows.append([system.name, f"{system.strength.value or 0.0:+.3f}", told, counts])
    return Table(["system", "strength", "interval", "won/tied/lost"], rows)


def _position(bias: PositionBias) -> str:
    if bias.preference_for_first is None:
        return "no pair has an outcome in both orders"
    return (
        f"of {plural(bias.pairs, 'pair', 'pairs')} in both orders {bias.same} "
        f"{word(bias.same, 'has', 'have')} the same outcome; the first place won both times in "
        f"{bias.first}, the second in {bias.second}; mean preference for the first place "
        f"{bias.preference_for_first:.3f} (0.5 without bias)"
    )


def _ranking_document(found: ComparedAnswers) -> Document:
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
    }
