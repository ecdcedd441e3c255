"""Makes the tables of figures in docs/benchmarks.md and README.md from benchmarks/results.

They are written between the two marks of each page. A results file has the closing lines of
benchmarks; if a benchmark has several, the last one counts.

- docs/benchmarks.md has every figure, with one table per results file (machine). A figure that is
  not in the file has no row; one that was not run has a row with the reason.
- README.md has at most eight figures of one machine, which `chart` draws. There more is always
  better for judged: figures for which smaller is better are inverted.

    python -m benchmarks.table           # prints the tables
    python -m benchmarks.table --write   # updates both pages and docs/images/figures.svg
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.chart import Bar, bar_chart
from benchmarks.harness import ROOT

README = ROOT / "README.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
CHART = ROOT / "docs" / "images" / "figures.svg"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN = "<!-- figures: made by `python -m benchmarks.table --write` -->"
END = "<!-- end of figures -->"

Results = Mapping[str, Mapping[str, Any]]
"""The closing line of each benchmark, by its name."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure and its description."""

    benchmark: str
    figure: str
    against: str
    what: str


ROWS = (
    Row(
        "lexical",
        "cpu_over_evret_0_0_1",
        "`evret` 0.0.1, in process",
        "CPU of 30,000 contexts by `token_overlap` (`classic`), client and server together",
    ),
    Row(
        "lexical",
        "cpu_over_evret_0_0_3",
        "`evret` 0.0.3, in process",
        "the same by the profile `weighted`",
    ),
    Row(
        "semantic",
        "cold_over_evret",
        "`evret` 0.0.3, `SemanticJudge`",
        "contexts a second by `semantic`, nothing known before, fp32",
    ),
    Row("semantic", "fastest_cold_over_evret", "", "the same by the fastest backend of this CPU"),
    Row("semantic", "warm_over_cold", "itself, cold", "contexts a second, every text known"),
    Row("semantic", "overlap_over_cold", "", "contexts a second, 70 % of the texts known"),
    Row(
        "semantic",
        "batch_dependent_verdicts",
        "itself in other batches",
        "verdicts that change, of the backend with most",
    ),
    Row("embed", "default_over_st", "sentence-transformers", "texts a second, fp32"),
    Row("embed", "fastest_over_st", "", "texts a second, fastest backend of this CPU"),
    Row("embed", "default_over_fastembed", "fastembed", "texts a second, fp32"),
    Row("embed", "fastest_over_fastembed", "", "texts a second, fastest backend of this CPU"),
    Row("embed", "default_over_infinity", "infinity-emb", "texts a second, fp32"),
    Row("embed", "fp32_peak_share", "bare matrix products", "operations a second, fp32"),
    Row("embed", "bf16_peak_share", "", "operations a second, bf16"),
    Row(
        "embed",
        "fp32_share_of_products",
        "the model's own products, nothing else",
        "operations a second, fp32; [why not more](#0008-how-fast-fp32-can-be-on-onnx-runtime)",
    ),
    Row("embed", "bf16_share_of_products", "", "operations a second, bf16"),
    Row(
        "mixed_load",
        "interactive_p99_ratio",
        "the same server, idle",
        "p99 of small semantic calls beside a batch of 30,000 contexts",
    ),
    Row("overload", "goodput_3x", "its own peak in the same run", "work done in time, 3x asked"),
    Row("overload", "goodput_10x", "", "work done in time, 10x asked"),
    Row(
        "evaluator",
        "times_as_fast_as_evret_0_0_3",
        "`evret` 0.0.3, in process",
        "an evaluation of 1,000 queries, 30,000 contexts and 6 metrics",
    ),
    Row(
        "wire",
        "contexts_over_null",
        "a null server of the same contract, with gRPC's defaults",
        "contexts a second, 30,000 in one call, `exact` judge",
    ),
    Row(
        "wire",
        "requests_over_null_64",
        "",
        "requests a second, 64 contexts each; [why not more](#0005-what-a-small-request-costs)",
    ),
    Row("wire", "grouped_over_naive", "one message a context", "contexts a second, as groups"),
    Row(
        "fanout",
        "calls_per_cpu_s_over_openai_sdk",
        "the `openai` package and a semaphore",
        "calls to a model a CPU second, by the judge `llm`: prompts, limits, cache, votes included",
    ),
    Row("fanout", "cpu_over_bare_loop", "a bare aiohttp loop", "CPU of a call"),
    Row("fanout", "wall_over_bare_loop", "", "wall time of 2,000 calls, 256 at once"),
    Row(
        "metrics",
        "prepared_over_pytrec_eval",
        "pytrec_eval, in process",
        "CPU of 10 measures, 5,000 queries by 100 documents, arrays that are ready; "
        "theirs over ours",
    ),
    Row("metrics", "columns_over_pytrec_eval", "", "the same from lists of ids and scores"),
    Row(
        "metrics",
        "wire_over_pytrec_eval_5000",
        "",
        "the same through client and server, wall time in place of CPU",
    ),
    Row("metrics", "prepared_over_ranx", "ranx, in process", "as the first against pytrec_eval"),
    Row("readiness", "first_verdict_over_2_s", "2 s", "start to first semantic verdict"),
    Row("readiness", "first_verdict_over_2_s_openvino", "", "the same with OpenVINO"),
    Row("readiness", "memory_over_450_mb", "450 MB", "memory after it"),
    Row("memory", "memory_over_450_mb", "450 MB", "memory after 100,000 texts of random lengths"),
    Row("memory", "last_half_growth", "itself, half way", "memory at the end of them"),
    Row(
        "readiness",
        "health_max_over_100_ms",
        "100 ms",
        "slowest health check while all cores embed",
    ),
)


@dataclass(frozen=True, slots=True)
class Highlight:
    """One figure of README.md: how many times more judged does than the peer."""

    benchmark: str
    figure: str
    against: str
    what: str
    smaller_is_better: bool = False


HIGHLIGHTS = (
    Highlight(
        "lexical",
        "cpu_over_evret_0_0_1",
        "Evret 0.0.1",
        "contexts a CPU second, `token_overlap`",
        smaller_is_better=True,
    ),
    Highlight(
        "lexical",
        "cpu_over_evret_0_0_3",
        "Evret 0.0.3",
        "contexts a CPU second, `token_overlap` `weighted`",
        smaller_is_better=True,
    ),
    Highlight("embed", "default_over_fastembed", "fastembed", "texts embedded a second"),
    Highlight("embed", "default_over_infinity", "infinity-emb", "texts embedded a second"),
    Highlight("embed", "default_over_st", "sentence-transformers", "texts embedded a second"),
    Highlight(
        "fanout",
        "calls_per_cpu_s_over_openai_sdk",
        "the `openai` package",
        "calls to a model a CPU second, `llm`",
    ),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A median with the smallest and the largest value."""

    value: float
    low: float
    high: float

    @classmethod
    def find(cls, results: Results, benchmark: str, name: str) -> Figure | None:
        """Return a figure of the results; None if it was not measured."""
        line = results.get(benchmark, {})
        if name not in line.get("figures", {}):
            return None
        low, high = line["spread"][name]
        return cls(line["figures"][name], low, high)

    def inverted(self) -> Figure:
        """Return the figure with its two sides exchanged."""
        return Figure(1 / self.value, 1 / self.high, 1 / self.low)

    def __str__(self) -> str:
        """Return the median, with the extremes if they differ from it after rounding."""
        value, low, high = number(self.value), number(self.low), number(self.high)
        return value if {low, high} == {value} else f"{value} ({low} to {high})"


def read_results(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the last line of each benchmark in a results file."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {line["benchmark"]: line for line in lines}


def render(results: Results, rows: Sequence[Row] = ROWS) -> str:
    """Return the table of one machine; each command is shown in its benchmark's first row."""
    lines = ["| Against | What | Ratio | Command |", "|---|---|---|---|"]
    shown: set[str] = set()
    for row in rows:
        not_run = results.get(row.benchmark, {}).get("not_run", {})
        if (figure := Figure.find(results, row.benchmark, row.figure)) is not None:
            value = str(figure)
        elif row.figure in not_run:
            value = f"not run: {not_run[row.figure]}".replace("|", "\\|")
        else:
            continue
        command = "" if row.benchmark in shown else f"`python -m benchmarks.{row.benchmark}`"
        shown.add(row.benchmark)
        lines.append(f"| {row.against} | {row.what} | {value} | {command} |".replace("  ", " "))
    return "\n".join(lines)


def number(value: float) -> str:
    """Return a figure with two significant digits, or as a whole number from 10 up."""
    if value >= 9.95 or value == 0:
        return f"{value:,.0f}"
    text = f"{value:.2f}" if value < 0.995 else f"{value:.1f}"
    return text.removeprefix("0")


def section(folder: Path = RESULTS) -> str:
    """Return the section of docs/benchmarks.md: a table for each results file."""
    parts = []
    for path in sorted(folder.glob("*.jsonl")):
        results = read_results(path)
        link = os.path.relpath(path, BENCHMARKS.parent)
        parts.append(f"{_machine(results)} ([all lines]({link})):\n\n{render(results)}\n")
    return "\n".join(parts)


def highlights(folder: Path = RESULTS) -> tuple[str, list[tuple[Highlight, Figure]]]:
    """Return the machine that has most of the figures of README.md, and its figures."""
    best: tuple[str, list[tuple[Highlight, Figure]]] = ("", [])
    for path in sorted(folder.glob("*.jsonl")):
        results = read_results(path)
        found = []
        for row in HIGHLIGHTS:
            figure = Figure.find(results, row.benchmark, row.figure)
            if figure is not None:
                found.append((row, figure.inverted() if row.smaller_is_better else figure))
        if len(found) > len(best[1]):
            best = _machine(results), found
    return best


def summary(folder: Path = RESULTS) -> str:
    """Return the section of README.md: the chart, and its figures as a table."""
    machine, found = highlights(folder)
    lines = ["| Against | What | Times more |", "|---|---|---|"]
    lines += [f"| {row.against} | {row.what} | {figure} |" for row, figure in found]
    image = f"![The table below as bars]({CHART.relative_to(README.parent).as_posix()})"
    return f"{image}\n\n{machine}:\n\n" + "\n".join(lines) + "\n"


def chart(folder: Path = RESULTS) -> str:
    """Return the chart of README.md as SVG."""
    machine, found = highlights(folder)
    bars = [
        Bar(
            f"against {row.against}".replace("`", ""),
            row.what.replace("`", ""),
            figure.value,
            figure.low,
            figure.high,
            str(figure),
        )
        for row, figure in found
    ]
    return bar_chart(
        "How many times more judged does: at 1 both do as much",
        f"{machine}; the median of the rounds, lines from the smallest to the largest",
        bars,
    )


def _machine(results: Results) -> str:
    machine = next(iter(results.values()))["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores"


def placed(text: str, content: str) -> str:
    """Return a page with `content` between its marks. Raises ValueError if it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{content}\n{END}{after}"


def pages() -> dict[Path, str]:
    """Return the expected content of every file that shows figures."""
    return {
        BENCHMARKS: placed(BENCHMARKS.read_text(encoding="utf-8"), section()),
        README: placed(README.read_text(encoding="utf-8"), summary()),
        CHART: chart(),
    }


def main() -> None:
    """Print the tables, or write all files."""
    if sys.argv[1:] == ["--write"]:
        for path, text in pages().items():
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
    else:
        print(section(), summary(), sep="\n")


if __name__ == "__main__":
    main()
