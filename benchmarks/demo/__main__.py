"""Judges what two retrievers find for 90 questions, by three judges, over a real gRPC server.

Prints one table and writes out/demo/report.json.

    python -m benchmarks.demo
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judged import Client, Evaluation, MetricTable, QueryGroup, TrecRankings
from rich.console import Console
from rich.table import Table

from benchmarks.demo.corpus import Corpus, load
from benchmarks.demo.retrievers import Run, bm25, embedding
from benchmarks.harness import machine, serving

TOP = 10
METRICS = ("hit_rate@1", "hit_rate@10", "mrr@10", "ndcg@10")
JUDGES = ("exact", "token_overlap", "semantic")
REPORT = Path("out/demo/report.json")
LEGEND = """\
How to read it. For every question each retriever returned its 10 best passages out of {passages};
each judge then decided which of them say what the hand-written answers say.
  exact          the passage is the expected answer, letter for letter
  token_overlap  enough of the expected answer's words are in the passage
  semantic       the embeddings of answer and passage are close enough
  labels         no judge: the passages that were labelled as answering the question
  relevant       share of the {judged} verdicts that are "yes"
  hit_rate@k     share of questions with a relevant passage in the top k
  mrr@10         1 / rank of the first relevant passage, averaged
  ndcg@10        how close the ranking comes to the ideal one
The rows differ because the judges do: trust one as far as it agrees with labels on data like yours.
"""


def groups_of(corpus: Corpus, run: Run) -> list[QueryGroup]:
    """Return one group a question: its expected answers and what was retrieved for it."""
    return [
        QueryGroup(
            query_id=question.query_id,
            query=question.text,
            expected=question.expected_answers,
            retrieved=[corpus.passages[doc] for doc in run[question.query_id]],
            document_ids=list(run[question.query_id]),
        )
        for question in corpus.questions
    ]


def row(retriever: str, judge: str, table: MetricTable, seconds: float) -> dict[str, Any]:
    """Return what the report says of one retriever under one judge."""
    counts = dataclasses.asdict(table.counts)
    verdicts = table.counts.verdicts
    return {
        "retriever": retriever,
        "judge": judge,
        "metrics": {
            metric.name: {"mean": metric.mean, "n": metric.n, "signature": metric.signature}
            for metric in table.metrics
        },
        "counts": counts,
        "coverage": verdicts.ok / verdicts.total if verdicts and verdicts.total else None,
        "seconds": round(seconds, 4),
    }


def judged_rows(client: Client, corpus: Corpus, runs: dict[str, Run]) -> Iterator[dict[str, Any]]:
    """Yield a row for each retriever and judge, the labels last."""
    for retriever, run in runs.items():
        groups = groups_of(corpus, run)
        for judge in JUDGES:
            started = time.perf_counter()
            done: Evaluation = client.evaluate(groups, METRICS, judge)
            result = row(retriever, judge, done.table, time.perf_counter() - started)
            if done.judge is not None:
                result["signature"] = done.judge.signature
                result["fingerprint"] = done.judge.fingerprint
            yield result
        started = time.perf_counter()
        table = client.compute_metrics(METRICS, TrecRankings(corpus.qrels, run))
        yield row(retriever, "labels", table, time.perf_counter() - started)


def show(rows: list[dict[str, Any]], corpus: Corpus, version: str) -> None:
    """Print the table and how to read it."""
    console = Console(width=None if sys.stdout.isatty() else 100)
    title = f"{len(corpus.questions)} questions on the Python language, judged {version}"
    table = Table("retriever", "judge", title=title)
    for name in ("relevant", *METRICS, "seconds"):
        table.add_column(name, justify="right")
    for index, entry in enumerate(rows):
        verdicts = entry["counts"]["verdicts"]
        share = f"{verdicts['relevant'] / verdicts['ok']:.1%}" if verdicts else "-"
        means = [f"{entry['metrics'][name]['mean']:.3f}" for name in METRICS]
        last = index + 1 == len(rows) or rows[index + 1]["retriever"] != entry["retriever"]
        table.add_row(
            entry["retriever"],
            entry["judge"],
            share,
            *means,
            f"{entry['seconds']:.2f}",
            end_section=last,
        )
    console.print(table)
    judged = rows[0]["counts"]["verdicts"]["ok"]
    console.print(LEGEND.format(passages=len(corpus.passages), judged=judged), highlight=False)


def main() -> None:
    """Run the demo."""
    corpus = load()
    with (
        serving("judged_server", "--log-level", "warning") as server,
        Client(server.address) as client,
    ):
        runs = {"BM25": bm25(corpus, TOP), "embedding": embedding(corpus, TOP, client)}
        rows = list(judged_rows(client, corpus, runs))
        version = client.server_info().version
    show(rows, corpus, version)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    report = {"machine": machine(), "version": version, "top": TOP, "rows": rows}
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    print(f"Everything in numbers, with signatures and counts: {REPORT}")


if __name__ == "__main__":
    main()
