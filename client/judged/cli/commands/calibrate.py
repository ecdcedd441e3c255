"""`judged calibrate`: what a judge is worth, by labelled lines; the server computes the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice

from judged import (
    CalibrateOptions,
    LabelledScores,
    Rubric,
    Status,
    Verdicts,
)
from judged._views import plain, plural
from judged.cli.commands.score import places_of_rubrics, read_rubrics, score_warnings
from judged.cli.diagrams import reliability_diagram
from judged.cli.frame import Document, arg, flag, opt
from judged.cli.gates import MethodOption
from judged.cli.inputs import (
    LABEL,
    AnswerFile,
    LabelledLine,
    cluster_of,
    fold_lines,
    of_lines,
    places_of_lines,
    read_answers,
    read_labels,
)
from judged.cli.judging import (
    LLM,
    NONE,
    AskingOptions,
    JudgeOptions,
    TraceOptions,
    kept_trace,
    refuse_other,
    refuse_uncached,
    tell_kept,
)
from judged.cli.output import Output, Problem, Progress, Table, open_output, say
from judged.cli.server import Connection
from judged.cli.tables import (
    cells,
    describe_usage,
    estimate_warnings,
    estimates_table,
    fields_but,
    more_labels,
    report_estimate,
    usage_document,
    vote_warnings,
)
from judged.evaluation.labels import INCLUSION
from judged.evaluation.warnings import reason_warnings, reasons_of, verdict_warnings
from judged.report.summary import ends, number
from judged.values import (
    Calibration,
    Context,
    CorrectedEstimate,
    Estimate,
    JudgeIdentity,
    Reliability,
    ThresholdCriterion,
    Usage,
    VerdictCounts,
)
from judged.values.intervals import estimates_of


@dataclass(frozen=True, slots=True)
class _Scored:
    """The lines that have a score, the judge that gave it, its threshold and its usage."""

    lines: Sequence[LabelledLine]
    scores: Sequence[float]
    min_score: float | None
    usage: Usage | None = None
    judge: JudgeIdentity | None = None

    @property
    def signature(self) -> str | None:
        """The signature of the judge, None for scores of the lines."""
        return None if self.judge is None else self.judge.signature


@dataclass(kw_only=True)
class CalibrateCommand(JudgeOptions, AskingOptions, TraceOptions, MethodOption):
    """Hold a judge against human labels.

    Tells its quality, the best threshold, and means corrected for its error.

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
    trace: str | None = opt(
        "FILE", "Keep the judgements in this file, beside those it has.", writes=True
    )
    no_judge: bool = flag("As --judge none: scores come from the lines.")
    label_field: str = opt("NAME", "The field that holds the labels.", LABEL)
    precision_floor: float | None = opt("X", "Precision that the third threshold must keep; 0.9.")
    folds: int | None = opt("N", "Folds of cross-validation; 5.", low=2, high=20)
    max_error: float | None = opt("X", "Error that the cascade's bounds allow; 0.05.")
    max_share: float | None = opt(
        "X",
        "Share of the items that the judge hands on as a stage of a cascade, in place of bounds by "
        "--max-error.",
    )
    criterion: ThresholdCriterion | None = opt(
        None,
        "What the threshold of the calibration is best at; without it, it is the score whose "
        "probability is 0.5.",
    )
    output: str | None = opt(
        "FILE",
        "Keep the calibration in this file, for --calibration; my.calibration.json for instance.",
        None,
        *("--output", "-o"),
        writes=True,
    )
    diagram: str | None = opt(
        "FILE.svg", "Draw the reliability diagram into this file.", writes=True
    )

    @property
    def kind(self) -> str | None:
        """The kind of judge; rubrics are scored by language models."""
        return self.judge if self.rubric is None else LLM

    def settle(self) -> None:
        """Refuse flags of a judge where there is none, or where a rubric is asked for."""
        of_judges = "judge no_judge profile param member trace trace_texts"
        if "judge" in self.typed and self.judge != NONE:
            self.leave_out("no_judge")
        none = self.no_judge or self.judge == NONE
        if self.rubric is not None:
            if "rubric" in self.typed:
                self.leave_out(
                    of_judges,
                    "is of a judge, whose place --rubric takes; leave it out",
                )
            elif self.judge or none:
                self.leave_out("rubric")
        if none and self.rubric is None:
            why = "is of a judge, and --judge none asks none; leave it out"
            self.leave_out("profile param member trace trace_texts", why)
            models = "judge_model judge_samples judge_temperature judge_max_tokens"
            self.leave_out(models, f"is for --judge {LLM}; say that too, or leave it out")
            if self.output is not None:
                raise Problem(
                    "--output: a calibration is of one judge, and --judge none does not say which; "
                    "name the judge"
                )
        super().settle()

    def run(self, out: Output) -> Document | None:
        """Judge or score what is not, and report."""
        refuse_other(self.judge)
        answers, lines = None, list[LabelledLine]()
        if self.rubric is None:
            lines = read_labels(self.labels, scored=self.replays, label_field=self.label_field)
        else:
            answers = read_answers(self.labels, label_field=self.label_field)
        contexts = [line for line in lines if line.contexts]
        groups = fold_lines(contexts)
        kept = kept_trace(self, out)
        places = dict(self.places())
        if answers is not None:
            places |= {**places_of_rubrics([self.rubric or ""]), **answers.places()}
        else:
            places |= places_of_lines(self.labels, contexts, groups)
        title, n = ("judging", len(lines)) if answers is None else ("scoring", len(answers.items))
        with self.asking(title, n, places) as (server, progress):
            client, asking = server.client, self.how_asked()
            if answers is not None and self.rubric is not None:
                given = self.parameters()
                (by,) = read_rubrics([self.rubric], server.info, self.min_score, given)
                if self.estimate:
                    return report_estimate(out, client.estimate_scores(answers.items, [by]))
                scored = self._scored_answers(out, server, answers, by, progress)
            elif self.replays:
                scores = [line.score for line in lines if line.score is not None]
                scored = _Scored(lines, scores, self.min_score)
            else:
                spec = self.spec(server.info, self.min_score)
                if spec.kind == "panel" and spec.profile in {"", "majority"}:
                    raise Problem(
                        "--judge panel: by majority most votes decide, whatever the threshold, so "
                        "there is none to choose; calibrate it with --profile mean or --profile "
                        "weighted"
                    )
                if self.estimate:
                    return report_estimate(out, client.estimate(groups, spec, asking=asking))
                verdicts = client.judge(
                    *(groups, spec),
                    include_details=kept is not None,
                    asking=asking,
                    timeout=self.timeout,
                    progress=progress,
                )
                if kept is not None:
                    kept.keep_verdicts(groups, verdicts)
                    tell_kept(kept)
                scored = _judged(out, lines, of_lines(contexts, verdicts))
            asked = CalibrateOptions(
                *(scored.min_score, self.precision_floor, self.folds, self.max_error, scored.judge),
                *(self.criterion, self.max_share),
            )
            found = client.calibrate(_items(scored), asked, self.how_sure())
        report_calibration(out, found, scored)
        self._keep(found, scored)
        return None

    def _scored_answers(
        self,
        out: Output,
        server: Connection,
        answers: AnswerFile,
        rubric: Rubric,
        progress: Progress | None,
    ) -> _Scored:
        """Return the answers that have a score, labelled or not, as lines. Raises Problem."""
        found = server.client.score_answers(
            *(answers.items, [rubric]),
            asking=self.how_asked(),
            timeout=self.timeout,
            progress=progress,
        )
        refuse_uncached(found)
        say(describe_usage(found.usage))
        out.warn(*score_warnings(found))
        lines, scores = [], []
        columns = zip(answers.items, answers.line_numbers, answers.labels, found, strict=True)
        for item, line, label, score in columns:
            if score.score is not None:
                lines.append(LabelledLine(line, {}, [Context(item.query, "", "")], label=label))
                scores.append(score.score)
        judge = found.rubrics[0].judge
        if judge is None or all(line.label is None for line in lines):
            said = (error.message for error in found.errors.values())
            raise Problem(": ".join(["no line with a label could be scored", *islice(said, 1)]))
        return _Scored(lines, scores, judge.min_score, found.usage, judge)

    def _keep(self, found: Calibration, scored: _Scored) -> None:
        """Write the calibration and its diagram. Raises Problem where labels made none to keep."""
        believed = found.reliability
        if believed is None:
            return
        if self.diagram is not None:
            with open_output(self.diagram, "--diagram") as file:
                file.write(reliability_diagram(believed, scored.signature or "scores of the lines"))
        if self.output is not None:
            if not believed.fitted:
                why = believed.calibrator.not_fitted or "there are too few labels"
                raise Problem(f"--output {self.output}: there is nothing to keep: {why}")
            believed.calibrator.save(
                self.output,
                judge=scored.signature,
                n_labels=believed.n_labels,
                n_queries=believed.n_clusters,
                **plain(estimates_of(believed)),
            )


def _judged(out: Output, lines: Sequence[LabelledLine], verdicts: Verdicts) -> _Scored:
    """Return the lines that the judge could score, labelled or not. Raises Problem."""
    refuse_uncached(verdicts)
    if verdicts.usage is not None:
        say(describe_usage(verdicts.usage))
    out.warn(
        *verdict_warnings(VerdictCounts.of(verdicts)),
        *reason_warnings(reasons_of(verdicts)),
        *vote_warnings(verdicts),
    )
    kept = [i for i, status in enumerate(verdicts.status) if status == Status.OK]
    scored = [lines[i] for i in kept]
    if all(line.label is None for line in scored):
        errors = (e.message for i, e in verdicts.errors.items() if lines[i].label is not None)
        raise Problem(": ".join(["no line with a label could be judged", *islice(errors, 1)]))
    scores, judge = [verdicts.score[i] for i in kept], verdicts.judge
    return _Scored(scored, scores, judge.min_score, verdicts.usage, judge)


def _items(scored: _Scored) -> LabelledScores:
    """Return what the server is asked about."""
    clusters = list(map(cluster_of, scored.lines))
    if len(set(clusters)) == len(clusters):
        clusters = []
    inclusion = [line.inclusion for line in scored.lines if line.inclusion is not None]
    if len(inclusion) not in {0, len(scored.lines)}:
        raise Problem(
            f"{INCLUSION!r} is on {len(inclusion)} of {len(scored.lines)} lines; give it on all, "
            "or on none"
        )
    labels = [line.label for line in scored.lines]
    return LabelledScores(scored.scores, labels, clusters, inclusion)


def report_calibration(out: Output, found: Calibration, scored: _Scored) -> None:
    """Show what a judge is worth, warn of what needs it, write the document."""
    n_lines, judge = len(scored.lines), scored.signature
    quality, prevalence = estimates_of(found.quality), _prevalence(found.prevalence)
    crossed = {
        f"cross-validated {threshold.criterion.name.lower()}": threshold.cross_validated
        for threshold in found.thresholds
    }
    believed = found.reliability
    probability = {} if believed is None else estimates_of(believed)
    everything = {
        **quality,
        **{f"probability {name}": one for name, one in probability.items()},
        **crossed,
        **{f"prevalence {name}": one for name, one in prevalence.items()},
    }
    out.warn(
        *found.quality.warnings,
        *(f"prevalence: {warning}" for warning in found.prevalence.warnings),
        *(() if believed is None else believed.warnings),
        *estimate_warnings(everything),
    )
    out.show(describe_agreement(found, judge), "")
    out.show(estimates_table("quality", quality), "", _describe(found, n_lines, judge), "")
    out.show(thresholds_table(found), "", _cascade(found), "")
    out.show(estimates_table("share of relevant items", prevalence))
    shares = {"share of relevant items": found.prevalence}
    if found.agreement is not None:
        shares["judge agrees with people"] = found.agreement
        agreement = _prevalence(found.agreement)
        out.show("", estimates_table("judge agrees with people", agreement))
    if told := more_labels(shares):
        out.show("", told)
    if believed is not None:
        out.show("", estimates_table("probability", probability), "", _describe_fit(believed))
    out.write_json(
        {
            "quality": fields_but(found.quality, "warnings"),
            "thresholds": [
                {**asdict(threshold), "criterion": threshold.criterion.name.lower()}
                for threshold in found.thresholds
            ],
            "cascade": asdict(found.cascade),
            "reliability": believed
            and fields_but(believed, "warnings", "n_clusters") | {"n_queries": believed.n_clusters},
            "prevalence": fields_but(found.prevalence, "warnings", "half_width_with_more"),
            "agreement": found.agreement and asdict(found.agreement),
            "judge": judge,
            "signature": found.signature,
            **usage_document(scored.usage),
            "warnings": out.warnings,
        }
    )


def describe_agreement(found: Calibration, judge: str | None) -> str:
    """Return how often the judge agrees with people, by how many labels, as a sentence."""
    quality, believed = found.quality, found.reliability
    name = "the judge" if judge is None else judge.partition("|")[0]
    labels = plural(quality.n, "label", "labels")
    by = "" if believed is None else f" of {plural(believed.n_clusters, 'query', 'queries')}"
    said = f"{name} agrees with people on {_share(quality.accuracy)} of {labels}{by}"
    if believed is None or not believed.fitted or believed.accuracy is None:
        return said
    calibrated = _share(believed.accuracy)
    return f"{said}; calibrated, on {calibrated}, by labels that did not make the calibration"


def _share(estimate: Estimate | None) -> str:
    known = estimate or Estimate()
    between = "" if known.interval is None else f" ({ends(known.interval)})"
    return f"{number(known.value)}{between}"


def thresholds_table(found: Calibration) -> Table:
    """Return the thresholds: what each is best at, where it is, and what it is worth."""
    rows = [
        [
            each.criterion.name.lower(),
            *(each.min_score, each.fitted),
            *cells(each.cross_validated),
        ]
        for each in found.thresholds
    ]
    return Table(["best threshold for", "min_score", "fitted", "held out", "lower", "upper"], rows)


def _prevalence(prevalence: CorrectedEstimate) -> dict[str, Estimate | None]:
    return {
        "naive": prevalence.naive,
        "corrected": prevalence.corrected,
        "labels_only": prevalence.labels_only,
    }


def _describe(found: Calibration, n_lines: int, judge: str | None) -> str:
    quality = found.quality
    by = f"; {judge}" if judge else ""
    return (
        f"{plural(quality.n, 'label', 'labels')} of {plural(n_lines, 'line', 'lines')}: "
        f"{quality.true_positives} true and {quality.false_positives} false positives, "
        f"{quality.true_negatives} true and {quality.false_negatives} false negatives{by}"
    )


def _describe_fit(believed: Reliability) -> str:
    made = believed.calibrator
    threshold = "" if made.min_score is None else f", threshold {made.min_score:.4f}"
    how = "fitted, cross-validated" if believed.fitted else "not fitted"
    return (
        f"calibration {how}: slope {made.slope:.4f}, intercept {made.intercept:.4f}{threshold}; "
        f"{plural(believed.n_labels, 'label', 'labels')} of "
        f"{plural(believed.n_clusters, 'query', 'queries')}"
    )


def _cascade(found: Calibration) -> str:
    cascade = found.cascade
    certified, others = [], []
    for name, bound, other in (
        ("accept from", cascade.accept, cascade.uncertified_accept),
        ("reject up to", cascade.reject, cascade.uncertified_reject),
    ):
        none = f"{name.split()[0]} no score"
        certified.append(none if bound is None else f"{name} {bound:.4f}")
        if bound is None and other is not None:  # a bound that nothing vouches for
            others.append(f"{name} {other:.4f}")
    told = f"\nuncertified, on these labels alone: {', '.join(others)}" if others else ""
    return (
        f"cascade at an error of {cascade.max_error:g}: {', '.join(certified)}, "
        f"{cascade.escalated:.1%} go on to a better judge; the labels count as "
        f"{cascade.labels_counted:.1f}, {cascade.design_effect:.2f} of them as one{told}"
    )
