"""The table of figures in README.md, made from the lines under benchmarks/results.

A results file holds the last lines of benchmarks, one a line; of several lines of a benchmark the
last counts. Each file, a machine, has a table of its own. A figure that is not in the file has no
row; one that was not run says so, with its reason.

    python -m benchmarks.table           # prints what the README should hold
    python -m benchmarks.table --write   # puts it there
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT

README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"
BEGIN = "<!-- figures: made by `python -m benchmarks.table --write` -->"
END = "<!-- end of figures -->"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure and the words for it."""

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
        "operations a second, fp32; [why not more](docs/decisions/0008-fp32-ceiling.md)",
    ),
    Row("embed", "bf16_share_of_products", "", "operations a second, bf16"),
    Row(
        "mixed_load",
        "interactive_p99_ratio",
        "the same server, idle",
        "p99 of small semantic calls beside a batch of 30,000 contexts",
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
        "requests a second, 64 contexts each; "
        "[why not more](docs/decisions/0005-small-requests.md)",
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
    Row(
        "metrics",
        "ids_over_pytrec_eval",
        "",
        "the same from dicts of ids, under qrels that both have read before",
    ),
    Row("metrics", "columns_over_pytrec_eval", "", "the same from lists of ids and scores"),
    Row("metrics", "wire_over_pytrec_eval_5000", "", "the same through client and server"),
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


def read_results(path: Path) -> dict[str, Mapping[str, Any]]:
    """Return the last line of each benchmark in a results file."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line)
    return {line["benchmark"]: line for line in lines}


def render(results: Mapping[str, Mapping[str, Any]], rows: Sequence[Row] = ROWS) -> str:
    """Return the table of one machine; a benchmark's command stands in its first row."""
    lines = ["| Against | What | Ratio | Command |", "|---|---|---|---|"]
    told: set[str] = set()
    for row in rows:
        line = results.get(row.benchmark, {})
        if row.figure in line.get("figures", {}):
            low, high = line["spread"][row.figure]
            value = number(line["figures"][row.figure])
            if {number(low), number(high)} != {value}:
                value += f" ({number(low)} to {number(high)})"
        elif row.figure in line.get("not_run", {}):
            value = f"not run: {line['not_run'][row.figure]}".replace("|", "\\|")
        else:
            continue
        command = "" if row.benchmark in told else f"`python -m benchmarks.{row.benchmark}`"
        told.add(row.benchmark)
        lines.append(f"| {row.against} | {row.what} | {value} | {command} |".replace("  ", " "))
    return "\n".join(lines)


def number(value: float) -> str:
    """Return a figure in two digits that count, more where it has more before the point."""
    if value >= 10 or value == 0:
        return f"{value:,.0f}"
    text = f"{value:.2f}" if value < 1 else f"{value:.1f}"
    return text.removeprefix("0")


def section(folder: Path = RESULTS) -> str:
    """Return what stands between the marks: a table for each results file."""
    parts = []
    for path in sorted(folder.glob("*.jsonl")):
        results = read_results(path)
        machine = next(iter(results.values()))["machine"]
        link = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
        parts.append(
            f"{machine['cpu']}, {machine['cores']} cores "
            f"([all lines]({link})):\n\n{render(results)}\n"
        )
    return "\n".join(parts)


def placed(text: str, content: str) -> str:
    """Return a page with the content between its marks. Raises ValueError without marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n\n{content}\n{END}{after}"


def main() -> None:
    """Print the section, or write it."""
    if sys.argv[1:] == ["--write"]:
        text = README.read_text(encoding="utf-8")
        README.write_text(placed(text, section()), encoding="utf-8")
    else:
        print(section())


if __name__ == "__main__":
    main()
