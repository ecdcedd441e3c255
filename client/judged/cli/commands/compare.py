"""`judged compare` and `judged report`: do runs differ, and by how much; results as a page.

Runs are measured one by one, or come measured, as documents of `judged evaluate --json`, `metrics
--json`, `texts --json` and `score --json`; only values of queries, or items, are compared, so that
no run is too large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from judged import Client, CompareOptions, IntervalOptions, MetricOptions, TrecRankings
from judged._files import parse_json, read_bytes
from judged._views import plural
from judged.cli.commands.metrics import check_join, topic_warnings
from judged.cli.documents import (
    MeasuredRun,
    Report,
    common_metrics,
    compare_documents,
    measured_runs,
    read_report,
    run_names,
)
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import LARGEST_SEED, AnySignature, hold_drop, read_gate
from judged.cli.output import (
    STDOUT,
    Gate,
    Outcome,
    Output,
    Problem,
    Table,
    explained,
    of_metrics,
    open_output,
    say,
)
from judged.cli.server import ResultCommand
from judged.evaluation import FileError, TrecQrels, TrecRun
from judged.evaluation.warnings import count_warnings
from judged.report import NoResultDocument, make_report, to_html, to_junit, to_markdown
from judged.report.summary import number, p_value, signed
from judged.values import ComparedRuns, Estimate, RunComparison

_DEFAULT_MOVED = 10
_FORMS = {
    ".html": ("html", to_html),
    ".htm": ("html", to_html),
    ".md": ("markdown", to_markdown),
    ".xml": ("junit", to_junit),
}
"""What outputs are written as, by the ends of their names."""


@dataclass(kw_only=True)
class CompareCommand(ResultCommand, AnySignature):
    """Test whether runs on the same queries differ.

    Examples:
    judged compare bm25.run embedding.run --qrels qrels.txt -m ndcg@10
    judged compare main.json branch.json --moved 10
    judged compare branch.json --baseline main.json --max-drop helpfulness=0.05
    """

    runs: Sequence[str] = arg(
        "RUN...",
        "TREC runs (with --qrels) or JSON documents of evaluate, metrics, texts or score; the "
        "first is the baseline of the others, unless --baseline names one.",
    )
    qrels: str | None = opt("FILE", "Judgements: topic 0 document grade.", reads=True)
    metric: Sequence[str] = many(
        "NAME",
        "Metric as in ndcg@10; may be repeated. Of documents all by default.",
        *("--metric", "-m"),
    )
    complete: bool = flag("Topics that a run lacks count as 0 (trec_eval -c).")
    baseline: str | None = opt("FILE", "The run that the others are held against.", reads=True)
    max_drop: Sequence[str] = many(
        "METRIC=X",
        "Gate: exit with 1 when a run is more than X below the baseline on the queries that they "
        "share; may be repeated.",
    )
    moved: int = opt("N", "Show the N queries that moved most.", 0, low=0, high=1000)
    difference: float | None = opt("X", "Tell the power to see a true difference of X.")
    confidence: float | None = opt("C", "Confidence of intervals; 0.95 by default.")
    permutations: int | None = opt(
        "N", "Random sign flips; 100000 by default.", low=0, high=2**32 - 1
    )
    seed: int | None = opt("N", "Seed of all that is drawn; 0.", low=0, high=LARGEST_SEED)

    def run(self, out: Output) -> Document:
        """Measure what is not measured, compare, report."""
        runs = list(self.runs)
        if self.baseline is not None:
            runs = [self.baseline, *(run for run in runs if run != self.baseline)]
        if len(runs) < 2:
            raise Problem(
                "a comparison needs at least two runs; name the baseline first, or as --baseline "
                "FILE"
            )
        names = run_names(runs)
        asked = CompareOptions.of(
            permutations=self.permutations,
            seed=self.seed,
            max_moved=max(self.moved, _DEFAULT_MOVED),
            difference=self.difference,
        )
        interval = None  # the server's default
        if self.confidence is not None or self.seed is not None:
            interval = IntervalOptions.of(confidence=self.confidence, seed=self.seed)
        with self.connect() as server:
            metrics = list(self.metric)
            if self.qrels is None:
                reports = [_read(path) for path in runs]
                metrics = [reports[0].name_of(name) for name in metrics] or common_metrics(reports)
                signatures = {name: known.signature for name, known in reports[0].metrics.items()}
                allow = self.allow_other_signature
                measured = measured_runs(out, names, reports, metrics, allow=allow)
            elif not metrics:
                raise Problem("name at least one --metric, as in ndcg@10")
            else:
                judged, files = TrecQrels.from_file(self.qrels), zip(names, runs, strict=True)
                with explained(of_metrics(metrics)):
                    measured, signatures = _from_trec(
                        out, server.client, metrics, judged, list(files), complete=self.complete
                    )
                metrics = list(signatures)
            drops = [read_gate(text, "--max-drop", metrics, signatures) for text in self.max_drop]
            of_runs = {r"runs\[(\d+)\].*": lambda place: measured[int(place)].file}
            with explained({**of_metrics(metrics), **of_runs}):
                found = server.client.compare_runs(
                    metrics,
                    {run.name: run.values for run in measured},
                    MetricOptions(interval=interval),
                    asked,
                )
        out.gates = [
            _drop(gate, found.between(gate.metric, run.name), measured[0], run)
            for gate in drops
            for run in measured[1:]
        ]
        out.warn(*dict.fromkeys(_warnings(found)))
        tests = plural(len(found.comparisons), "sign-flip test", "sign-flip tests")
        out.show(
            comparison_table(found.comparisons),
            "",
            f"the baseline is {measured[0].name}; p is that of {tests}"
            f"{', corrected by Holm' if len(found.comparisons) > 1 else ''}; {found.signature}",
            "detectable: the smallest true difference that so many queries show in 4 of 5 cases",
        )
        if self.difference is not None:
            out.show("", power_table(found.comparisons, self.difference))
        for made in found.comparisons if self.moved else ():
            if made.moved:
                title = f"moved most by {made.metric}:"
                out.show("", title, moved_table(made, self.moved))
        return _document(found, measured)


def _drop(gate: Gate, made: RunComparison, baseline: MeasuredRun, run: MeasuredRun) -> Outcome:
    """Hold a run's fall on the shared queries against its gate, at worst where some are missing."""
    before, now = baseline.means.get(gate.metric), run.means.get(gate.metric)
    highest = None if before is None else before.upper_bound
    lowest = None if now is None else now.lower_bound
    worst = None
    if before is not None and now is not None and (highest is not None or lowest is not None):
        top = before.mean if highest is None else highest
        bottom = now.mean if lowest is None else lowest
        worst = None if top is None or bottom is None else top - bottom
    name = f"{gate.metric} of {made.run}"
    return hold_drop(gate, name, made.baseline_mean, made.run_mean, worst)


def _read(path: str) -> Report:
    try:
        return read_report(path)
    except FileError as error:
        raise Problem(f"{error}; for TREC runs name their judgements with --qrels") from None


def _from_trec(
    out: Output,
    client: Client,
    metrics: Sequence[str],
    judged: TrecQrels,
    files: Sequence[tuple[str, str]],
    *,
    complete: bool,
) -> tuple[list[MeasuredRun], dict[str, str]]:
    """Return the runs measured, and the signature of each metric by its name."""
    measured, signatures = [], dict[str, str]()
    for name, path in files:
        retrieved = TrecRun.from_file(path)
        try:
            check_join(judged, retrieved, complete=complete)
        except Problem as problem:
            raise Problem(f"{path}: {problem}") from None
        table = client.compute_metrics(
            metrics,
            TrecRankings(judged.grades, retrieved.scores),
            MetricOptions(complete=complete, per_query=True),
        )
        counts = replace(table.counts, duplicates=table.counts.duplicates + retrieved.duplicates)
        told = (*retrieved.warnings, *topic_warnings(counts, judged, retrieved), *table.warnings)
        told = (*told, *count_warnings(counts))
        out.warn(*(f"{name}: {warning}" for warning in told))
        measured.append(MeasuredRun(name, path, table.per_query_values()))
        signatures = {metric.name: metric.signature for metric in table}
    return measured, signatures


def _warnings(found: ComparedRuns) -> Iterator[str]:
    """Yield the warnings of all comparisons, with the run that each is about."""
    for made in found.comparisons:
        interval = made.difference.interval
        for warning in made.warnings:
            subject = made.run if "left out" in warning else f"{made.run}, {made.metric}"
            yield f"{subject}: {warning}"
        # An interval without width is what the comparison's own warning is about already.
        for warning in interval.warnings if interval is not None and not made.warnings else ():
            yield f"{made.run}, interval: {warning}"


def _document(found: ComparedRuns, measured: Sequence[MeasuredRun]) -> dict[str, Any]:
    return {
        "baseline": measured[0].name,
        "runs": {
            run.name: {
                "file": run.file,
                "metrics": {
                    metric.name: {"mean": metric.mean, "n": metric.n}
                    for metric in found.tables[run.name].metrics
                },
            }
            for run in measured
        },
        "comparisons": [asdict(made) for made in found.comparisons],
        "signature": found.signature,
    }


def comparison_table(comparisons: Sequence[RunComparison]) -> Table:
    """Return a row for each metric of each run beside the baseline."""
    heads = [
        *("metric", "run", "n", "baseline", "mean", "difference", "interval", "p"),
        *("won/lost/tied", "detectable", "the run is"),
    ]
    rows = [
        [
            made.metric,
            made.run,
            str(made.n),
            f"{made.baseline_mean:.4f}",
            f"{made.run_mean:.4f}",
            signed(made.difference.value),
            _interval(made.difference),
            p_value(made.permutation.p_holm),
            f"{made.wins}/{made.losses}/{made.ties}",
            number(made.power.detectable_difference),
            _finding(made),
        ]
        for made in comparisons
    ]
    return Table(heads, rows, names=2)


def _finding(made: RunComparison) -> str:
    """Return what the corrected test says at the confidence of the interval."""
    interval = made.difference.interval
    alpha = 1 - interval.confidence if interval is not None else 0.05
    if made.permutation.p_holm >= alpha or not made.difference.value:
        return "not clearly different"
    return "better" if made.difference.value > 0 else "worse"


def power_table(comparisons: Sequence[RunComparison], difference: float) -> Table:
    """Return what the queries can show of a true difference, and how many would be enough."""
    rows = []
    for made in comparisons:
        needed = made.power.queries_needed
        enough = "-" if needed is None else str(needed)
        rows.append([made.metric, made.run, number(made.power.power), enough])
    heads = ["metric", "run", f"power to see {difference:g}", "queries needed"]
    return Table(heads, rows, names=2)


def moved_table(made: RunComparison, most: int) -> Table:
    """Return the queries whose values differ most."""
    rows = [
        [each.query_id, f"{each.baseline:.4f}", f"{each.run:.4f}", signed(each.run - each.baseline)]
        for each in made.moved[:most]
    ]
    return Table(["query", made.baseline, made.run, "difference"], rows)


def _interval(estimate: Estimate) -> str:
    interval = estimate.interval
    if interval is None:
        return "-"
    return f"{interval.lower:+.4f} to {interval.upper:+.4f}"


@dataclass(kw_only=True)
class ReportCommand(ResultCommand, AnySignature):
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
        *("--output", "-o"),
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
        names = run_names(self.documents)
        read = [parse_json(read_bytes(path), path, None) for path in self.documents]
        compared: Sequence[RunComparison] = ()
        before = (read[0], names[0]) if len(read) == 2 else (None, "")
        if len(read) == 2:
            reports = [read_report(path) for path in self.documents]
            allow = self.allow_other_signature
            found = compare_documents(out, self, names, reports, MetricOptions(), allow=allow)
            compared = found.comparisons
        try:
            made = make_report(
                *(read[-1], before[0], compared), title=self.title, names=(names[-1], before[1])
            )
        except NoResultDocument as error:
            raise Problem(f"{self.documents[-1]}: {error.message}") from None
        written = []
        for to, (form, write) in zip(self.output, map(_FORMS.__getitem__, ends), strict=True):
            if to == STDOUT and out.takes_stdout:
                continue
            text = write(made)
            with open_output(to, "--output") as file:
                file.write(text)
            n = len(text.encode())
            written.append({"path": to, "format": form, "bytes": n})
            if to != STDOUT:
                say(f"wrote {to}, {n:,} bytes")
        shown = [run for run in (made.baseline, made.run) if run is not None]
        read_files = [
            {
                "path": path,
                "name": run.name,
                "metrics": [metric.name for metric in run.metrics],
                "queries": run.n_queries,
            }
            for path, run in zip(self.documents, shown, strict=True)
        ]
        return {"read": read_files, "written": written}
