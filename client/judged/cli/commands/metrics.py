"""`judged metrics` and `judged texts`: TREC runs, and texts, measured without a judge.

Ranking and joining are the server's, as trec_eval does. The documents of both have one shape:
`--baseline` and `judged report` read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from judged import MetricOptions, MetricTable, TextItem, TextMetricTable, TrecRankings
from judged._views import of_all, plural, word
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import (
    GateOptions,
    Gates,
    IntervalOption,
    MetricsOptions,
    MinCoverage,
    hold_count,
)
from judged.cli.inputs import AnswerFile, read_answers
from judged.cli.output import Gate, Outcome, Output, Problem, of_metrics
from judged.cli.server import ResultCommand
from judged.cli.tables import describe_counts, means_table, per_query_table
from judged.evaluation import TrecQrels, TrecRun, answer_similarity
from judged.evaluation.answer_comparison import METRIC, AnswerSimilarity
from judged.evaluation.datasets.fit import spelling_warning
from judged.evaluation.warnings import count_warnings, interval_warnings
from judged.values import MetricCounts, MetricResult, Unjudged


@dataclass(kw_only=True)
class MetricsCommand(ResultCommand, MetricsOptions, IntervalOption, GateOptions, MinCoverage):
    """Measure a TREC run; no judge is asked.

    Examples:
    judged metrics --qrels qrels.txt --run run.txt -m ndcg@10 -m ap
    judged metrics --qrels qrels.txt --run run.txt -m ap --max-drop ap=0.02 --baseline a.json
    """

    qrels: str = opt("FILE", "Judgements: topic 0 document grade.", reads=True, required=True)
    run_: str = opt("FILE", "topic Q0 document rank score tag.", reads=True, required=True)
    complete: bool = flag("Topics that the run lacks count as 0 (trec_eval -c).")
    relevance_level: int | None = opt(
        "N", "The smallest relevant grade (trec_eval -l).", low=1, high=2**31 - 1
    )
    max_documents: int | None = opt(
        "M", "Rank only the best M documents of a topic (trec_eval -M).", low=1, high=2**31 - 1
    )
    unjudged: Unjudged = opt(
        None, "What a document counts as that nobody judged.", Unjudged.NON_RELEVANT
    )

    def run(self, out: Output) -> Document:
        """Measure, and report."""
        gates = Gates(self, self.metric, min_coverage=self.min_coverage)
        judged, retrieved = TrecQrels.from_file(self.qrels), TrecRun.from_file(self.run_)
        check_join(judged, retrieved, complete=self.complete)
        options = MetricOptions(
            complete=self.complete,
            per_query=True,
            interval=self.how_sure(),
            unjudged=self.unjudged,
            relevance_level=self.relevance_level,
            max_documents=self.max_documents,
        )
        with self.connect(of_metrics(self.metric)) as server:
            rankings = TrecRankings(judged.grades, retrieved.scores)
            table = server.client.compute_metrics(self.metric, rankings, options)
        # A mapping holds each document once, so the server never saw the repeated lines.
        counts = replace(table.counts, duplicates=table.counts.duplicates + retrieved.duplicates)
        table = replace(table, counts=counts)
        out.warn(
            *retrieved.warnings,
            *topic_warnings(counts, judged, retrieved),
            *table.warnings,
            *count_warnings(counts),
            *interval_warnings(table, options.interval),
        )
        out.gates = gates.check(table, None, out)
        if self.per_query:
            out.show(per_query_table(table), "")
        out.show(means_table(table), "", describe_counts(counts))
        return {**table.to_dict(), "signature": None}


def check_join(judged: TrecQrels, retrieved: TrecRun, *, complete: bool) -> None:
    """Raise Problem when the two files have no topic in common, so that there is no mean."""
    if complete or not judged.grades.keys().isdisjoint(retrieved.scores):
        return
    raise Problem(
        f"qrels and run have no topic in common: {next(iter(judged.grades))!r} is one of the "
        f"qrels, {next(iter(retrieved.scores))!r} one of the run; check that they belong together"
    )


def topic_warnings(counts: MetricCounts, judged: TrecQrels, retrieved: TrecRun) -> list[str]:
    """Return what the reader of a table should know about topics that are not in it."""
    warnings = []
    if counts.skipped_missing:
        topics = plural(counts.skipped_missing, "topic", "topics")
        warnings.append(
            f"{topics} of the qrels left out: not in the run; --complete counts them as 0"
        )
    if counts.skipped_unjudged:
        topics = plural(counts.skipped_unjudged, "topic", "topics")
        warnings.append(f"{topics} of the run left out: nothing of it is judged")
        missing = (topic for topic in judged.grades if topic not in retrieved.scores)
        unknown = (topic for topic in retrieved.scores if topic not in judged.grades)
        if said := spelling_warning(missing, unknown):
            warnings.append(said)
    return warnings


@dataclass(kw_only=True)
class TextsCommand(ResultCommand, MetricsOptions, IntervalOption, GateOptions):
    """Measure answers against references by words or embeddings.

    Examples:
    judged texts answers.jsonl -m bleu -m token_f1 --interval t
    judged texts answers.jsonl -m rougeL --max-drop rougeL=0.02 --baseline main.json
    """

    answers: str = arg(
        "ANSWERS.jsonl|-",
        "A line an answer: {item_id, query, answer, references}; - is standard input.",
    )
    metric: Sequence[str] = many(
        "NAME",
        "bleu, rouge1, rouge2, rougeL, token_f1, exact_match, or semantic_similarity, by "
        "embeddings; may be repeated.",
        *("--metric", "-m"),
        required=True,
    )
    max_negatives: int | None = opt(
        "N",
        "Gate: exit with 1 when more than N answers are nearer a negative reference than any "
        "reference, by semantic_similarity.",
        low=0,
    )

    def run(self, out: Output) -> Document:
        """Measure, and report."""
        gates = Gates(self, self.metric)
        read = read_answers(self.answers, with_negatives=METRIC in self.metric)
        for item, line in zip(read.items, read.line_numbers, strict=True):
            if not item.references:
                raise Problem(
                    f"{read.name}:{line}: item {item.item_id!r} has no 'references'; a text metric "
                    "needs at least one"
                )
        made = self.how_sure()
        texts = [TextItem(item.answer, item.references) for item in read.items]
        by_words = [name for name in self.metric if name != METRIC]
        found: dict[str, MetricResult] = {}
        similarity, measured = None, TextMetricTable([])
        with self.connect({**of_metrics(self.metric), **read.places()}) as server:
            if by_words:
                measured = server.client.compute_text_metrics(
                    by_words, texts, per_item=True, interval=made
                )
                found = _results(measured)
            if METRIC in self.metric:
                similarity = answer_similarity(
                    texts, read.negatives, client=server.client, interval=made
                )
                found[METRIC] = similarity.metric
        n = len(read.items)
        table = MetricTable(
            [found[name] for name in self.metric],
            [item.item_id for item in read.items],
            MetricCounts(queries=n, evaluated=n),
        )
        out.warn(*_unread_warnings(measured, similarity, n))
        if similarity is not None and similarity.truncated:
            some = of_all(similarity.truncated, n, "answer", "answers")
            out.warn(
                f"{some} compared by the beginning alone: a text is longer than the model's window"
            )
        out.warn(*interval_warnings(table, made))
        out.gates = gates.check(table, None, out)
        if self.max_negatives is not None:
            out.gates.append(_hold_near(self.max_negatives, similarity, read.name))
        if self.per_query:
            out.show(per_query_table(table), "")
        made_from = [plural(n, "answer", "answers")]
        if similarity is not None:
            made_from.append(f"judge {similarity.judge.signature}")
            if similarity.with_negatives:
                some = of_all(_near(similarity), similarity.with_negatives, "answer", "answers")
                made_from.append(f"{some} nearer a negative reference than any reference")
        out.show(means_table(table), "", "\n".join(made_from))
        negatives = _negatives_document(similarity, read)
        return {**table.to_dict(), "signature": None, **negatives}


def _results(measured: TextMetricTable) -> dict[str, MetricResult]:
    """Return metrics of texts by name, as those of rankings, an item in place of a query."""
    return {
        m.name: MetricResult(
            m.name, m.mean if m.n else None, m.n, None, None, m.signature, m.values, m.interval
        )
        for m in measured
    }


def _unread_warnings(
    measured: TextMetricTable, similarity: AnswerSimilarity | None, n: int
) -> Iterator[str]:
    """Yield of how many answers each metric does not read a good part."""
    for metric in measured:
        if not metric.unread:
            continue
        some = f"{of_all(metric.unread, n, 'answer', 'answers')} (or the references)"
        what = f"without spaces, which {metric.name} does not part into words"
        if metric.name.startswith("rouge"):
            what = f"that {metric.name} does not read"
        verb = word(metric.unread, "is", "are")
        yield f"{some} {verb} in a script {what}{_missing(metric.without_value)}"
    if similarity is not None and similarity.unread:
        some = of_all(similarity.unread, n, "answer", "answers")
        yield (
            f"{some} (or the references) {word(similarity.unread, 'has', 'have')} many words that "
            f"the model of {METRIC} does not know{_missing(similarity.without_value)}; start the "
            "server with a model of their language (judged-server models add)"
        )


def _missing(n: int) -> str:
    return f"; {n} of them {word(n, 'has', 'have')} no value" if n else ""


def _near(found: AnswerSimilarity) -> int:
    """Return how many answers are nearer a negative reference than any reference."""
    return len({one.item for one in found.negatives})


def _hold_near(most: int, found: AnswerSimilarity | None, name: str) -> Outcome:
    """Hold the number of answers near a negative reference against its gate. Raises Problem."""
    gate = Gate("--max-negatives", "", most)
    if found is None:
        raise Problem(f"{gate}: needs -m {METRIC}, by which answers are compared with negatives")
    if not found.with_negatives:
        raise Problem(f"{gate}: {name} has no 'negative_references'; add some, or drop it")
    near = _near(found)
    said = f"{plural(near, 'answer is', 'answers are')} nearer a negative reference"
    return hold_count(gate, near, said)


def _negatives_document(found: AnswerSimilarity | None, read: AnswerFile) -> dict[str, object]:
    if found is None or not found.with_negatives:
        return {}
    matches = [
        {
            "item_id": read.items[one.item].item_id,
            "negative": one.negative,
            "similarity": one.similarity,
            "to_references": one.to_references,
        }
        for one in found.negatives
    ]
    return {"negatives": {"answers": found.with_negatives, "near": matches}}
