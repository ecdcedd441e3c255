"""`judged evaluate`: what a retriever found, judged and measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Annotated

import typer

from judged import Evaluation, JudgedError, MetricOptions, Verdicts
from judged.cli.connection import connect
from judged.cli.inputs.queries import check_fit, missing_context, places, read_queries
from judged.cli.options import common, intervals
from judged.cli.options.asking import (
    AskingFlags,
    ModelFlags,
    named_as_typed,
    refuse_missing,
    with_parameters,
)
from judged.cli.options.common import LabelsFile
from judged.cli.options.gates import (
    AllowOtherSignature,
    Baseline,
    MaxDrops,
    MaxNegatives,
    MinCoverage,
    MinScoresOrThreshold,
)
from judged.cli.options.judges import JudgeFlags, stages_as_typed
from judged.cli.options.server import JudgingFlags
from judged.cli.options.system_models import tell_circular
from judged.cli.options.traces import TraceFlags, kept_trace
from judged.cli.output.estimates import (
    corrected_document,
    corrected_table,
    corrected_warnings,
    more_labels,
    slice_warnings,
    slices_table,
)
from judged.cli.output.gates import Gates, finish, gates_document, split_min_scores
from judged.cli.output.json_document import Items
from judged.cli.output.tables import (
    describe_counts,
    describe_verdicts,
    means_table,
    negative_warnings,
    negatives_document,
    per_query_table,
)
from judged.cli.output.usage import (
    cascade_table,
    report_estimate,
    taken,
    usage_document,
    vote_warnings,
)
from judged.cli.output.writer import Output, check_apart, progress_bar
from judged.cli.problems import explained
from judged.cli.replay import open_replay, replay_warnings, replayed
from judged.evaluation import Evaluator
from judged.evaluation._steps.warnings import evaluation_warnings
from judged.evaluation.circular_judging import judging_models
from judged.evaluation.labels import Labels, corrected_means
from judged.evaluation.query_results import query_result
from judged.evaluation.result_document import write_head, write_query
from judged.values import CorrectedEstimate, Matching, MetricCounts, VerdictCounts


def command(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET.json", help="Queries with what they should find.")
    ],
    results: Annotated[
        str,
        typer.Option(
            metavar="RESULTS.jsonl",
            help="What was retrieved: a line a query, "
            "{query_id, results: [{doc_id, score, text, span}]}, best first.",
        ),
    ],
    metric: common.Metrics,
    judge: common.JudgeKind = None,
    profile: common.Profile = None,
    min_score: MinScoresOrThreshold = None,
    *,
    of_judge: JudgeFlags,
    model: ModelFlags,
    ask: AskingFlags,
    traces: TraceFlags,
    matching: Annotated[
        Matching,
        typer.Option(case_sensitive=False, help="How results are paired with expected answers."),
    ] = Matching.GREEDY_FIRST,
    per_query: common.PerQuery = False,
    interval: intervals.IntervalFlags,
    slice_by: intervals.SliceBy = None,
    labels: LabelsFile = None,
    max_drop: MaxDrops = None,
    max_negatives: MaxNegatives = None,
    min_coverage: MinCoverage = None,
    baseline: Baseline = None,
    allow_other_signature: AllowOtherSignature = False,
    shared: JudgingFlags,
) -> None:
    """Judge retrieval results and measure them.

    Both files are read as they are sent and not held, unless the results are compressed, or
    --estimate, --labels, --trace or --judge none need all of them at once.
    """
    out = shared.output()
    read = {"DATASET.json": dataset, "--results": results, "--labels": labels}
    check_apart(read, json=shared.json_to, trace=traces.trace)
    threshold, min_scores = split_min_scores(min_score or [])
    gates = Gates(
        metric,
        min_scores,
        max_drop or [],
        baseline,
        max_negatives=max_negatives,
        min_coverage=min_coverage,
        allow_other_signature=allow_other_signature,
    )
    judge = of_judge.kind(judge)
    tracing = traces.tracing(judge)
    kind = tracing.llm_kind(judge)
    flags = model.parameters(kind)
    given = with_parameters(flags, of_judge.param)
    asking = ask.asking(judge, replays=tracing.replays)
    whole = tracing.replays or tracing.path is not None or ask.estimate or labels is not None
    with out.told_misspellings():
        by_spans = True if judge == "span" else None
        queries = read_queries(dataset, results, by_spans=by_spans, whole=whole)
    check_fit(out, queries.fit)
    labelled = None if labels is None else Labels.from_jsonl(labels)
    human = None if labelled is None else labelled.rankings(list(queries.groups))
    asked = MetricOptions(
        matching,
        per_query=per_query or out.writes_json or labels is not None,
        interval=interval.options(),
        slice_by=slice_by or [],
    )
    kept = kept_trace(tracing, out)
    with (
        connect(shared) as server,
        named_as_typed(flags),
        stages_as_typed(judge, of_judge.stage),
        explained(metric, places(queries)),
        progress_bar("judging", queries.n_contexts) as progress,
    ):
        evaluator, groups = Evaluator(server.client), queries.groups
        if tracing.replays:
            replay = open_replay(
                *(tracing, out, server, given, threshold),
                of_judge,
                profile,
                timeout=shared.timeout,
            )
            with replayed(tracing, replay, missing_context(list(groups))):
                found = evaluator.evaluate_groups(
                    groups, metric, replay, asked, timeout=shared.timeout
                )
            out.warn(*replay_warnings(replay, tracing.path))
        else:
            spec = of_judge.judge(server.info, judge, profile, threshold, given)
            tell_circular(out, queries.system_models, judging_models(server.info, spec))
            if ask.estimate:
                would = evaluator.estimate(groups, metric, spec, asked, asking)
                report_estimate(out, would)
                return
            with unmeasured_written(out):
                found = evaluator.evaluate_groups(
                    groups,
                    metric,
                    spec,
                    asked,
                    asking=asking,
                    record=None if kept is None else kept.record,
                    timeout=shared.timeout,
                    progress=progress,
                )
        refuse_missing(found.verdicts)
        means = None
        if human is not None and labelled is not None:
            means = corrected_means(server.client, found, human, asked, labelled.inclusion)
    details = (
        write_query(query_result(query, group, place, ranked, found.verdicts))
        for place, (query, group, ranked) in enumerate(queries.queries())
    )
    out.warn(*evaluation_warnings(found, groups, asked.interval))
    report(out, found, asked, per_query=per_query, gates=gates, means=means, queries=details)


@contextmanager
def unmeasured_written(out: Output) -> Iterator[None]:
    """Write the verdicts of an evaluation whose metrics failed; the error goes on."""
    try:
        yield
    except JudgedError as error:
        verdicts = error.verdicts
        if isinstance(verdicts, Verdicts) and verdicts.n_ok:
            out.note(
                f"there are no metrics; the verdicts are written instead, {verdicts.n_ok} of "
                f"{len(verdicts)} OK"
            )
            out.write_json({**verdicts.to_dict(), "error": error.message})
            out.show(*(json.dumps(row, ensure_ascii=False) for row in verdicts.to_rows()))
        raise


def report(
    out: Output,
    found: Evaluation,
    asked: MetricOptions,
    *,
    per_query: bool,
    gates: Gates,
    means: Mapping[str, CorrectedEstimate] | None = None,
    queries: Iterable[Mapping[str, object]] = (),
) -> None:
    """Print the table with what it was made from, and write the JSON document.

    `queries` are the entries of the document's queries.
    """
    table = found.table
    verdicts = table.counts.verdicts or VerdictCounts()
    out.warn(
        *negative_warnings(found.negatives),
        *(() if found.verdicts is None else vote_warnings(found.verdicts)),
        *slice_warnings(table, asked.slice_by),
        *corrected_warnings(means),
    )
    errors = () if found.verdicts is None else found.verdicts.errors.values()
    out.count(failed=verdicts.error, total=verdicts.total, errors=errors)
    if found.judge is None and verdicts.total:
        made_from = f"{describe_verdicts(verdicts)}, by the judges that the metrics bring"
    elif found.judge is None:
        # Nobody judged, so there are no verdicts to count.
        counts: MetricCounts = replace(table.counts, verdicts=None)
        table = replace(table, counts=counts)
        made_from = "matched by document id; no judge was asked"
    else:
        made_from = f"{describe_verdicts(verdicts)}\njudge {found.judge.signature}"
    made_from = "\n".join([made_from, *taken(found.usage)])
    signature = found.judge.signature if found.judge is not None else None
    outcomes = gates.check(table, signature, out, found.negatives)
    if per_query:
        out.show(per_query_table(table), "")
    out.show(
        means_table(table),
        "",
        f"{describe_counts(table.counts)}\n{made_from}",
    )
    if found.usage is not None and found.usage.cascade is not None:
        out.show("", cascade_table(found.usage.cascade))
    if table.slices:
        out.show("", slices_table(table))
    if means is not None:
        out.show("", corrected_table(means))
        if told := more_labels(means):
            out.show("", told)
    out.write_json(
        {
            **write_head("", None, replace(table, query_ids=()), found.judge, out.warnings),
            "per_query": Items(table.query_values(), named=True),
            **usage_document(found.usage),
            **negatives_document(found.negatives),
            **corrected_document(means),
            **gates_document(outcomes),
            "queries": Items(queries),
        }
    )
    finish(out, outcomes)
