"""The one list of text metrics, and the names by which requests ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from judged_server.domain.text_form import unread_share, unspaced_share
from judged_server.errors import InvalidField, LimitExceeded, did_you_mean
from judged_server.metrics.text.bleu import bleu
from judged_server.metrics.text.declaration import TextMetric
from judged_server.metrics.text.rouge import rouge_1, rouge_2, rouge_l
from judged_server.metrics.text.squad import exact_match, token_f1
from judged_server.metrics.text.tokens import ANSWER, STEMS, THIRTEEN_A

MAX_TEXT_METRICS = 100
"""The most names one request may hold."""

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
        has_parts=False,
        counts_references=True,
        unread=unspaced_share,
    ),
    TextMetric(
        "rouge1",
        "Harmonic mean over shared stems.",
        _LIN,
        STEMS,
        rouge_1,
        _STEMS,
        unread=unread_share,
    ),
    TextMetric(
        "rouge2",
        "Harmonic mean over shared pairs of stems.",
        _LIN,
        STEMS,
        rouge_2,
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
        has_parts=False,
    ),
)

TEXT_METRICS: Mapping[str, TextMetric] = MappingProxyType({metric.name: metric for metric in _ALL})
"""Every text metric by the name requests use."""


def parse_text_metrics(names: Sequence[str], field: str = "metrics") -> tuple[TextMetric, ...]:
    """Return the text metrics of a request, in order.

    Raises InvalidField at `field` when there is none, at `field[i]` when name i is unknown or there
    again; LimitExceeded at `field` when there are more than MAX_TEXT_METRICS.
    """
    if not names:
        raise InvalidField(field, "must name at least one text metric, for example rougeL")
    if len(names) > MAX_TEXT_METRICS:
        raise LimitExceeded(field, "metrics", MAX_TEXT_METRICS, len(names))
    metrics: dict[str, TextMetric] = {}
    for i, name in enumerate(names):
        if name in metrics:
            first = list(metrics).index(name)
            raise InvalidField(f"{field}[{i}]", f"is {name} again, as in {field}[{first}]")
        metric = TEXT_METRICS.get(name)
        if metric is None:
            spelt = next((known for known in TEXT_METRICS if known.lower() == name.lower()), name)
            hint = did_you_mean(spelt, TEXT_METRICS)
            said = f"no text metric is called {name[:40]!r}{hint and '; '}{hint}"
            has = ", ".join(TEXT_METRICS)
            raise InvalidField(f"{field}[{i}]", f"{said} (this server has {has})")
        metrics[name] = metric
    return tuple(metrics.values())
