"""`judged metrics`: a TREC run measured by TREC judgements.

Ranking and joining are the server's, as trec_eval does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from judged import MetricOptions, TrecRankings
from judged._views import plural
from judged.cli.connection import connect
from judged.cli.options import common, intervals
from judged.cli.options.gates import AllowOtherSignature, Baseline, MaxDrops, MinCoverage, MinScores
from judged.cli.options.server import ResultFlags
from judged.cli.output.gates import Gates, finish, gates_document
from judged.cli.output.tables import describe_counts, document, means_table, per_query_table
from judged.cli.output.writer import check_apart
from judged.cli.problems import Problem, explained
from judged.evaluation import TrecQrels, TrecRun
from judged.evaluation._steps.warnings import count_warnings, interval_warnings
from judged.evaluation.datasets.fit import spelling_warning
from judged.values import MetricCounts, Unjudged


def command(
    qrels: Annotated[
        Path, typer.Option(metavar="FILE", help="Judgements: topic 0 document grade.")
    ],
    run: Annotated[Path, typer.Option(metavar="FILE", help="topic Q0 document rank score tag.")],
    metric: common.Metrics,
    per_query: common.PerQuery = False,
    complete: Annotated[
        bool,
        typer.Option("--complete", help="Topics that the run lacks count as 0 (trec_eval -c)."),
    ] = False,
    relevance_level: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=2**31 - 1, help="The smallest relevant grade (trec_eval -l)."
        ),
    ] = None,
    max_documents: Annotated[
        int | None,
        typer.Option(
            metavar="M",
            min=1,
            max=2**31 - 1,
            help="Rank only the best M documents of a topic (trec_eval -M).",
        ),
    ] = None,
    unjudged: intervals.UnjudgedPolicy = Unjudged.NON_RELEVANT,
    *,
    interval: intervals.IntervalFlags,
    min_score: MinScores = None,
    max_drop: MaxDrops = None,
    min_coverage: MinCoverage = None,
    baseline: Baseline = None,
    allow_other_signature: AllowOtherSignature = False,
    shared: ResultFlags,
) -> None:
    """Measure a TREC run; no judge is asked."""
    out = shared.output()
    check_apart({"--qrels": qrels, "--run": run}, json=shared.json_to)
    gates = Gates(
        metric,
        min_score or [],
        max_drop or [],
        baseline,
        min_coverage=min_coverage,
        allow_other_signature=allow_other_signature,
    )
    with out.told_misspellings():
        judged, retrieved = TrecQrels.from_file(qrels), TrecRun.from_file(run)
    check_join(judged, retrieved, complete=complete)
    made = interval.options()
    with (
        connect(shared) as server,
        explained(metric),
    ):
        table = server.client.compute_metrics(
            metric,
            TrecRankings(judged.grades, retrieved.scores),
            MetricOptions(
                complete=complete,
                per_query=True,
                interval=made,
                unjudged=unjudged,
                relevance_level=relevance_level,
                max_documents=max_documents,
            ),
        )
    # A mapping holds each document once, so the server never saw the repeated lines.
    counts = replace(table.counts, duplicates=table.counts.duplicates + retrieved.duplicates)
    table = replace(table, counts=counts)
    out.warn(
        *retrieved.warnings,
        *topic_warnings(counts, judged, retrieved),
        *table.warnings,
        *count_warnings(counts),
        *interval_warnings(table, made),
    )
    outcomes = gates.check(table, None, out)
    if per_query:
        out.show(per_query_table(table), "")
    out.show(means_table(table), "", describe_counts(counts))
    out.write_json({**document(table, None, out.warnings), **gates_document(outcomes)})
    finish(out, outcomes)


def check_join(judged: TrecQrels, retrieved: TrecRun, *, complete: bool) -> None:
    """Raise Problem when the two files have no topic in common, so that there is no mean."""
    if complete or not judged.grades.keys().isdisjoint(retrieved.scores):
        return
    raise Problem(
        f"qrels and run have no topic in common: {next(iter(judged.grades))!r} is one of the "
        f"qrels, {next(iter(retrieved.scores))!r} one of the run; check that they belong together"
    )


def topic_warnings(counts: MetricCounts, judged: TrecQrels, retrieved: TrecRun) -> list[str]:
    """Return what the reader of a table should know about topics that are not in it."""
    warnings = []
    if counts.skipped_missing:
        topics = plural(counts.skipped_missing, "topic", "topics")
        warnings.append(
            f"{topics} of the qrels left out: not in the run; --complete counts them as 0"
        )
    if counts.skipped_unjudged:
        topics = plural(counts.skipped_unjudged, "topic", "topics")
        warnings.append(f"{topics} of the run left out: nothing of it is judged")
        missing = (topic for topic in judged.grades if topic not in retrieved.scores)
        unknown = (topic for topic in retrieved.scores if topic not in judged.grades)
        if said := spelling_warning(missing, unknown):
            warnings.append(said)
    return warnings
