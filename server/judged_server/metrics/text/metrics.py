"""Text metrics: the list of them, the parser of their names, and their values of items."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np
from judged.values.metrics import TextItem

from judged_server.domain import (
    UNREAD_SHARE,
    FloatArray,
    check_limit,
    plain_form,
    unread_share,
    unspaced_share,
)
from judged_server.metrics.measures import parse_names, unknown_name
from judged_server.metrics.text.formulas import (
    ANSWER,
    STEMS,
    THIRTEEN_A,
    Form,
    Score,
    Tokens,
    TokenStore,
    bleu,
    exact_match,
    rouge_l,
    rouge_n,
    token_f1,
)
from judged_server.scheduling.fairness import checkpoint
from judged_server.statistics.intervals import mean

TextMetricFunction = Callable[[Tokens, Sequence[Tokens]], Score]


@dataclass(frozen=True, slots=True)
class TextMetric:
    """One text metric.

    `function` takes the tokens of a hypothesis and of at least one reference and returns a score
    in [0, 1], with precision and recall if it has them. `settings` describe it in the signature;
    `counts_references` adds the number of references, for metrics that use all of them together.
    `compares_all` marks the metric whose work is the product of both lengths. `version` is raised
    if a change of the function changes numbers. `unread` returns the share of a text's letters that
    tokens leave out, or do not separate into words.
    """

    name: str
    description: str
    reference: str
    form: Form
    function: TextMetricFunction
    settings: str
    counts_references: bool = False
    compares_all: bool = False
    unread: Callable[[str], float] = lambda _: 0.0
    version: int = 2

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def signature(self, references: str) -> str:
        """Return one stable line that says how the number is computed.

        `references` is the number of references of every item, "var" if it varies.
        """
        counted = f"nrefs:{references}|" if self.counts_references else ""
        return f"{self.name}|{counted}{self.settings}|v{self.version}"


_LIN = "Lin, ROUGE: a package for automatic evaluation of summaries, 2004; rouge_score 0.1.2"
_SQUAD = "Rajpurkar et al., SQuAD, 2016 and 2018"
_STEMS = "case:lower|stem:porter_nltk|refs:best"
_ANSWERS = "case:lower|punctuation:no|articles:no|refs:best"

_ALL = (
    TextMetric(
        "bleu",
        "Shared 1- to 4-grams, with a penalty for brevity; all references count together.",
        "Papineni et al., BLEU, 2002; sacrebleu 2.6.0, sentence BLEU / 100",
        THIRTEEN_A,
        bleu,
        "case:mixed|eff:yes|tok:13a|smooth:exp",
        counts_references=True,
        unread=unspaced_share,
    ),
    TextMetric(
        "rouge1",
        "Harmonic mean over shared stems.",
        _LIN,
        STEMS,
        partial(rouge_n, order=1),
        _STEMS,
        unread=unread_share,
    ),
    TextMetric(
        "rouge2",
        "Harmonic mean over shared pairs of stems.",
        _LIN,
        STEMS,
        partial(rouge_n, order=2),
        _STEMS,
        unread=unread_share,
    ),
    TextMetric(
        "rougeL",
        "Harmonic mean over the longest common subsequence of stems.",
        _LIN,
        STEMS,
        rouge_l,
        _STEMS,
        compares_all=True,
        unread=unread_share,
    ),
    TextMetric(
        "token_f1",
        "Harmonic mean over shared words, without punctuation and articles.",
        _SQUAD,
        ANSWER,
        token_f1,
        _ANSWERS,
        unread=unspaced_share,
    ),
    TextMetric(
        "exact_match",
        "1 if the words are the same, without punctuation and articles.",
        _SQUAD,
        ANSWER,
        exact_match,
        _ANSWERS,
    ),
)

TEXT_METRICS: Mapping[str, TextMetric] = MappingProxyType({metric.name: metric for metric in _ALL})
"""Every text metric by the name requests use."""


def parse_text_metrics(names: Sequence[str]) -> tuple[TextMetric, ...]:
    """Return the text metrics of a request, in order. Raises as `parse_names` does."""
    return parse_names(names, _parse, "text metric, for example rougeL")


def _parse(name: str) -> TextMetric:
    if name not in TEXT_METRICS:
        spelt = next((known for known in TEXT_METRICS if known.lower() == name.lower()), name)
        raise unknown_name("text metric", name, TEXT_METRICS, spelt)
    return TEXT_METRICS[name]


MAX_TOKEN_PAIRS = 1 << 38
"""Tokens of the hypothesis times tokens of the reference, summed over a request, that rougeL may
compare: the square of a text of 1 MiB in words of one letter, about a minute of one core."""


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One metric over all items; `scores` are values in [0, 1] with their precision and recall.

    They are float64[n, 3], or float64[n, 1] if there are only values. NaN means no value. `unread`
    counts the items of which the metric leaves out more than UNREAD_SHARE.
    """

    metric: TextMetric
    scores: FloatArray
    signature: str
    unread: int = 0

    @property
    def values(self) -> FloatArray:
        """float64[n]: the value of each item."""
        return self.scores[:, 0]

    @property
    def known(self) -> FloatArray:
        """The values that are not NaN."""
        return self.values[~np.isnan(self.values)]

    @property
    def mean(self) -> float:
        """The mean, NaN without values. The sum is exact, so the order of items has no effect."""
        found = mean(self.known)
        return math.nan if found is None else found


def measure_texts(
    items: Sequence[TextItem],
    metrics: Sequence[TextMetric],
) -> tuple[TextColumn, ...]:
    """Return one column per metric. Work and memory are bounded for all texts.

    Raises LimitExceeded at `items[i]` if rougeL has more than MAX_TOKEN_PAIRS to compare.
    """
    stores = {metric.form.name: TokenStore(metric.form) for metric in metrics}
    scores: list[list[Score]] = [[] for _ in metrics]
    unread = [0] * len(metrics)
    pairs = 0
    for i, item in enumerate(items):
        references = list(dict.fromkeys(item.references))  # repetitions change nothing
        tokens: dict[str, tuple[Tokens, list[Tokens]]] = {}
        for name, store in stores.items():
            tokens[name] = (store.of(item.hypothesis), [store.of(text) for text in references])
        beyond_ascii = not all(map(str.isascii, (item.hypothesis, *references)))
        for place, (metric, column) in enumerate(zip(metrics, scores, strict=True)):
            hypothesis, found = tokens[metric.form.name]
            if metric.compares_all:
                pairs += len(hypothesis) * sum(map(len, found))
                what = f"pairs of tokens to compare for {metric.name} up to this item"
                check_limit(pairs, MAX_TOKEN_PAIRS, what, f"items[{i}]")
            score = None
            if beyond_ascii:
                ours, *theirs = (metric.unread(text) for text in (item.hypothesis, *references))
                unread[place] += max(ours, min(theirs)) > UNREAD_SHARE
                blank = [lost > 0 and not some for lost, some in zip(theirs, found, strict=True)]
                if (ours and not hypothesis) or all(blank):
                    score = _unreadable(item.hypothesis, references)
            made = metric.function(hypothesis, found)
            column.append(made if score is None else (score,) * len(made))
            checkpoint()
    counted = {len(item.references) for item in items}
    n_references = str(counted.pop()) if len(counted) == 1 else "var"
    return tuple(
        TextColumn(metric, np.array(column), metric.signature(n_references), n_unread)
        for metric, column, n_unread in zip(metrics, scores, unread, strict=True)
    )


def _unreadable(hypothesis: str, references: Sequence[str]) -> float:
    """Return the score if one side has no tokens: NaN, except in two clear cases.

    Equal texts score 1, and an empty text scores 0 against texts that are not empty.
    """
    ours, *theirs = (plain_form(text).lower().split() for text in (hypothesis, *references))
    return 1.0 if ours in theirs else math.nan if ours and any(theirs) else 0.0


def join_columns(parts: Sequence[TextColumn]) -> TextColumn:
    """Return one metric over the items of all parts, in order."""
    metric, signatures = parts[0].metric, {part.signature for part in parts}
    signature = signatures.pop() if len(signatures) == 1 else metric.signature("var")
    scores = np.concatenate([part.scores for part in parts])
    return TextColumn(metric, scores, signature, sum(part.unread for part in parts))


def merge_text_values(
    metrics: Sequence[TextMetric], columns: Sequence[FloatArray]
) -> tuple[TextColumn, ...]:
    """Return columns of the values from earlier calls, for the means over all of them.

    NaN means no value.
    """
    return tuple(
        TextColumn(metric, values[:, None], f"{metric.name}|source:values|v{metric.version}")
        for metric, values in zip(metrics, columns, strict=True)
    )
