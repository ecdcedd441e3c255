"""How the metrics refuse: the field, the rule that is broken and the next step, word for word.

The tests of each module show what is refused. Here is what people then read; a message that lost
a word, a number or the other place it speaks of is a fault that they would have to bear.
"""

import numpy as np
import pytest
from judged_server.domain.names import check_unique
from judged_server.errors import InvalidField
from judged_server.metrics.compute import (
    check_modes,
    compute_gains,
    compute_judged,
    merge_values,
)
from judged_server.metrics.matching import JudgedResults
from judged_server.metrics.measures.names import parse_metrics
from judged_server.metrics.table import (
    MatchingMode,
    MetricOptions,
    NoGoldPolicy,
    check_keys,
    with_intervals_and_slices,
)
from judged_server.metrics.text.metrics import merge_text_values, parse_text_metrics

RECALL = parse_metrics(["recall"])
BLEU = parse_text_metrics(["bleu"])
AP_WITHOUT_PAIRING = (
    "metrics[0]: ap is not defined for matching MATCHING_MODE_ANY; "
    "use MATCHING_MODE_GREEDY_FIRST, MATCHING_MODE_MAXIMUM"
)


def named(*names):
    return lambda: parse_metrics(list(names))


def moded(name, mode, **options):
    return lambda: check_modes(parse_metrics([name]), mode, **options)


def merged(*columns, n=1):
    return lambda: merge_values(RECALL, list(columns), n)


def merged_texts(*columns, metrics=BLEU):
    return lambda: merge_text_values(metrics, list(columns), "f")


def sliced():
    table = compute_gains(RECALL, [[1]] * 1001, [[1]] * 1001, MetricOptions())
    with_intervals_and_slices(
        table, MetricOptions(slice_by=("k",)), [{"k": str(i)} for i in range(1001)], "asked"
    )


def without_gold():
    compute_gains(RECALL, [[1], []], [[1], []], MetricOptions(no_gold=NoGoldPolicy.ERROR))


def group_without_gold():
    results = JudgedResults(np.array([True]), np.array([1, 1]), np.array([1, 0]))
    compute_judged(RECALL, results, MetricOptions(no_gold=NoGoldPolicy.ERROR))


METRICS = {
    "parameter of another": (
        named("rbp(k=1)"),
        "metrics[0]: rbp has no parameter 'k'; it has p",
    ),
    "parameter of none": (
        named("recall(p=1)"),
        "metrics[0]: recall has no parameter 'p'; it has none",
    ),
    "no value": (
        named("rbp(p)"),
        "metrics[0]: parameters are written name=value, not 'p'",
    ),
    "parameter again": (
        named("recall", "rbp(p=0.1,p=0.2)"),
        "metrics[1]: parameter p is given twice",
    ),
    "choice": (
        named("ndcg(gain=cubic)"),
        "metrics[0]: gain must be one of linear, exponential",
    ),
    "number": (
        named("rbp(p=much)"),
        "metrics[0]: p must be a number from 0 to 0.9999",
    ),
    "range": (
        named("hybrid_log_rank(alpha=2)"),
        "metrics[0]: alpha must be a number from 0 to 1",
    ),
    "cutoff": (
        named("recall@0"),
        "metrics[0]: k must be a whole number from 1 to 1000000000, not '0'",
    ),
    "no name": (
        named("re call"),
        (
            "metrics[0]: 're call' is not a metric's name; write metric@k, or "
            "metric(parameter=value)@k"
        ),
    ),
    "nothing": (
        named(),
        "metrics: must name at least one metric, for example ndcg@10",
    ),
    "measure again": (
        named("ap", "rbp(p=0.8)", "rbp"),
        "metrics[2]: is rbp again, as in metrics[1]",
    ),
    "mode": (
        moded("ap", MatchingMode.ANY),
        AP_WITHOUT_PAIRING,
    ),
    "verdicts": (
        moded("bpref", MatchingMode.MAXIMUM),
        "metrics[0]: bpref is not defined for verdicts; it needs qrels or gains",
    ),
    "family": (
        moded("recall_exact", MatchingMode.ANY),
        (
            "metrics[0]: recall_exact is judged on the way, not taken from verdicts; use Evaluate, "
            "or ask for recall with matching MATCHING_MODE_ANY over verdicts of the judge exact"
        ),
    ),
    "query again": (
        lambda: check_unique(["a", "b", "c", "b"], "groups[{}].query_id"),
        "groups[3].query_id: is that of groups[1].query_id again",
    ),
    "columns": (
        merged([0.5], [0.5]),
        "values.columns: has 2 entries for 1 metrics",
    ),
    "column": (
        merged([0.5, 0.5]),
        "values.columns[0].values: has 2 entries for 1 query_ids",
    ),
    "value": (
        merged([0.5, -2e100], n=2),
        "values.columns[0].values[1]: must be finite, within +-1e100",
    ),
    "no gold": (
        without_gold,
        "gains.rankings[1].relevant_gains: must not be empty when no_gold is NO_GOLD_POLICY_ERROR",
    ),
    "no gold of a group": (
        group_without_gold,
        "groups[1].expected: must not be empty when no_gold is NO_GOLD_POLICY_ERROR",
    ),
    "mode of judged results": (
        lambda: compute_judged(
            parse_metrics(["ap"]),
            JudgedResults(np.array([True]), np.array([1]), np.array([1])),
            MetricOptions(MatchingMode.ANY),
        ),
        AP_WITHOUT_PAIRING,
    ),
    "many metrics": (
        named(*["recall"] * 101),
        "metrics: 101 metrics, the limit is 100",
    ),
    "many keys": (
        lambda: check_keys([str(i) for i in range(17)]),
        "options.slice_by[16]: is one key above 16; use several calls",
    ),
    "empty key": (
        lambda: check_keys(["a", ""]),
        "options.slice_by[1]: must name a key of the metadata",
    ),
    "key again": (
        lambda: check_keys(["a", "b", "c", "b"]),
        "options.slice_by[3]: is options.slice_by[1] again",
    ),
    "slices": (
        sliced,
        "asked.slice_by[0]: makes more than 1000 slices; slice by keys with fewer values",
    ),
}

TEXTS = {
    "nothing": (
        lambda: parse_text_metrics([]),
        "metrics: must name at least one text metric, for example rougeL",
    ),
    "again": (
        lambda: parse_text_metrics(["rougeL", "bleu", "rougeL"]),
        "metrics[2]: is rougeL again, as in metrics[0]",
    ),
    "many metrics": (
        lambda: parse_text_metrics(["bleu"] * 101),
        "metrics: 101 metrics, the limit is 100",
    ),
    "columns": (
        merged_texts([0.5], [0.5]),
        "f: has 2 columns for 1 metrics",
    ),
    "no value": (
        merged_texts([]),
        "f[0].values: must hold at least one value",
    ),
    "lengths": (
        merged_texts([0.5, 1.0], [0.5], metrics=parse_text_metrics(["bleu", "rougeL"])),
        "f[1].values: has 1 entries, the first column 2",
    ),
    "range": (
        merged_texts([0.5, 1.5]),
        "f[0].values[1]: must lie in [0, 1]",
    ),
}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        pytest.param(*case, id=f"{part}: {name}")
        for part, cases in (("metrics", METRICS), ("texts", TEXTS))
        for name, case in cases.items()
    ],
)
def test_a_refusal_names_the_field_the_rule_and_the_next_step(call, message):
    with pytest.raises(InvalidField) as caught:
        call()
    assert caught.value.message == message


LONG = "k" * 45


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        (f"rbp({LONG}=1)", "rbp has no parameter {}; it has p"),
        (f"rbp({LONG})", "parameters are written name=value, not {}"),
        (f"re {LONG}", "{} is not a metric's name; write metric@k, or metric(parameter=value)@k"),
        (f"recall@{'1' * 45}", "k must be a whole number from 1 to 1000000000, not {}"),
    ],
)
def test_a_refusal_repeats_forty_letters_of_what_was_sent(name, rule):
    sent = name.removeprefix("rbp(").removeprefix("recall@")
    with pytest.raises(InvalidField) as caught:
        parse_metrics([name])
    assert caught.value.rule == rule.format(repr(sent[:40]))


@pytest.mark.parametrize("parse", [parse_metrics, parse_text_metrics])
def test_an_unknown_name_is_repeated_up_to_forty_letters(parse):
    with pytest.raises(InvalidField, match=f" is called '{LONG[:40]}' "):
        parse([LONG])


@pytest.mark.parametrize(
    ("parse", "name", "hint", "known"),
    [
        (parse_metrics, "Recal", "; did you mean recall?", "recall"),
        (parse_metrics, "zzzz", "", "ndcg"),
        (parse_text_metrics, "ROUGEL", "; did you mean rougeL?", "bleu"),
        (parse_text_metrics, "zzzz", "", "rougeL"),
    ],
)
def test_an_unknown_name_is_told_with_those_known(parse, name, hint, known):
    with pytest.raises(InvalidField) as caught:
        parse([name])
    what = "metric" if parse is parse_metrics else "text metric"
    says, _, listed = caught.value.message.partition(" (this server has ")
    assert says == f"metrics[0]: no {what} is called {name!r}{hint}"
    assert known in listed.removesuffix(")").split(", ")
    assert listed.endswith(")")
