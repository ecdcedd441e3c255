"""`judged evaluate`: what a retriever found, judged and measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from judged import Evaluation, JudgedError, MetricOptions, Verdicts
from judged.cli.frame import Document, arg, many, opt
from judged.cli.gates import (
    GateOptions,
    Gates,
    IntervalOption,
    MetricsOptions,
    MinCoverage,
    split_min_scores,
)
from judged.cli.inputs import missing_context, places_of_queries, read_queries
from judged.cli.judging import (
    AskingOptions,
    CascadeOptions,
    NamedTrace,
    kept_trace,
    open_replay,
    refuse_missing,
    replayed,
    tell_circular,
    tell_kept,
)
from judged.cli.output import Items, Output, say
from judged.cli.problems import Problem, of_metrics
from judged.cli.tables import (
    cascade_table,
    corrected_table,
    describe_counts,
    describe_verdicts,
    means_table,
    more_labels,
    negative_warnings,
    per_query_table,
    report_estimate,
    slice_warnings,
    slices_table,
    taken,
    usage_document,
    vote_warnings,
)
from judged.evaluation import Evaluator
from judged.evaluation.circular_judging import judging_models
from judged.evaluation.labels import Labels, corrected_means
from judged.evaluation.query_result import QueryResult
from judged.evaluation.result import document_head
from judged.evaluation.warnings import evaluation_warnings
from judged.values import CorrectedEstimate, Matching, MetricCounts, QueryGroup, VerdictCounts
from judged.values.intervals import shared_warnings


@dataclass(kw_only=True)
class EvaluateCommand(
    CascadeOptions,
    AskingOptions,
    NamedTrace,
    MetricsOptions,
    IntervalOption,
    GateOptions,
    MinCoverage,
):
    """Judge retrieval results and measure them.

    Both files are read as they are sent and not held, unless the results are compressed, or
    --estimate, --labels, --trace or --judge none need all of them at once.

    Examples:
    judged evaluate dataset.json --results results.jsonl -m ndcg@10 -m recall@5
    judged evaluate dataset.json --results results.jsonl -m mrr --interval t --json out.json
    judged evaluate dataset.json --results results.jsonl -m mrr --min-score mrr=0.6
    """

    dataset: str = arg("DATASET.json", "Queries with what they should find.")
    results: str = opt(
        "RESULTS.jsonl",
        "What was retrieved: a line a query, {query_id, results: [{doc_id, score, text, span}]}, "
        "best first.",
        reads=True,
        required=True,
    )
    min_score: Sequence[str] = many(
        "X|METRIC=X",
        "A number: score from which a verdict is relevant. METRIC=X, a gate: exit with 1 when the "
        "mean of the metric, or its lower bound where verdicts are missing, is below X; may be "
        "repeated.",
    )
    matching: Matching = opt(
        None, "How results are paired with expected answers.", Matching.GREEDY_FIRST
    )
    slice_by: Sequence[str] = many(
        "KEY",
        "Show the means of the queries that share a value of this key of their metadata; may be "
        "repeated.",
    )
    labels: str | None = opt(
        "LABELS.jsonl",
        "What people decided on some queries, drawn at random: a line a query, {query_id, "
        "relevant: [[true or false for each expected answer] for each result]}. Shows every mean "
        "corrected for the judge's error.",
        reads=True,
    )
    max_negatives: int | None = opt(
        "N", "Gate: exit with 1 when more than N retrieved texts match a negative answer.", low=0
    )

    def run(self, out: Output) -> Document | None:
        """Judge, measure, report."""
        threshold, min_scores = split_min_scores(self.min_score)
        gates = Gates(
            *(self, self.metric, min_scores),
            max_negatives=self.max_negatives,
            min_coverage=self.min_coverage,
        )
        whole = self.replays or self.estimate
        whole = whole or self.trace is not None or self.labels is not None
        by_spans = True if self.judge == "span" else None
        queries = read_queries(self.dataset, self.results, by_spans=by_spans, whole=whole)
        if queries.fit.problem:
            raise Problem(queries.fit.problem)
        out.warn(*queries.fit.warnings())
        labelled = None if self.labels is None else Labels.from_jsonl(self.labels)
        human = None if labelled is None else labelled.rankings(list(queries.groups))
        asked = MetricOptions(
            self.matching,
            per_query=self.per_query or out.writes_json or labelled is not None,
            interval=self.how_sure(),
            slice_by=self.slice_by,
        )
        kept = kept_trace(self, out)
        places = {**self.places(), **of_metrics(self.metric), **places_of_queries(queries)}
        with self.asking("judging", queries.n_contexts, places) as (server, progress):
            evaluator, groups = Evaluator(server.client), queries.groups
            if self.replays:
                replay = open_replay(
                    *(self, out, server, self.parameters(), threshold), timeout=self.timeout
                )
                with replayed(self, out, replay, missing_context(list(groups))):
                    found = evaluator.evaluate_groups(
                        groups, self.metric, replay, asked, timeout=self.timeout
                    )
            else:
                spec = self.spec(server.info, threshold)
                tell_circular(out, queries.system_models, judging_models(server.info, spec))
                asking = self.how_asked()
                if self.estimate:
                    would = evaluator.estimate(groups, self.metric, spec, asking)
                    return report_estimate(out, would)

                def record(groups: Sequence[QueryGroup], verdicts: Verdicts) -> None:
                    if kept is not None:
                        kept.keep_verdicts(groups, verdicts)
                        tell_kept(kept)

                with _unmeasured_written(out):
                    found = evaluator.evaluate_groups(
                        *(groups, self.metric, spec, asked),
                        asking=asking,
                        record=None if kept is None else record,
                        timeout=self.timeout,
                        progress=progress,
                    )
            refuse_missing(found.verdicts)
            means = None
            if human is not None and labelled is not None:
                means = corrected_means(server.client, found, human, asked, labelled.inclusion)
        details = (
            QueryResult.of(query, group, place, ranked, found.verdicts).to_dict()
            for place, (query, group, ranked) in enumerate(queries.queries())
        )
        out.warn(*evaluation_warnings(found, groups, asked.interval))
        return self._report(out, found, gates, means, details)

    def _report(
        self,
        out: Output,
        found: Evaluation,
        gates: Gates,
        means: Mapping[str, CorrectedEstimate] | None,
        queries: Iterable[Mapping[str, object]],
    ) -> Document:
        """Print the tables with what they were made from; `queries` are entries of the document."""
        table = found.table
        verdicts = table.counts.verdicts or VerdictCounts()
        out.warn(
            *negative_warnings(found.negatives),
            *(() if found.verdicts is None else vote_warnings(found.verdicts)),
            *slice_warnings(table, self.slice_by),
            *shared_warnings("corrected mean", means or {}),
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
        signature = found.judge.signature if found.judge is not None else None
        out.gates = gates.check(table, signature, out, found.negatives)
        if self.per_query:
            out.show(per_query_table(table), "")
        lines = [describe_counts(table.counts), made_from, *taken(found.usage)]
        out.show(means_table(table), "", "\n".join(lines))
        if found.usage is not None and found.usage.cascade is not None:
            out.show("", cascade_table(found.usage.cascade))
        if table.slices:
            out.show("", slices_table(table))
        if means is not None:
            out.show("", corrected_table(means))
            if told := more_labels(means):
                out.show("", told)
        corrected = {name: asdict(mean) for name, mean in (means or {}).items()}
        return {
            **document_head("", None, replace(table, query_ids=()), found.judge, out.warnings),
            "per_query": Items(table.query_values(), named=True),
            **usage_document(found.usage),
            **({} if found.negatives is None else {"negatives": found.negatives.to_dict()}),
            **({} if means is None else {"corrected": corrected}),
            "queries": Items(queries),
        }


@contextmanager
def _unmeasured_written(out: Output) -> Iterator[None]:
    """Write the verdicts of an evaluation whose metrics failed; the error goes on."""
    try:
        yield
    except JudgedError as error:
        verdicts = error.verdicts
        if isinstance(verdicts, Verdicts) and verdicts.n_ok:
            say(
                f"there are no metrics; the verdicts are written instead, {verdicts.n_ok} of "
                f"{len(verdicts)} OK"
            )
            out.write_json({**verdicts.to_dict(), "error": error.message})
            out.show(*(json.dumps(row, ensure_ascii=False) for row in verdicts.to_rows()))
        raise
