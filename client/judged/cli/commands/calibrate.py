"""`judged calibrate` and `judged frontier`: measure judges against labelled lines.

The server computes the numbers and the guarantees of cascades.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice

from judged import (
    Asking,
    CacheMode,
    CalibrateOptions,
    Judge,
    LabelledScores,
    QueryGroup,
    ScoredAnswers,
    Verdict,
    Verdicts,
)
from judged._convert import CostLimit
from judged._views import plain, plural, row_of
from judged.cli.commands.score import places_of_rubrics, read_rubrics, score_warnings
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import Drawn, IntervalOption
from judged.cli.inputs import (
    LABEL,
    FoldedLines,
    Line,
    cluster_of,
    of_lines,
    read_answers,
    read_labels,
)
from judged.cli.judging import (
    LLM,
    NONE,
    REPLAYED,
    AskingOptions,
    JudgeOptions,
    Spending,
    read_amount,
    read_member,
    refuse_uncached,
)
from judged.cli.output import Output, Places, Problem, Table, explained, progress_bar, say
from judged.cli.server import JudgingCommand
from judged.cli.tables import (
    describe_guarantee,
    describe_usage,
    estimate_warnings,
    estimates_table,
    fields_but,
    report_estimate,
    usage_document,
    vote_warnings,
)
from judged.evaluation.result import reason_warnings, reasons_of, verdict_warnings
from judged.report.content import ends, number
from judged.values import (
    AnswerScore,
    Calibration,
    CascadeFrontier,
    CascadeOptions,
    CorrectedEstimate,
    CostEstimate,
    Estimate,
    FrontierPoint,
    ScoredStage,
    ServerInfo,
    StagedLabels,
    ThresholdCriterion,
    Usage,
    VerdictCounts,
    save_cascade,
)
from judged.values.choices import estimates_of


class CalibrateCommand(JudgeOptions, AskingOptions, IntervalOption):
    """Compare a judge with human labels.

    Reports its quality, the best threshold, and means corrected for its error.

    Examples:
    judged calibrate labels.jsonl --judge semantic
    judged calibrate labels.jsonl --judge token_overlap --json quality.json
    """

    labels: str = arg(
        "LABELS.jsonl",
        "Lines of {query, expected_text, retrieved_text, relevant: true|false|null}, query_id and "
        "expected_alternatives if there are any; - reads standard input.",
    )
    rubric: str | None = opt(
        "ID",
        "Calibrate the scores of this rubric instead of a judge: lines are answers, as `judged "
        "score` reads them, with `relevant` for those that people labelled.",
    )
    judge: str | None = opt("KIND", "Judge, see `judged judges`; none reads `score` of the lines.")
    min_score: float | None = opt("X", "Score from which a verdict is relevant.")
    label_field: str = opt("NAME", "The field that holds the labels.", LABEL)
    precision_floor: float | None = opt("X", "Precision that the third threshold must keep; 0.9.")
    folds: int | None = opt("N", "Folds of cross-validation; 5.")
    max_error: float | None = opt("X", "Error that the cascade's bounds allow; 0.05.")
    max_share: float | None = opt(
        "X",
        "Share of the items that the judge passes on as a stage of a cascade, in place of bounds "
        "by --max-error.",
    )
    criterion: ThresholdCriterion | None = opt(
        None,
        "What the threshold of the calibration is best at; without it, it is the score whose "
        "probability is 0.5.",
    )
    output: str | None = opt(
        "FILE",
        "Keep the calibration in this file, for --calibration; my.calibration.json for instance.",
        writes=True,
    )

    @property
    def replays(self) -> bool:
        """Whether lines have their scores, so that no judge runs."""
        return self.judge == NONE

    @property
    def kind(self) -> str | None:
        """The kind of judge; rubrics are scored by language models."""
        return self.judge if self.rubric is None else LLM

    def settle(self) -> None:
        """Refuse options for a judge if there is none, or if there is a rubric."""
        if self.judge and "rubric" not in self.typed:
            self.leave_out("rubric")
        if self.rubric is not None:
            why = "is of a judge, whose place --rubric takes; leave it out"
            self.leave_out("judge profile member", why)
        if self.replays:
            self.leave_out("output estimate max_cost", f"{REPLAYED} asks no judge; leave it out")
        super().settle()

    def run(self, out: Output) -> Document:
        """Judge or score the lines that have no score, and report."""
        answers, groups, usage, judge = None, list[QueryGroup](), None, None
        if self.rubric is not None:
            answers = read_answers(self.labels, self.label_field)
            places = places_of_rubrics([self.rubric]) | answers.places()
            lines = [
                Line(each.number, {}, (), label=each.label, query_id=each.item.query or None)
                for each in answers.lines
            ]
        else:
            lines = read_labels(self.labels, scored=self.replays, label_field=self.label_field)
            folded = FoldedLines([] if self.replays else lines)
            groups, places = list(folded), folded.places(self.labels)
        with self.asking("judging", len(lines), places) as (client, info, how):
            asking = self.asking_options()
            if answers is not None and self.rubric is not None:
                asked = read_rubrics([self.rubric], info, self.min_score, self.parameters())
                if self.estimate:
                    would = client.estimate_scores(answers.items, asked, asking=asking)
                    return report_estimate(out, would)
                scores = client.score_answers(answers.items, asked, asking=asking, **how)
                out.warn(*score_warnings(scores))
                usage, judge, lines = scores.usage, scores.rubrics[0].judge, _scored(lines, scores)
            elif not self.replays:
                spec = self.spec(info, self.min_score)
                if spec.kind == "panel" and spec.profile in {"", "majority"}:
                    raise Problem(
                        "--judge panel: by majority there is no threshold to choose; calibrate it "
                        "with --profile mean or --profile weighted"
                    )
                if self.estimate:
                    return report_estimate(out, client.estimate(groups, spec, asking=asking))
                found = of_lines(lines, client.judge(groups, spec, asking=asking, **how))
                out.warn(
                    *verdict_warnings(VerdictCounts.of(found)),
                    *reason_warnings(reasons_of(found)),
                    *vote_warnings(found),
                )
                usage, judge, lines = found.usage, found.judge, _scored(lines, found)
            if usage is not None:
                say(describe_usage(usage))
            threshold = self.min_score if judge is None else judge.min_score
            options = self.options(CalibrateOptions, min_score=threshold, judge=judge)
            made = client.calibrate(_items(lines), options, self.interval_options())
        signature = None if judge is None else judge.signature
        document = report_calibration(out, made, len(lines), signature, usage)
        reliability = made.reliability
        if reliability is None or self.output is None:
            return document
        if reliability.fitted:
            reliability.calibrator.save(
                self.output,
                judge=signature,
                n_labels=reliability.n_labels,
                n_queries=reliability.n_clusters,
                **plain(estimates_of(reliability)),
            )
        else:
            why = reliability.calibrator.not_fitted or "there are too few labels"
            say(f"--output {self.output}: there is nothing to keep: {why}")
            out.failed = True
        return document


def _scored(lines: Sequence[Line], found: Verdicts | ScoredAnswers) -> list[Line]:
    """Return the lines that got a score, labelled or not. Raises Problem."""
    refuse_uncached(found)
    each: Iterable[Verdict | AnswerScore] = found
    scored = [
        replace(line, score=one.score)
        for line, one in zip(lines, each, strict=True)
        if one.score is not None
    ]
    if all(line.label is None for line in scored):
        why = [error.message for i, error in found.errors.items() if lines[i].label is not None]
        raise Problem(": ".join(["no line with a label could be judged", *why[:1]]))
    return scored


def _items(lines: Sequence[Line]) -> LabelledScores:
    """Return the labelled scores for the server."""
    clusters = list(map(cluster_of, lines))
    inclusion = [line.inclusion for line in lines if line.inclusion is not None]
    return LabelledScores(
        [line.score for line in lines if line.score is not None],
        [line.label for line in lines],
        clusters if len(set(clusters)) < len(clusters) else [],
        inclusion,
    )


def report_calibration(
    out: Output, found: Calibration, n_lines: int, judge: str | None, usage: Usage | None
) -> Document:
    """Show the quality of a judge, and print warnings; return the document."""
    quality, reliability, bounds = found.quality, found.reliability, found.cascade
    probability = {} if reliability is None else estimates_of(reliability)
    estimates = {
        **estimates_of(quality),
        **{f"probability {name}": one for name, one in probability.items()},
        **{
            f"cross-validated {each.criterion.name.lower()}": each.cross_validated
            for each in found.thresholds
        },
        **_of_share("prevalence", found.prevalence),
    }
    out.warn(
        *quality.warnings,
        *(f"prevalence: {warning}" for warning in found.prevalence.warnings),
        *(() if reliability is None else reliability.warnings),
        *estimate_warnings(estimates),
    )
    estimates |= _of_share("judge agrees with people", found.agreement)
    thresholds = [
        {**asdict(each), "criterion": each.criterion.name.lower()} for each in found.thresholds
    ]
    chosen = [(each["criterion"], each["min_score"], each["fitted"]) for each in thresholds]
    chosen += [("accept from", bounds.accept, None), ("reject up to", bounds.reject, None)]
    out.show(
        describe_agreement(found, judge),
        "",
        estimates_table("estimate", estimates),
        "",
        Table(["best threshold for", "min_score", "fitted"], chosen),
        "",
        f"{plural(quality.n, 'label')} of {plural(n_lines, 'line')}{f'; {judge}' if judge else ''}",
        f"at an error of {bounds.max_error:g} a cascade passes on {bounds.escalated:.1%}",
    )
    return {
        "quality": fields_but(quality, "warnings"),
        "thresholds": thresholds,
        "cascade": bounds,
        "reliability": reliability
        and fields_but(reliability, "warnings", "n_clusters")
        | {"n_queries": reliability.n_clusters},
        "prevalence": fields_but(found.prevalence, "warnings", "half_width_with_more"),
        "agreement": found.agreement,
        "judge": judge,
        "signature": found.signature,
        **usage_document(usage),
    }


def describe_agreement(found: Calibration, judge: str | None) -> str:
    """Return how often the judge agrees with people, and on how many labels, as a sentence."""
    quality, reliability = found.quality, found.reliability
    name = "the judge" if judge is None else judge.partition("|")[0]
    by = "" if reliability is None else f" of {plural(reliability.n_clusters, 'query', 'queries')}"
    sentence = f"{name} agrees with people on {_share(quality.accuracy)} of "
    sentence += f"{plural(quality.n, 'label')}{by}"
    if reliability is None or not reliability.fitted or reliability.accuracy is None:
        return sentence
    calibrated = _share(reliability.accuracy)
    return f"{sentence}; calibrated, on {calibrated}, by labels that did not make the calibration"


def _share(estimate: Estimate | None) -> str:
    known = estimate or Estimate()
    between = "" if known.interval is None else f" ({ends(known.interval)})"
    return f"{number(known.value)}{between}"


def _of_share(what: str, share: CorrectedEstimate | None) -> dict[str, Estimate | None]:
    names = ("naive", "corrected", "labels_only") if share is not None else ()
    return {f"{what} {name}": getattr(share, name) for name in names}


_UNCACHED = Asking(CacheMode.REFRESH)
"""Prices of stages are those of questions without kept replies."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """A judge as typed, and the price of an item, if one was typed."""

    name: str
    judge: Judge
    price: float | None

    @property
    def places(self) -> Places:
        """Names of the judge's fields in messages."""
        return {r"judge\.(.+)": lambda rest: f"--stage {self.name}: {rest}"}


class FrontierCommand(JudgingCommand, Spending, Drawn):
    """Propose a cascade of judges from labels.

    Says which judges, in which order, and what goes on to the next.

    Examples:
    judged frontier labels.jsonl --stage answer_equivalence --stage llm --max-share 0.2
    judged frontier labels.jsonl --stage semantic --stage llm -o my.cascade.json
    """

    labels: str = arg(
        "LABELS.jsonl",
        "Lines of {query, expected_text, retrieved_text, relevant: true|false}, query_id and "
        "expected_alternatives if there are any; - reads standard input.",
    )
    stage: Sequence[str] = many(
        "KIND[/PROFILE][:K=V,...]",
        "Judge that the cascade may have, as in llm:model=large; price=X is the cost of an item, "
        "in place of the server's prices. Repeat it for each.",
        required=True,
    )
    max_error: float | None = opt(
        "X", "Propose the cheapest cascade that is wrong in at most this share; 0.05."
    )
    max_share: float | None = opt(
        "X",
        "Propose the most accurate one that asks the most expensive judge about at most this "
        "share.",
    )
    max_item_cost: float | None = opt(
        "X", "Propose the most accurate one that costs at most this an item, in the mean."
    )
    abstain: bool = flag("Give no verdict on items that no stage settles.")
    output: str | None = opt(
        "FILE",
        "Keep the proposed cascade in this file, for --cascade; my.cascade.json for instance.",
        writes=True,
    )
    label_field: str = opt("NAME", "The field that holds the labels.", LABEL)

    def places(self) -> Places:
        """Return the names of request fields in messages."""
        return {"max_cost": "--max-item-cost"} | super().places()

    def run(self, out: Output) -> Document:
        """Judge the lines by every stage, and report."""
        read = read_labels(self.labels, scored=False, label_field=self.label_field)
        lines = [line for line in read if line.label is not None]
        folded, scored = FoldedLines(lines), []
        groups = list(folded)
        cache = CacheMode.REFRESH if self.judge_refresh else CacheMode.USE
        cost_limit = CostLimit(Asking(cache, self.max_cost))  # one limit for all stages
        with self.connect(folded.places(self.labels)) as (client, info):
            stages = [_read_stage(info, text) for text in self.stage]
            would = []
            for one in stages:
                with explained(one.places):
                    would.append(client.estimate(groups, one.judge, asking=_UNCACHED))
            if self.estimate:
                return report_estimate(out, sum(would, CostEstimate()))
            costs, unit = _costs(stages, would, len(lines))
            for one, cost in zip(stages, costs, strict=True):
                bar = progress_bar(f"judging by {one.name}", len(lines))
                with explained(one.places), bar as progress:
                    verdicts = client.judge(
                        groups,
                        one.judge,
                        asking=cost_limit.rest(),
                        timeout=self.timeout,
                        progress=progress,
                    )
                cost_limit.took(verdicts.usage)
                scored.append(_of_stage(out, one.name, cost, lines, verdicts))
            found = client.calibrate_cascade(
                StagedLabels(
                    scored,
                    [bool(line.label) for line in lines],
                    list(map(cluster_of, lines)),
                    [len(line.contexts[0].retrieved_text) for line in lines],
                ),
                self.options(CascadeOptions, max_cost=self.max_item_cost, may_abstain=self.abstain),
            )
        out.warn(*found.warnings)
        names = [stage.name for stage in stages]
        document = self._report(out, found, names, costs, unit)
        if self.output is not None:
            out.failed = not self._keep(found, stages, unit)
        return document

    def _report(
        self,
        out: Output,
        found: CascadeFrontier,
        names: Sequence[str],
        costs: Sequence[float],
        unit: str,
    ) -> Document:
        """Show the cascades, the cheapest first; return the document."""
        judges = [_describe_stages(point, names) for point in found.points]
        tested = f"{found.n_certifying} labels test what {found.n_proposing} others made"
        remarks = [f"{tested}, of {found.n_clusters} queries; {found.signature}"]
        if found.proposed is not None:
            remarks.append(f"proposed: {judges[found.proposed]}")
            remarks.append(describe_guarantee(found.points[found.proposed].guarantee))
        elif found.uncertified is not None:
            remarks.append(f"uncertified, on these labels alone: {judges[found.uncertified]}")
        rows = []
        for place, point in enumerate(found.points):
            mark = "proposed" if place == found.proposed else "certified" if point.certified else ""
            cost, settled = f"{point.cost:.4g}", f"{point.settled:.1%}"
            rows.append((mark, judges[place], cost, settled, point.accuracy, point.least_accuracy))
        heads = ["", "stages", f"{unit} an item", "settled", "accuracy", "at least"]
        out.show(Table(heads, rows), "", *remarks)
        return {
            "stages": [{"stage": n, "cost": cost} for n, cost in zip(names, costs, strict=True)],
            "cost_unit": unit,
            "frontier": [
                {**asdict(point), **row_of(point, "accuracy least_accuracy", judges=of_point)}
                for point, of_point in zip(found.points, judges, strict=True)
            ],
            **row_of(found, "proposed uncertified n_proposing n_certifying signature"),
            "n_queries": found.n_clusters,
        }

    def _keep(self, found: CascadeFrontier, stages: Sequence[_Stage], unit: str) -> bool:
        """Write the proposed cascade; return whether there is one."""
        if found.proposed is None:
            say(
                f"--output {self.output}: there is nothing to keep, since no cascade keeps what "
                "was asked for; allow more with --max-error, or ask for --max-share or "
                "--max-item-cost"
            )
            return False
        point = found.points[found.proposed]
        save_cascade(
            point.judge([stage.judge for stage in stages]),
            self.output or "",
            judges=_describe_stages(point, [stage.name for stage in stages]),
            cost=point.cost,
            cost_unit=unit,
            settled=point.settled,
            accuracy=point.accuracy,
            made=found.signature,
        )
        return True


def _of_stage(
    out: Output, name: str, cost: float, lines: Sequence[Line], verdicts: Verdicts
) -> ScoredStage:
    """Return the scores of a stage, None where a verdict is missing. Raises Problem."""
    refuse_uncached(verdicts)
    if verdicts.usage is not None:
        say(f"{name}: {describe_usage(verdicts.usage)}")
    of_each = of_lines(lines, verdicts)
    scores = [verdict.score for verdict in of_each]
    if missing := scores.count(None):
        problem = f"--stage {name}: has no verdict on {missing} of {len(scores)} lines"
        if missing == len(scores):
            raise Problem(
                ": ".join([problem, *(e.message for e in [*of_each.errors.values()][:1])])
            )
        out.warn(problem)
    flags = iter(verdicts.flags)
    flagged = [any(list(islice(flags, len(line.contexts)))) for line in lines]
    return ScoredStage(verdicts.judge, scores, cost, flagged)


def _read_stage(info: ServerInfo, text: str) -> _Stage:
    judge, _, own = read_member(info, "--stage", text, "price", "calibration")
    if "calibration" in own:
        raise Problem(
            f"--stage {text}: stages are calibrated here, on what the earlier ones leave; leave "
            "calibration out"
        )
    if "price" not in own:
        return _Stage(text, judge, None)
    price = read_amount(f"--stage {text}", "price", own["price"], least=0)
    kind, _, listed = text.partition(":")
    others = ",".join(part for part in listed.split(",") if not part.startswith("price="))
    return _Stage(f"{kind}:{others}".rstrip(":"), judge, price)


def _costs(
    stages: Sequence[_Stage], would: Sequence[CostEstimate], n: int
) -> tuple[list[float], str]:
    """Return the most that an item costs at each stage, and the unit.

    That is the typed price, else money, else the number of calls if a price is missing.
    """
    if any(stage.price is not None for stage in stages):
        return [stage.price or 0.0 for stage in stages], "price"
    if all(each.cost is not None for each in would) and any(each.cost for each in would):
        return [(each.cost or 0.0) / n for each in would], "cost"
    return [each.calls / n for each in would], "calls"


def _describe_stages(point: FrontierPoint, names: Sequence[str]) -> str:
    """Return the judges of a cascade in order, with the share of items that reach each."""
    parts = [names[stage.stage] for stage in point.stages[:1]]
    parts += [f"{names[stage.stage]} {stage.share:.0%}" for stage in point.stages[1:]]
    return " > ".join(parts)
