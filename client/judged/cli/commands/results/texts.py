"""`judged texts`: BLEU, ROUGE, token F1 and exact match of answers against their references.

The document has the shape of that of `judged metrics`: `--baseline` and `judged report` read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from judged import MetricTable, TextItem, TextMetricTable
from judged._views import of_all, plural, word
from judged.cli.connection import connect
from judged.cli.inputs.answers import AnswerFile, read_answers
from judged.cli.options import common, intervals
from judged.cli.options.gates import AllowOtherSignature, Baseline, MaxDrops, MinScores
from judged.cli.options.server import ResultFlags
from judged.cli.output.gates import Gate, Gates, Outcome, finish, gates_document, hold_count
from judged.cli.output.tables import document, means_table, per_query_table
from judged.cli.output.writer import check_apart
from judged.cli.problems import Problem, explained
from judged.evaluation._steps.warnings import interval_warnings
from judged.evaluation.answers.similarity import METRIC, AnswerSimilarity, answer_similarity
from judged.values import MetricCounts, MetricResult


def command(
    answers: Annotated[
        str,
        typer.Argument(
            metavar="ANSWERS.jsonl|-",
            help="A line an answer: {item_id, query, answer, references}; - is standard input.",
        ),
    ],
    metric: Annotated[
        list[str],
        typer.Option(
            *("--metric", "-m"),
            metavar="NAME",
            help="bleu, rouge1, rouge2, rougeL, token_f1, exact_match, or semantic_similarity, by "
            "embeddings; may be repeated.",
        ),
    ],
    per_query: common.PerQuery = False,
    *,
    interval: intervals.IntervalFlags,
    max_negatives: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Gate: exit with 1 when more than N answers are nearer a negative reference than "
            "any reference, by semantic_similarity.",
        ),
    ] = None,
    min_score: MinScores = None,
    max_drop: MaxDrops = None,
    baseline: Baseline = None,
    allow_other_signature: AllowOtherSignature = False,
    shared: ResultFlags,
) -> None:
    """Measure answers against references by words or embeddings."""
    out = shared.output()
    check_apart({"ANSWERS.jsonl": answers}, json=shared.json_to)
    gates = Gates(
        metric,
        min_score or [],
        max_drop or [],
        baseline,
        allow_other_signature=allow_other_signature,
    )
    with out.told_misspellings():
        read = read_answers(answers, with_negatives=METRIC in metric)
    for item, number in zip(read.items, read.line_numbers, strict=True):
        if not item.references:
            raise Problem(
                f"{read.name}:{number}: item {item.item_id!r} has no 'references'; a text metric "
                "needs at least one"
            )
    made = interval.options()
    with (
        connect(shared) as server,
        explained(metric, read.place()),
    ):
        by_words = [name for name in metric if name != METRIC]
        texts = [TextItem(item.answer, item.references) for item in read.items]
        found: dict[str, MetricResult] = {}
        similarity = None
        measured = TextMetricTable([])
        if by_words:
            measured = server.client.compute_text_metrics(
                by_words, texts, per_item=True, interval=made
            )
            found = _results(measured)
        if METRIC in metric:
            similarity = answer_similarity(
                texts, read.negatives, client=server.client, interval=made
            )
            found[METRIC] = similarity.metric
    n = len(read.items)
    table = MetricTable(
        [found[name] for name in metric],
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
    outcomes = [*gates.check(table, None, out), *_near(max_negatives, similarity, read)]
    if per_query:
        out.show(per_query_table(table), "")
    made_from = [plural(n, "answer", "answers")]
    if similarity is not None:
        made_from.append(f"judge {similarity.judge.signature}")
        if similarity.with_negatives:
            near = len({one.item for one in similarity.negatives})
            some = of_all(near, similarity.with_negatives, "answer", "answers")
            made_from.append(f"{some} nearer a negative reference than any reference")
    out.show(means_table(table), "", "\n".join(made_from))
    out.write_json(
        {
            **document(table, None, out.warnings),
            **gates_document(outcomes),
            **_negatives_document(similarity, read),
        }
    )
    finish(out, outcomes)


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
    alike: dict[tuple[int, int, bool], list[str]] = {}
    for metric in measured:
        if metric.unread:
            key = metric.unread, metric.without_value, metric.name.startswith("rouge")
            alike.setdefault(key, []).append(metric.name)
    for (unread, without, dropped), names in alike.items():
        some = f"{of_all(unread, n, 'answer', 'answers')} (or the references)"
        which = f"{', '.join(names)} {word(len(names), 'does', 'do')} not"
        what = f"that {which} read" if dropped else f"without spaces, which {which} part into words"
        yield f"{some} {word(unread, 'is', 'are')} in a script {what}{_missing(without)}"
    if similarity is not None and similarity.unread:
        some = of_all(similarity.unread, n, "answer", "answers")
        yield (
            f"{some} (or the references) {word(similarity.unread, 'has', 'have')} many words that "
            f"the model of {METRIC} does not know{_missing(similarity.without_value)}; start the "
            "server with a model of their language (judged-server models add)"
        )


def _missing(n: int) -> str:
    return f"; {n} of them {word(n, 'has', 'have')} no value" if n else ""


def _near(most: int | None, found: AnswerSimilarity | None, read: AnswerFile) -> list[Outcome]:
    """Hold the number of answers near a negative reference against its gate. Raises Problem."""
    if most is None:
        return []
    gate = Gate("--max-negatives", "", most)
    if found is None:
        raise Problem(f"{gate}: needs -m {METRIC}, by which answers are compared with negatives")
    if not found.with_negatives:
        raise Problem(f"{gate}: {read.name} has no 'negative_references'; add some, or drop it")
    near = len({one.item for one in found.negatives})
    said = f"{plural(near, 'answer is', 'answers are')} nearer a negative reference"
    return [hold_count(gate, near, said)]


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
