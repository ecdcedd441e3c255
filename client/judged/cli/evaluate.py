"""`judged evaluate`: what a retriever found, judged and measured.

Owns the steps from two files to a table. Formats are in `judged.evaluation`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Annotated

import typer

from judged import Evaluation, MetricCounts, MetricOptions, MetricTable, QueryGroup, VerdictCounts
from judged.cli import options
from judged.cli.connection import connect
from judged.cli.output import Output, progress_bar
from judged.cli.parameters import read_judge
from judged.cli.problems import Place, Problem, explained
from judged.cli.tables import (
    count_warnings,
    describe_counts,
    describe_verdicts,
    document,
    means_table,
    per_query_table,
    verdict_warnings,
)
from judged.evaluation import Dataset, Evaluator, Results

_GROUP_PATH = re.compile(r"groups\[(\d+)\]\.(expected|retrieved)\[(\d+)\]")


def command(
    dataset: Annotated[
        str, typer.Argument(metavar="DATASET.json", help="Queries with what they should find.")
    ],
    results: Annotated[
        str,
        typer.Option(
            metavar="RESULTS.jsonl",
            help="What was retrieved: a line a query, "
            "{query_id, results: [{doc_id, score, text}]}, best first.",
        ),
    ],
    metric: options.Metrics,
    judge: options.JudgeKind = None,
    profile: options.Profile = None,
    min_score: options.MinScore = None,
    param: options.Parameters = None,
    matching: Annotated[
        options.MatchingName,
        typer.Option(case_sensitive=False, help="How results are paired with expected answers."),
    ] = options.MatchingName.GREEDY_FIRST,
    per_query: options.PerQuery = False,
    target: options.Target = None,
    json_to: options.Json = None,
    timeout: options.Timeout = 3600.0,
    strict: options.Strict = False,
) -> None:
    """Judge retrieval results and measure them."""
    out = Output(json_to, strict=strict)
    queries = Dataset.from_json(dataset)
    retrieved = Results.from_jsonl(results)
    groups = queries.to_groups(retrieved)
    check_join(out, queries, retrieved)
    contexts = sum(group.n_expected * group.n_retrieved for group in groups)
    with (
        connect(target) as server,
        explained(metric, places(groups)),
        progress_bar("judging", contexts) as progress,
    ):
        spec = read_judge(server.info, judge, profile, min_score, param or [])
        found = Evaluator(server.client).evaluate(
            groups,
            metric,
            spec,
            MetricOptions(matching.mode, per_query=True),
            timeout=timeout,
            progress=progress,
        )
    report(out, found, per_query=per_query)


def check_join(out: Output, queries: Dataset, retrieved: Results) -> None:
    """Warn where dataset and results do not fit each other. Raises Problem when nothing does."""
    known = {query.query_id for query in queries.queries}
    missing = [query.query_id for query in queries.queries if query.query_id not in retrieved]
    unknown = [query_id for query_id in retrieved if query_id not in known]
    if not retrieved:
        raise Problem("the results hold no query; write a line for each query of the dataset")
    if len(missing) == len(known):
        raise Problem(
            f"no query of the results is in the dataset: {unknown[0]!r} is one of the results, "
            f"{missing[0]!r} one of the dataset; check that they belong together"
        )
    if missing:
        out.warn(
            f"{len(missing)} of {len(known)} queries have no line in the results and count as "
            f"having found nothing, for example {missing[0]!r}"
        )
    if unknown:
        out.warn(
            f"{len(unknown)} of {len(retrieved)} lines of the results are for queries that the "
            f"dataset lacks, for example {unknown[0]!r}; they are left out"
        )
    if retrieved.out_of_order:
        out.warn(
            f"{len(retrieved.out_of_order)} of {len(retrieved)} lines of the results have scores "
            f"that rise with rank, for example that of {retrieved.out_of_order[0]!r}; the given "
            "order is the ranking"
        )


def places(groups: list[QueryGroup]) -> Place:
    """Return what turns the path of a field into the query that it came from."""

    def place(field: str) -> str | None:
        match = _GROUP_PATH.match(field)
        if match is None:
            return None
        side = "result" if match[2] == "retrieved" else "expected answer"
        return f"query {groups[int(match[1])].query_id!r}, {side} {int(match[3]) + 1}"

    return place


def report(out: Output, found: Evaluation, *, per_query: bool) -> None:
    """Print the table with what it was made from, and write the JSON document."""
    table = found.table
    verdicts = table.counts.verdicts or VerdictCounts()
    for warning in [*count_warnings(table.counts), *verdict_warnings(verdicts)]:
        out.warn(warning)
    if found.judge is None:
        # Nobody judged, so there are no verdicts to count.
        counts: MetricCounts = replace(table.counts, verdicts=None)
        table = MetricTable(table.metrics, table.query_ids, counts)
        made_from = "matched by document id; no judge was asked"
    else:
        made_from = f"{describe_verdicts(verdicts)}\njudge {found.judge.signature}"
    if per_query:
        out.show(per_query_table(table), "")
    out.show(
        means_table(table),
        "",
        f"{describe_counts(table.counts)}\n{made_from}",
    )
    signature = found.judge.signature if found.judge is not None else None
    out.write_json(document(table, signature, out.warnings))
    out.finish()
