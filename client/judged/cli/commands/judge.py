"""`judged judge` and `judged evaluate`: judge every line of a file; measure retrieval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import partial
from typing import Any

from judged import Evaluation, JudgedError, MetricOptions, Verdict, Verdicts
from judged._files import json_line
from judged._inputs import as_id
from judged._views import plain, plural, row_of
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import (
    Gates,
    IntervalOption,
    MetricsOptions,
    MinCoverage,
    split_min_scores,
)
from judged.cli.inputs import (
    ContextFile,
    FoldedLines,
    Line,
    ReadQueries,
    check_expectations,
    of_lines,
)
from judged.cli.judging import (
    AskingOptions,
    CascadeOptions,
    NamedTrace,
    kept_trace,
    refuse_uncached,
    replayed,
)
from judged.cli.output import STDOUT, Items, NamedItems, Output, explained, say
from judged.cli.tables import (
    corrected_table,
    describe_verdicts,
    report_estimate,
    report_verdicts,
    slices_table,
    usage_document,
    usage_lines,
    vote_warnings,
)
from judged.evaluation import Evaluator, FileError
from judged.evaluation.asking import judging_models, warn_circular
from judged.evaluation.labels import Labels, corrected_means
from judged.evaluation.result import document_head, evaluation_warnings, query_result
from judged.report.content import describe_counts
from judged.values import CorrectedEstimate, JudgeIdentity, Matching, VerdictCounts
from judged.values.choices import shared_warnings
from judged.values.groups import vote_agreement

_ALWAYS = {"status", "relevant", "score", "source"}
_ANSWERS = tuple(each.name for each in fields(Verdict) if each.name != "grade")
_QRELS = ".qrels"


class JudgeCommand(CascadeOptions, AskingOptions, NamedTrace):
    """Judge every line of a file and print it with its verdict.

    Lines are streamed and not kept in memory, unless they are compressed or come from standard
    input, or --estimate, --trace or --judge none need all of them at once.

    Examples:
    judged judge contexts.jsonl --judge semantic --min-score 0.7
    judged judge contexts.jsonl --judge token_overlap --profile unicode --output judged.jsonl
    """

    contexts: str = arg(
        "CONTEXTS.jsonl",
        "Lines of {query, expected_text, retrieved_text}, expected_alternatives if there are any; "
        "- reads standard input.",
    )
    min_score: float | None = opt("X", "Score from which a verdict is relevant.")
    details: bool = flag("Tell how the model of --judge llm came to each verdict.")
    output: str = opt(
        "FILE|-",
        "Where the judged lines go; FILE.qrels gets a judgment list for trec_eval.",
        STDOUT,
        writes=True,
    )

    def run(self, out: Output) -> Document:
        """Judge, and write the lines."""
        lines, as_qrels = ContextFile(self.contexts), self.output.endswith(_QRELS)
        if as_qrels:
            _check_ids(self.contexts, lines)
        folded, kept, asking = FoldedLines(lines), kept_trace(self), self.asking_options()
        whole = self.replays or self.estimate or bool(self.trace)
        groups = list(folded) if whole else folded
        places = folded.places(self.contexts)
        with self.asking("judging", lines.n_contexts, places) as (client, info, how):
            if self.replays:
                replay = self.replay(self.min_score, details=self.details)
                with replayed(self, places):
                    found = replay.all_verdicts(groups, info.rubrics)
            else:
                spec = self.spec(info, self.min_score)
                check_expectations(out, spec, lines, client)
                warn_circular(lines.models, judging_models(info, [spec]))
                if self.estimate:
                    return report_estimate(out, client.estimate(groups, spec, asking=asking))
                details = self.details or kept is not None
                found = client.judge(groups, spec, include_details=details, asking=asking, **how)
                if kept is not None:
                    kept.keep_verdicts(groups, found)
            refuse_uncached(found)
        verdicts = of_lines(lines, found if self.details else replace(found, details={}))
        as_lines = _qrels(out, self.output, lines, verdicts) if as_qrels else None
        out.write("--output", self.output, as_lines or map(json_line, _judged(lines, verdicts)))
        report_verdicts(out, verdicts)
        if names := ", ".join(name for name in _ANSWERS if name in lines.fields):
            out.warn(f"the input has fields that the verdict replaced: {names}")
        return {
            "verdicts": Items(_judged(lines, verdicts)),
            "counts": VerdictCounts.of(verdicts).to_dict(),
            "signature": verdicts.judge.signature,
            **usage_document(verdicts.usage),
        }


def judged_line(line: Line, verdict: Verdict, judge: JudgeIdentity) -> dict[str, Any]:
    """Return a line with its verdict, whose fields replace those of the input."""
    kept = {name: value for name, value in line.fields.items() if name not in _ANSWERS}
    answers = {name: getattr(verdict, name) for name in _ANSWERS} | {
        "status": verdict.status.name,
        "source": verdict.source.name,
        "flags": plain(verdict.flags) or None,
        "error": verdict.error and row_of(verdict.error, "reason message"),
        "agreement": vote_agreement(verdict, judge),
        "detail": plain(verdict.detail),
    }
    return kept | {n: value for n, value in answers.items() if value is not None or n in _ALWAYS}


def _judged(lines: Sequence[Line], verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    for line, verdict in zip(lines, verdicts, strict=True):
        yield judged_line(line, verdict, verdicts.judge)


def _check_ids(name: str, lines: Sequence[Line]) -> None:
    """Raise FileError for a line without the ids of a judgment list, or with repeated ones."""
    seen: dict[tuple[str, ...], int] = {}
    for line in lines:
        ids = []
        for field in ("query_id", "doc_id"):
            value = as_id(line.fields.get(field))
            if not isinstance(value, str) or value.split() != [value]:
                problem = "without white space; a judgment list has both ids on each line"
                raise FileError(name, line.number, f"has no {field!r} {problem}")
            ids.append(value)
        first = seen.setdefault(tuple(ids), line.number)
        if first != line.number:
            problem = f"judges {ids[1]!r} for query {ids[0]!r} again, as line {first} does"
            raise FileError(name, line.number, f"{problem}; a judgment list has one grade of each")


def _qrels(out: Output, path: str, lines: Sequence[Line], verdicts: Verdicts) -> Iterator[str]:
    """Yield `query 0 document grade` for each verdict; warn of what the list can't hold.

    The grade is the judge's, if it gives grades, else 1 for relevant and 0 for not.
    """
    missing = rounded = 0
    for line, verdict in zip(lines, verdicts, strict=True):
        if verdict.relevant is None:
            missing += 1
            continue
        grade = float(verdict.relevant) if verdict.grade is None else verdict.grade
        whole = int(grade + 0.5)
        rounded += grade != whole
        yield f"{line.fields['query_id']} 0 {line.fields['doc_id']} {whole}\n"
    if missing:
        out.warn(
            f"{plural(missing, 'line')} without a verdict left out of {path}, where they "
            "count as not judged"
        )
    if rounded:
        what = plural(rounded, "grade")
        out.warn(f"{what} of {path} rounded to whole numbers, the means of several samples")


class EvaluateCommand(
    CascadeOptions,
    AskingOptions,
    NamedTrace,
    MetricsOptions,
    IntervalOption,
    MinCoverage,
):
    """Judge retrieval results and measure them.

    Results are streamed and not kept in memory, unless they are compressed, or --estimate,
    --labels, --trace or --judge none need all of them at once.

    Examples:
    judged evaluate dataset.json --results results.jsonl -m ndcg@10 -m recall@5
    judged evaluate dataset.json --results results.jsonl -m mrr --interval t --json out.json
    judged evaluate dataset.json --results results.jsonl -m mrr --min-score mrr=0.6
    """

    dataset: str = arg(
        "DATASET",
        "Queries with what they should find, in JSON or a format of judged convert.",
    )
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

    def run(self, out: Output) -> Document:
        """Judge, measure, report."""
        threshold, min_scores = split_min_scores(self.min_score)
        gates = Gates(min_scores, self.metric, self.min_coverage)
        whole = self.replays or self.estimate or bool(self.trace or self.labels)
        by_spans = True if self.judge == "span" else None
        queries = ReadQueries(self.dataset, self.results, by_spans=by_spans)
        with explained({"results": self.results}):
            out.warn(*queries.warnings())
        labelled = None if self.labels is None else Labels.from_jsonl(self.labels)
        groups = list(queries) if whole else queries
        human = None if labelled is None else labelled.rankings(list(groups))
        asked = self.options(
            MetricOptions,
            per_query=self.per_query or out.writes_json or labelled is not None,
            interval=self.interval_options(),
        )
        kept = kept_trace(self)
        corrected: Mapping[str, CorrectedEstimate] | None = None
        places, asking = queries.places(), self.asking_options()
        with self.asking("judging", queries.n_contexts, places) as (client, info, how):
            measure = partial(Evaluator(client).evaluate_groups, groups, self.metric)
            if self.replays:
                replay = self.replay(threshold)
                with replayed(self, places):
                    found = measure(replay, asked, timeout=self.timeout)
            else:
                spec = self.spec(info, threshold)
                warn_circular(queries.system_models, judging_models(info, [spec]))
                if self.estimate:
                    would = Evaluator(client).estimate(groups, self.metric, spec, asking)
                    return report_estimate(out, would)
                record = None if kept is None else kept.keep_verdicts
                with _unmeasured_written(out):
                    found = measure(spec, asked, asking=asking, record=record, **how)
            refuse_uncached(found.verdicts)
            if human is not None and labelled is not None:
                corrected = corrected_means(client, found, human, asked, labelled.inclusion)
        details = (
            query_result(query, group, place, ranked, found.verdicts).to_dict()
            for place, (query, group, ranked) in enumerate(queries.queries())
        )
        out.warn(*evaluation_warnings(found, groups, asked.interval))
        document = self._report(out, found, gates, corrected)
        return {**document, "queries": Items(details)}

    def _report(
        self,
        out: Output,
        found: Evaluation,
        gates: Gates,
        corrected: Mapping[str, CorrectedEstimate] | None,
    ) -> Document:
        """Print the tables and what they were made from; return the document without queries."""
        table, judge = found.table, found.judge
        verdicts = table.counts.verdicts or VerdictCounts()
        if judge is None and not verdicts.total:  # there are no verdicts to count
            table = replace(table, counts=replace(table.counts, verdicts=None))
            made_from = ["matched by document id; no judge was asked"]
        elif judge is None:
            made_from = [f"{describe_verdicts(verdicts)}, by the metrics' own judges"]
        else:
            made_from = [describe_verdicts(verdicts), f"judge {judge.signature}"]
        errors = () if found.verdicts is None else found.verdicts.errors.values()
        out.count(failed=verdicts.error, total=verdicts.total, errors=errors)
        out.warn(
            *(() if found.verdicts is None else vote_warnings(found.verdicts)),
            *shared_warnings("corrected mean", corrected or {}),
        )
        remarks = [describe_counts(table.counts), *made_from, *usage_lines(found.usage)]
        self.show_means(out, table, gates, remarks)
        if table.slices:
            out.show("", slices_table(table))
        document = {
            **document_head("", None, replace(table, query_ids=()), judge, out.warnings),
            "per_query": NamedItems(table.query_values()),
            **usage_document(found.usage),
        }
        if found.negatives is not None:
            document["negatives"] = found.negatives.to_dict()
        if corrected is not None:
            out.show("", corrected_table(corrected))
            document["corrected"] = corrected
        return document


@contextmanager
def _unmeasured_written(out: Output) -> Iterator[None]:
    """Write the verdicts of an evaluation whose metrics failed; re-raises the error."""
    try:
        yield
    except JudgedError as error:
        verdicts = error.verdicts
        if isinstance(verdicts, Verdicts) and verdicts.n_ok:
            known = f"{verdicts.n_ok} of {len(verdicts)} OK"
            say(f"there are no metrics; the verdicts are written instead, {known}")
            out.write_json({**verdicts.to_dict(), "error": error.message})
            out.show(*(json_line(row).rstrip() for row in verdicts.to_rows()))
        raise
