"""`judged judge` and `judged evaluate`: a verdict for every line of a file; retrieval measured."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, TextIO

from judged import (
    Client,
    Evaluation,
    Flag,
    Judge,
    JudgedError,
    MetricOptions,
    Source,
    Status,
    Verdict,
    Verdicts,
)
from judged._batching.judging import PASSING, failed_verdicts
from judged._files import json_line
from judged._inputs import as_id
from judged._views import plain, plural
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import (
    GateOptions,
    Gates,
    IntervalOption,
    MetricsOptions,
    MinCoverage,
    split_min_scores,
)
from judged.cli.inputs import (
    Line,
    ReadQueries,
    blocks_of_contexts,
    check_expectations,
    count_lines,
    fold_lines,
    missing_context,
    missing_line,
    of_lines,
    places_of_lines,
    places_of_queries,
    read_contexts,
)
from judged.cli.judging import (
    AskingOptions,
    CascadeOptions,
    NamedTrace,
    kept_trace,
    open_replay,
    refuse_other,
    refuse_uncached,
    replayed,
    tell_circular,
    tell_kept,
)
from judged.cli.output import (
    STDOUT,
    Items,
    Output,
    Problem,
    Progress,
    explained,
    of_metrics,
    open_output,
    say,
)
from judged.cli.tables import (
    Tally,
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
from judged.evaluation import Evaluator, FileError
from judged.evaluation.labels import Labels, corrected_means
from judged.evaluation.result import QueryResult, document_head
from judged.evaluation.warnings import evaluation_warnings
from judged.traces import TraceFile
from judged.values import (
    CorrectedEstimate,
    JudgeIdentity,
    Matching,
    MetricCounts,
    QueryGroup,
    VerdictCounts,
)
from judged.values.intervals import shared_warnings
from judged.values.verdicts import vote_agreement

_LEAST_S = 0.001
_ANSWERS = (
    *("status", "relevant", "score", "probability", "stage", "agreement", "source", "flags"),
    *("error", "detail"),
)
_QRELS = ".qrels"
_IDS = ("query_id", "doc_id")


@dataclass(kw_only=True)
class JudgeCommand(CascadeOptions, AskingOptions, NamedTrace):
    """Judge every line of a file and print it with its verdict.

    With --output FILE lines are read as they are sent and not held, unless they are standard input,
    FILE is a judgment list, or --json, --trace, --judge none, --estimate, --cache-only or
    --max-cost need all at once.

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

    def run(self, out: Output) -> Document | None:
        """Judge, and write the lines."""
        refuse_other(self.kind)
        whole = self.json is not None or self.trace is not None or self.replays or self.estimate
        whole = whole or self.cache_only or self.max_cost is not None
        whole = whole or self.output.endswith(_QRELS) or STDOUT in (self.contexts, self.output)
        held = list(read_contexts(self.contexts)) if whole else []
        counted = count_lines(held if whole else read_contexts(self.contexts))
        if self.output.endswith(_QRELS):
            _check_ids(self.contexts, held)
        kept = kept_trace(self, out)
        tally, replaced = Tally(), set[str]()
        found: Iterable[tuple[Sequence[Line], Verdicts]]
        with (
            self.asking("judging", counted.contexts, self.places()) as (server, progress),
            ExitStack() as opened,
        ):
            if self.replays:
                replay = open_replay(
                    *(self, out, server, self.parameters(), self.min_score),
                    details=self.details,
                    timeout=self.timeout,
                )
                groups = fold_lines(held)
                with replayed(self, out, replay, missing_line(self.contexts, held, groups)):
                    found = [(held, replay.all_verdicts(groups, server.info.rubrics))]
            else:
                spec = self.spec(server.info, self.min_score)
                check_expectations(out, self.contexts, spec, counted, server.client)
                tell_circular(out, counted.system_models, server.info, [spec])
                if self.estimate:
                    groups = fold_lines(held)
                    with explained(places_of_lines(self.contexts, held, groups) | self.places()):
                        would = server.client.estimate(groups, spec, asking=self.how_asked())
                    return report_estimate(out, would)
                blocks = [held] if whole else blocks_of_contexts(self.contexts)
                found = self._ask(server.client, spec, blocks, kept, progress, counted.contexts)
            file: TextIO | None = None
            for lines, each in found:
                refuse_uncached(each)
                verdicts = of_lines(lines, each)
                tally.add(verdicts)
                replaced.update(name for line in lines for name in line.fields if name in _ANSWERS)
                if not whole:
                    file = file or opened.enter_context(open_output(self.output, "--output"))
                    file.writelines(map(json_line, _judged(lines, verdicts)))
        if self.output.endswith(_QRELS):
            _write_qrels(out, self.output, held, verdicts)
        elif whole and not (self.output == STDOUT and out.takes_stdout):
            with open_output(self.output, "--output") as lines_file:
                lines_file.writelines(map(json_line, _judged(held, verdicts)))
        tally.tell(out)
        if replaced:
            names = ", ".join(name for name in _ANSWERS if name in replaced)
            out.warn(f"the input has fields that the verdict replaced: {names}")
        if not out.writes_json:
            return None
        return {
            "verdicts": list(_judged(held, verdicts)),
            "counts": tally.counts.to_dict(),
            "signature": verdicts.judge.signature,
            **usage_document(verdicts.usage),
        }

    def _ask(
        self,
        client: Client,
        spec: Judge,
        blocks: Iterable[list[Line]],
        kept: TraceFile | None,
        progress: Progress | None,
        total: int,
    ) -> Iterator[tuple[Sequence[Line], Verdicts]]:
        """Yield each block with its verdicts: errors where the server leaves for good after one."""
        ends, done = time.monotonic() + self.timeout, 0
        judge: JudgeIdentity | None = None
        for lines in blocks:
            groups = fold_lines(lines)
            with explained(places_of_lines(self.contexts, lines, groups) | self.places()):
                try:
                    verdicts = client.judge(
                        *(groups, spec),
                        include_details=self.details or kept is not None,
                        asking=self.how_asked(),
                        timeout=max(ends - time.monotonic(), _LEAST_S),
                        progress=_from(done, total, progress),
                    )
                except PASSING as error:
                    if judge is None:
                        raise
                    verdicts = failed_verdicts(groups, error, judge)
            if kept is not None:
                kept.keep_verdicts(groups, verdicts)
                tell_kept(kept)
            judge, done = verdicts.judge, done + len(verdicts)
            yield lines, verdicts if self.details else replace(verdicts, details={})


def judged_line(line: Line, verdict: Verdict, judge: JudgeIdentity) -> dict[str, Any]:
    """Return a line with its verdict; a field of the input that has an answer's name gives way."""
    fields = {name: value for name, value in line.fields.items() if name not in _ANSWERS}
    fields["status"] = Status(verdict.status).name
    fields["relevant"] = verdict.relevant
    fields["score"] = verdict.score
    if verdict.probability is not None:
        fields["probability"] = verdict.probability
    if verdict.stage is not None:
        fields["stage"] = verdict.stage
    if (agreement := vote_agreement(verdict, judge)) is not None:
        fields["agreement"] = agreement
    fields["source"] = Source(verdict.source).name
    if verdict.flags:
        fields["flags"] = [flag.name for flag in Flag if flag & verdict.flags]
    if verdict.error is not None:
        fields["error"] = {"reason": verdict.error.reason, "message": verdict.error.message}
    if verdict.detail is not None:
        fields["detail"] = plain(verdict.detail)
    return fields


def _judged(lines: Sequence[Line], verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    for line, verdict in zip(lines, verdicts, strict=True):
        yield judged_line(line, verdict, verdicts.judge)


def _from(done: int, total: int, progress: Progress | None) -> Progress | None:
    """Return what to tell of the next block when `done` contexts of `total` are judged."""
    return None if progress is None else lambda more, _: progress(done + more, total)


def _check_ids(name: str, lines: Sequence[Line]) -> None:
    """Raise FileError for a line without the ids of a judgment list, or with those of another."""
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        query_id, doc_id = (_id(name, line, field) for field in _IDS)
        first = seen.setdefault((query_id, doc_id), line.number)
        if first != line.number:
            problem = f"judges {doc_id!r} for query {query_id!r} again, as line {first} does"
            raise FileError(name, line.number, f"{problem}; a judgment list has one grade of each")


def _write_qrels(out: Output, path: str, lines: Sequence[Line], verdicts: Verdicts) -> None:
    """Write `query 0 document grade` for each verdict; warn of what the list can't hold.

    The grade is the judge's, where it gives some, else 1 for relevant and 0 for not.
    """
    missing = rounded = 0
    rows = []
    for line, verdict in zip(lines, verdicts, strict=True):
        if verdict.relevant is None:
            missing += 1
            continue
        grade = float(verdict.relevant) if verdict.grade is None else verdict.grade
        whole = int(grade + 0.5)
        rounded += grade != whole
        rows.append(f"{line.fields['query_id']} 0 {line.fields['doc_id']} {whole}\n")
    with open_output(path, "--output") as file:
        file.writelines(rows)
    if missing:
        out.warn(
            f"{plural(missing, 'line', 'lines')} without a verdict left out of {path}, where they "
            "count as not judged"
        )
    if rounded:
        what = plural(rounded, "grade", "grades")
        out.warn(f"{what} of {path} rounded to whole numbers, the means of several samples")


def _id(name: str, line: Line, field: str) -> str:
    value = as_id(line.fields.get(field))
    if not isinstance(value, str):
        problem = f"has no {field!r}, which a judgment list is made of; give each line both ids"
    elif value.split() != [value]:
        problem = f"has {field!r} with white space, at which TREC's columns end"
    else:
        return value
    raise FileError(name, line.number, problem)


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

    The results are read as they are sent and not held, unless they are compressed, or --estimate,
    --labels, --trace or --judge none need all of them at once.

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
        queries = ReadQueries(self.dataset, self.results, by_spans=by_spans)
        if queries.fit.problem:
            raise Problem(queries.fit.problem)
        out.warn(*queries.fit.warnings())
        labelled = None if self.labels is None else Labels.from_jsonl(self.labels)
        groups = list(queries) if whole else queries
        human = None if labelled is None else labelled.rankings(list(groups))
        asked = MetricOptions(
            self.matching,
            per_query=self.per_query or out.writes_json or labelled is not None,
            interval=self.how_sure(),
            slice_by=self.slice_by,
        )
        kept = kept_trace(self, out)
        places = {**self.places(), **of_metrics(self.metric), **places_of_queries(queries)}
        with self.asking("judging", queries.n_contexts, places) as (server, progress):
            evaluator = Evaluator(server.client)
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
                tell_circular(out, queries.system_models, server.info, [spec])
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
            refuse_uncached(found.verdicts)
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
