from __future__ import annotations

import math

import pytest
from judged_server.llm.faults import ProviderFault, Reason
from judged_server.llm.providers.reading import (
    error_object,
    first,
    log_probability,
    optional,
    parse,
    permanent,
    reply_object,
    required,
    rewrite,
    tokens,
)


def test_what_must_be_there_and_what_may():
    table = {"text": "a", "none": None, "flag": True}
    assert required(table, "text", str) == "a"
    assert (optional(table, "none", str), optional(table, "gone", int, 3)) == (None, 3)
    for bad in ("none", "gone", "flag"):
        with pytest.raises(ProviderFault, match=f"lacks {bad}, or has it in a wrong form"):
            required(table, bad, int)
    with pytest.raises(ProviderFault):
        optional("no table", "text", str)


def test_counts_are_added_and_never_negative():
    assert tokens({"a": 1, "b": None}, "a", "b", "c") == 1
    for bad in (-1, True, 1.0, "1"):
        with pytest.raises(ProviderFault):
            tokens({"a": bad}, "a")


@pytest.mark.parametrize("value", [None, True, "0", math.nan, math.inf, -math.inf])
def test_log_probabilities_are_finite_numbers(value):
    assert log_probability({"p": -1}, "p") == -1.0
    with pytest.raises(ProviderFault, match="no number"):
        log_probability({"p": value}, "p")


def test_bodies():
    assert parse(b"{") is None
    assert reply_object(b'{"a":1,"error":null}')["a"] == 1
    for bad in (b"[]", b"{", b'{"error":{}}', b""):
        with pytest.raises(ProviderFault) as caught:
            reply_object(bad)
        assert (caught.value.reason, caught.value.retryable) == (Reason.PROVIDER_ERROR, True)
    assert error_object(b'{"error":{"a":1}}') == {"a": 1}
    assert error_object(b'{"error":"a"}') == error_object(b"[") == {}


def test_what_a_model_filled_in_is_json_again():
    assert rewrite({"a": "é", "b": [1]}, b'{"a": "e", "b": [1]}') == '{"a":"é","b":[1]}'
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(ProviderFault, match="too deeply"):
        rewrite(deep, b"[]")


@pytest.mark.parametrize("body", [b'{"a": 1, "a": 2}', b'[{"b": {"a": 1, "a": 1}}]', b"[" * 10**6])
def test_what_a_model_filled_in_twice_is_not(body):
    with pytest.raises(ProviderFault, match="a key twice"):
        rewrite({"a": 2}, body)


def test_the_first_item_is_an_object():
    assert first([{"a": 1}, 2]) == {"a": 1}
    bads: tuple[list[object], ...] = ([], [None], [[]])
    for bad in bads:
        with pytest.raises(ProviderFault, match="holds no answer"):
            first(bad)


def test_what_is_hopeless_is_not_tried_again():
    fault = permanent(Reason.RATE_LIMITED, 429, "why")
    assert (fault.retryable, fault.status, fault.message) == (
        False,
        429,
        "it answered 429: why",
    )
