"""`judged demo`: two small retrievers on a small data set, judged, compared and shown.

Everything is real and small: a data set in the package, two retrievers of a few lines, the judge
`token_overlap`, the tests of `judged compare`, the page of `judged report`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources

from judged import MetricOptions
from judged.cli.frame import Document, opt
from judged.cli.output import Output, open_output
from judged.cli.problems import of_metrics
from judged.cli.server import ServerCommand
from judged.cli.tables import means_table
from judged.evaluation import Dataset, Evaluator, Retrieved
from judged.report import make_report, to_html
from judged.report.summary import signed
from judged.values import IntervalMethod, IntervalOptions

_METRICS = ["ndcg@5", "recall@5", "mrr"]
_WORD = re.compile(r"[a-z0-9]+")
_K = 5
DATA = "demo.json"
Search = Callable[[str, int], list[Retrieved]]


@dataclass(kw_only=True)
class DemoCommand(ServerCommand):
    """Show what judged does, on data that it brings.

    It takes some seconds, and asks no model and no network.

    Examples:
    judged demo
    judged demo -o demo.html
    """

    output: str = opt(
        *("FILE.html", "Where to write the report.", "judged-demo.html", "--output", "-o"),
        writes=True,
    )

    def run(self, out: Output) -> Document:
        """Search, judge, compare and write the page."""
        with resources.as_file(resources.files("judged.cli") / "data" / DATA) as path:
            dataset = Dataset.from_json(path)
        options = MetricOptions(
            per_query=True, interval=IntervalOptions(IntervalMethod.BCA), slice_by=["topic"]
        )
        runs = {"first words": by_words(dataset, 3), "all words": by_words(dataset)}
        out.show(
            f"{len(dataset.queries)} questions, {len(dataset.documents)} passages. Two retrievers:",
            "one looks at the first three words of a question, the other at all of them.",
            "The judge token_overlap decides which passages say what the expected answer says.",
        )
        with self.connect(of_metrics(_METRICS)) as server:
            evaluator = Evaluator(server.client)
            found = {
                name: evaluator.evaluate(
                    search, dataset, _METRICS, "token_overlap", _K, options, name=name
                )
                for name, search in runs.items()
            }
            compared = server.client.compare_runs(
                _METRICS, {name: result.table.per_query_values() for name, result in found.items()}
            )
        first, second = runs
        report = make_report(
            found[second].to_dict(),
            found[first].to_dict(),
            [made.to_dict() for made in compared.comparisons],
            title="judged demo",
            names=(second, first),
        )
        for name, result in found.items():
            out.show(
                "", f"retriever {name!r}, means with their intervals:", means_table(result.table)
            )
        out.show("", f"{second!r} beside {first!r}, by paired tests:")
        for one in report.differences:
            out.show(f"  {one.metric:9} {signed(one.difference)}, p {one.p:.4f}: {one.verdict}")
        with open_output(self.output, "--output") as file:
            file.write(to_html(report))
        out.show(
            "  So few questions can't show a difference of this size; intervals and p say so.",
            "",
            f"The report is in {self.output}: open it in a browser.",
            "With data of your own:",
            "  judged evaluate dataset.json --results results.jsonl -m ndcg@10 --json result.json",
            "  judged report result.json -o report.html",
        )
        return {"runs": {name: result.to_dict() for name, result in found.items()}}


def by_words(dataset: Dataset, most: int | None = None) -> Search:
    """Return a retriever that counts which of the query's words, the first so many, a passage has.

    A word counts the more, the fewer passages have it.
    """
    passages = [(one.doc_id, one.text, set(_words(one.text))) for one in dataset.documents.values()]
    have = Counter(word for _, _, words in passages for word in words)

    def search(query: str, k: int) -> list[Retrieved]:
        wanted = set(_words(query)[:most])
        found = [
            Retrieved(doc_id, sum(1 / have[word] for word in wanted & words), text)
            for doc_id, text, words in passages
        ]
        return sorted(found, key=lambda one: (-(one.score or 0.0), one.doc_id or ""))[:k]

    return search


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
