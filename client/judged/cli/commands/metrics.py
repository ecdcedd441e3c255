"""`judged metrics`, `texts`, `compare` and `report`: measure, compare and show runs and texts.

No judge is asked. The server ranks and joins, as trec_eval does. Runs are measured one by one, or
are documents of `judged evaluate --json` and the like; only values of queries or items are
compared, so that no run is too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from judged import (
    Client,
    CompareOptions,
    MetricOptions,
    MetricTable,
    TextItem,
    TextMetricTable,
    TrecRankings,
)
from judged._files import parse_json, read_bytes
from judged._views import of_all, plural, row_of
from judged.cli.documents import (
    ComparingCommand,
    MeasuredRun,
    common_metrics,
    read_report,
    run_names,
)
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import (
    Drawn,
    GateOptions,
    Gates,
    IntervalOption,
    MetricsOptions,
    MinCoverage,
    check_drop,
    read_gate,
)
from judged.cli.inputs import read_answers
from judged.cli.output import (
    STDOUT,
    Gate,
    Outcome,
    Output,
    Problem,
    Table,
    explained,
    of_metrics,
    say,
)
from judged.cli.server import ResultCommand
from judged.evaluation import FileError, TrecQrels, TrecRun, answer_similarity
from judged.evaluation.answers import METRIC, AnswerSimilarity
from judged.evaluation.result import count_warnings, interval_warnings
from judged.report import NoResultDocument, make_report, to_html, to_junit, to_markdown
from judged.report.content import describe_counts, difference_cells, verdict_of
from judged.values import (
    ComparedRuns,
    MetricCounts,
    MetricResult,
    RunComparison,
    Unjudged,
)


class MetricsCommand(ResultCommand, MetricsOptions, IntervalOption, GateOptions, MinCoverage):
    """Measure a TREC run; no judge is asked.

    Examples:
    judged metrics --qrels qrels.txt --run run.txt -m ndcg@10 -m ap
    judged metrics --qrels qrels.txt --run run.txt -m ap --min-score ap=0.3
    """

    qrels: str = opt("FILE", "Judgements: topic 0 document grade.", reads=True, required=True)
    run_: str = opt("FILE", "topic Q0 document rank score tag.", reads=True, required=True)
    complete: bool = flag("Topics that the run lacks count as 0 (trec_eval -c).")
    relevance_level: int | None = opt("N", "The smallest relevant grade (trec_eval -l).")
    max_documents: int | None = opt(
        "M", "Rank only the best M documents of a topic (trec_eval -M)."
    )
    unjudged: Unjudged = opt(None, "What an unjudged document counts as.", Unjudged.NON_RELEVANT)

    def run(self, out: Output) -> Document:
        """Measure, and report."""
        gates = Gates(self.min_score, self.metric, self.min_coverage)
        judged, retrieved = TrecQrels.from_file(self.qrels), TrecRun.from_file(self.run_)
        options = self.options(MetricOptions, per_query=True, interval=self.interval_options())
        with self.connect() as (client, _):
            table, warnings = measure_run(client, self.metric, judged, retrieved, options)
        out.warn(*warnings, *interval_warnings(table, options.interval))
        self.show_means(out, table, gates, [describe_counts(table.counts)])
        return {**table.to_dict(), "signature": None}


def measure_run(
    client: Client,
    metrics: Sequence[str],
    judged: TrecQrels,
    retrieved: TrecRun,
    options: MetricOptions,
) -> tuple[MetricTable, list[str]]:
    """Return the metrics of a run, and warnings about it.

    Raises Problem if the files have no topic in common, so that there is no mean.
    """
    if not options.complete and judged.grades.keys().isdisjoint(retrieved.scores):
        raise Problem(
            f"qrels and run have no topic in common: {next(iter(judged.grades))!r} is one of the "
            f"qrels, {next(iter(retrieved.scores))!r} one of the run; check that they belong "
            "together"
        )
    rankings = TrecRankings(judged.grades, retrieved.scores)
    table = client.compute_metrics(metrics, rankings, options)
    # A mapping holds each document once, so the server never saw the repeated lines.
    counts = replace(table.counts, duplicates=table.counts.duplicates + retrieved.duplicates)
    warnings = dict.fromkeys([*retrieved.warnings, *table.warnings, *count_warnings(counts)])
    return replace(table, counts=counts), [*warnings]


class TextsCommand(ResultCommand, MetricsOptions, IntervalOption, GateOptions):
    """Measure answers against references by words or embeddings.

    Examples:
    judged texts answers.jsonl -m bleu -m token_f1 --interval t
    judged texts answers.jsonl -m rougeL --min-score rougeL=0.3
    """

    answers: str = arg(
        "ANSWERS.jsonl|-",
        "A line an answer: {item_id, query, answer, references}; - is standard input.",
    )
    metric: Sequence[str] = many(
        "NAME",
        "bleu, rouge1, rouge2, rougeL, token_f1, exact_match, or semantic_similarity, by "
        "embeddings; may be repeated.",
        required=True,
    )

    def run(self, out: Output) -> Document:
        """Measure, and report."""
        gates = Gates(self.min_score, self.metric)
        read = read_answers(self.answers)
        n, made = len(read.lines), self.interval_options()
        texts = [TextItem(item.answer, item.references) for item in read.items]
        by_words = [name for name in self.metric if name != METRIC]
        measured, similarity = TextMetricTable([]), None
        with self.connect(read.places()) as (client, _):
            if by_words:
                measured = client.compute_text_metrics(
                    by_words, texts, per_item=True, interval=made
                )
            if METRIC in self.metric:
                similarity = answer_similarity(texts, client=client, interval=made)
        found = {
            one.name: MetricResult(
                one.name,
                one.mean if one.n else None,
                one.n,
                None,
                None,
                one.signature,
                one.values,
                one.interval,
            )
            for one in measured
        }
        remarks = [plural(n, "answer")]
        out.warn(*_unread_warnings(measured, similarity, n))
        if similarity is not None:
            found[METRIC] = similarity.metric
            remarks.append(f"judge {similarity.judge.signature}")
            if similarity.truncated:
                some = of_all(similarity.truncated, n, "answer")
                why = "a text is longer than the model's window"
                out.warn(f"{some} compared by the beginning alone: {why}")
        table = MetricTable(
            [found[name] for name in self.metric],
            [item.item_id for item in read.items],
            MetricCounts(queries=n, evaluated=n),
        )
        out.warn(*interval_warnings(table, made))
        self.show_means(out, table, gates, remarks)
        return {**table.to_dict(), "signature": None}


def _unread_warnings(
    measured: TextMetricTable, similarity: AnswerSimilarity | None, n: int
) -> Iterator[str]:
    """Yield a warning for each metric that can't read much of some answers."""
    found = [(one.name, one.unread, one.without_value) for one in measured]
    if similarity is not None:
        found.append((METRIC, similarity.unread, similarity.without_value))
    for name, unread, without_value in found:
        if unread:
            some = f"{of_all(unread, n, 'answer')} (or of the references)"
            yield (
                f"{name} does not read much of {some}, and {without_value} have no value; use a "
                "metric, or a model, for their language"
            )


_MOVED = 10
_FORMS = {".html": to_html, ".md": to_markdown, ".xml": to_junit}
"""Formats of outputs, by the endings of their names."""


class CompareCommand(ComparingCommand, Drawn):
    """Test whether runs on the same queries differ.

    Examples:
    judged compare bm25.run embedding.run --qrels qrels.txt -m ndcg@10
    judged compare main.json branch.json --max-drop helpfulness=0.05
    """

    runs: Sequence[str] = arg(
        "RUN...",
        "TREC runs (with --qrels) or JSON documents of evaluate, metrics, texts or score; the "
        "first is the baseline of the others.",
    )
    qrels: str | None = opt("FILE", "Judgements: topic 0 document grade.", reads=True)
    metric: Sequence[str] = many(
        "NAME",
        "Metric as in ndcg@10; may be repeated. Of documents all by default.",
    )
    complete: bool = flag("Topics that a run lacks count as 0 (trec_eval -c).")
    max_drop: Sequence[str] = many(
        "METRIC=X",
        "Gate: exit with 1 when a run is more than X below the baseline on the queries that they "
        "share; may be repeated.",
    )
    permutations: int | None = opt("N", "Random sign flips; 100000 by default.")

    def run(self, out: Output) -> Document:
        """Measure the runs if they are not measured, compare them, and report."""
        asked = self.options(CompareOptions, max_moved=_MOVED)
        with self.connect(of_metrics(self.metric)) as (client, _):
            measured = self._measured(out, client, self.runs)
            metrics = list(measured[0].means)
            drops = [read_gate(text, "--max-drop", metrics) for text in self.max_drop]
            of_runs = {r"runs\[(\d+)\].*": lambda place: measured[int(place)].file}
            with explained({**of_metrics(metrics), **of_runs}):
                found = client.compare_runs(
                    metrics,
                    {run.name: run.values for run in measured},
                    MetricOptions(interval=self.interval_options()),
                    asked,
                )
        baseline, *others = measured
        out.gates = [
            _drop(gate, found.between(gate.metric, run.name), baseline, run)
            for gate in drops
            for run in others
        ]
        out.warn(*dict.fromkeys(_warnings(found)))
        tests = plural(len(found.comparisons), "sign-flip test")
        out.show(
            comparison_table(found.comparisons),
            "",
            f"the baseline is {baseline.name}; p is that of {tests}"
            f"{', corrected by Holm' if len(found.comparisons) > 1 else ''}; {found.signature}",
            "detectable: the smallest true difference that so many queries show in 4 of 5 cases",
        )
        return {
            "baseline": baseline.name,
            "runs": {
                run.name: {
                    "file": run.file,
                    "metrics": {
                        metric.name: row_of(metric, "mean n")
                        for metric in found.tables[run.name].metrics
                    },
                }
                for run in measured
            },
            **row_of(found, "comparisons signature"),
        }

    def _measured(self, out: Output, client: Client, paths: Sequence[str]) -> list[MeasuredRun]:
        """Return the runs, measured by the same metrics. Raises Problem."""
        names = run_names(paths)
        if self.qrels is None:
            try:
                reports = [read_report(path) for path in paths]
            except FileError as error:
                step = "for TREC runs name their judgements with --qrels"
                raise Problem(f"{error}; {step}") from None
            metrics = self.metric or common_metrics(out, reports)
            return self.measured(out, names, reports, metrics)
        judged, measured = TrecQrels.from_file(self.qrels), []
        options = MetricOptions(complete=self.complete, per_query=True)
        for name, path in zip(names, paths, strict=True):
            run = TrecRun.from_file(path)
            try:
                table, warnings = measure_run(client, self.metric, judged, run, options)
            except Problem as problem:
                raise Problem(f"{path}: {problem}") from None
            out.warn(*(f"{name}: {warning}" for warning in warnings))
            means = {metric.name: metric for metric in table}
            measured.append(MeasuredRun(name, path, table.per_query_values(), means))
        return measured


def _drop(gate: Gate, made: RunComparison, baseline: MeasuredRun, run: MeasuredRun) -> Outcome:
    """Return a gate's outcome for a run's drop on shared queries, or the worst case."""
    before, now, worst = baseline.means[gate.metric], run.means[gate.metric], None
    top, bottom = before.upper_bound, now.lower_bound
    if top is not None or bottom is not None:
        highest = before.mean if top is None else top
        lowest = now.mean if bottom is None else bottom
        if highest is not None and lowest is not None:
            worst = highest - lowest
    name = f"{gate.metric} of {made.run}"
    return check_drop(gate, name, made.baseline_mean, made.run_mean, worst)


def _warnings(found: ComparedRuns) -> Iterator[str]:
    """Yield the warnings of all comparisons, each with its run."""
    for made in found.comparisons:
        for warning in made.warnings:
            subject = made.run if "left out" in warning else f"{made.run}, {made.metric}"
            yield f"{subject}: {warning}"
        for warning in made.interval_warnings:
            yield f"{made.run}, interval: {warning}"


def comparison_table(comparisons: Sequence[RunComparison]) -> Table:
    """Return a row for each metric of each run, compared with the baseline."""
    heads = [
        "metric",
        "run",
        "n",
        "baseline",
        "mean",
        "difference",
        "interval",
        "p",
        "won/lost/tied",
        "detectable",
        "the run is",
    ]
    rows = [
        [
            made.metric,
            made.run,
            made.n,
            *difference_cells(made),
            made.power.detectable_difference,
            verdict_of(made),
        ]
        for made in comparisons
    ]
    return Table(heads, rows)


class ReportCommand(ComparingCommand):
    """Show results as an HTML page, as Markdown or as JUnit XML.

    Examples:
    judged report result.json -o report.html
    judged report main.json branch.json -o report.html -o comment.md
    judged report result.json -o junit.xml
    """

    documents: Sequence[str] = arg(
        "RESULT.json [OTHER.json]",
        "Documents of judged evaluate --json, judged metrics --json or a result's to_json. Of two "
        "the first is the baseline.",
    )
    output: Sequence[str] = many(
        "FILE|-",
        "Where to write: .html a page, .md Markdown, .xml JUnit; - prints Markdown. May be "
        "repeated.",
        writes=True,
        required=True,
    )
    title: str = opt("TEXT", "Heading of the report.", "Evaluation report")

    def run(self, out: Output) -> Document:
        """Compare two documents, and write all outputs."""
        if len(self.documents) > 2:
            raise Problem("a report shows one document, or two of which the first is the baseline")
        ends = [".md" if to == STDOUT else Path(to).suffix.lower() for to in self.output]
        for to, end in zip(self.output, ends, strict=True):
            if end not in _FORMS:
                raise Problem(
                    f"--output {to}: ends in none of {', '.join(_FORMS)}, which say what to write"
                )
        paths, names = self.documents, run_names(self.documents)
        read = [parse_json(read_bytes(path), path, None) for path in paths]
        compared: Sequence[RunComparison] = ()
        before = None
        if len(paths) == 2:
            reports, before = [read_report(path) for path in paths], read[0]
            compared = self.compared(out, names, reports, MetricOptions()).comparisons
        try:
            of_runs = (names[-1], names[0])
            made = make_report(
                read[-1], before, compared, title=self.title, names=of_runs, remarks=out.warnings
            )
        except NoResultDocument as error:
            raise Problem(f"{paths[-1]}: {error.message}") from None
        written = []
        for to, end in zip(self.output, ends, strict=True):
            if out.write("--output", to, [_FORMS[end](made)]):
                written.append(to)
                if to != STDOUT:
                    say(f"wrote {to}")
        return {"read": paths, "written": written}
