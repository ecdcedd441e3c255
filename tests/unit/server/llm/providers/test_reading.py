from __future__ import annotations

import json
import math

import pytest
from judged_server.llm.chat import ProviderFault, Reason
from judged_server.llm.providers.reading import (
    UnreadableReply,
    error_object,
    first,
    optional,
    parse,
    permanent,
    reply_object,
    required,
    rewrite,
    text_of,
    token_logprobs,
    tokens,
)


def test_what_must_be_there_and_what_may():
    table = {"text": "a", "none": None, "flag": True}
    odd: list[str] = []
    assert required(table, "text", str) == "a"
    assert optional(table, "none", str, odd) == ""
    assert optional(table, "gone", int, odd) == 0
    assert odd == []
    assert optional(table, "text", int, odd) == 0
    assert optional(table, "flag", int, odd) == 0
    assert odd == ["text is a text", "flag is true or false"]
    for bad in ("none", "gone"):
        with pytest.raises(UnreadableReply, match=f"lacks {bad}"):
            required(table, bad, int)
    with pytest.raises(UnreadableReply, match="has true or false as its flag"):
        required(table, "flag", int)


def test_counts_are_added_and_can_be_counts():
    odd: list[str] = []
    assert tokens({"a": 1, "b": None, "d": 2.0}, "a", "b", "c", "d", odd=odd) == 3
    assert odd == []
    for bad in (-1, True, 1.5, "1", math.inf, math.nan, [1]):
        assert tokens({"a": bad, "b": 5}, "b", "a", odd=odd) == 0
    assert set(odd) == {"a is no count of tokens"}


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (-1, (("x", -1.0),)),
        (1e-5, (("x", 0.0),)),
        (None, ()),
        (-math.inf, ()),
        *((bad, None) for bad in (True, "0", math.nan, math.inf, 0.5, [1])),
    ],
)
def test_a_place_with_a_logarithm_that_can_not_be_tells_nothing(value, kept):
    odd: list[str] = []
    place = {"token": "y", "top": [{"token": "y", "p": -0.1}, {"token": "x", "p": value}]}
    (found,) = token_logprobs([(place, place)], "top", "p", odd)
    assert found.top == (() if kept is None else (("y", -0.1), *kept))
    assert bool(odd) is (kept is None)
    place = {"token": "x", "top": [{"token": "x", "p": None}]}
    assert token_logprobs([(place, place)], "top", "p", odd)[0].top == ()


TEXT = {"type": "text", "text": "c"}


def test_the_text_of_parts():
    odd: list[str] = []
    thought = {"type": "thinking", "thinking": []}
    assert text_of(None, odd) == ""
    assert text_of([thought, "a", {"text": "b"}, TEXT], odd) == "abc"
    assert odd == []
    assert text_of([{"type": "image_url"}, {"new": 1}, TEXT], odd) == "c"
    assert len(odd) == 2
    unreadable: tuple[object, ...] = (
        {"new": 1},
        [{"type": "image_url"}, thought],
        5,
        True,
        [5],
        [[]],
        [{"type": "text"}],
        [{"text": 5}],
    )
    for bad in unreadable:
        with pytest.raises(UnreadableReply):
            text_of(bad, odd)


def test_bodies():
    assert parse(b"{") is None
    assert parse(b'\xef\xbb\xbf{"a": [-Infinity, NaN]}') == {"a": [None, "NaN"]}
    assert parse(b'\xef\xbb\xbf"\\ud800"') is None
    assert parse(b"[" * 100_000) is None
    for nothing in (b"null", b"{}", b"[]", b"false", b'""', b'" "'):
        assert reply_object(b'{"a":1,"error":%s}' % nothing)["a"] == 1
    for bad in (b"[]", b"{", b'{"error":{"a":1}}', b'{"error":"no"}', b"", b"null"):
        with pytest.raises(UnreadableReply):
            reply_object(bad)
    assert error_object(b'{"error":{"a":1}}') == {"a": 1}
    assert error_object(b'{"error":"a"}') == error_object(b"[") == {}


@pytest.mark.parametrize(("code", "retryable"), [(429, True), (502, True), (400, False)])
def test_an_error_with_a_status_of_its_own_is_one_of_that_status(code, retryable):
    with pytest.raises(ProviderFault, match=f"it answered {code}") as caught:
        reply_object(json.dumps({"error": {"code": code}}).encode())
    assert (caught.value.status, caught.value.retryable) == (code, retryable)


def test_a_page_in_place_of_a_reply_is_an_outage_that_nobody_paid():
    with pytest.raises(ProviderFault, match="a page of HTML with the status 200") as caught:
        reply_object(b" <html>canary</html>")
    assert caught.value.retryable
    assert caught.value.turned_down
    assert "canary" not in str(caught.value)


def test_what_a_model_filled_in_is_json_again():
    assert rewrite({"a": "é", "b": [1]}, b'{"a": "e", "b": [1]}') == '{"a":"é","b":[1]}'
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    with pytest.raises(UnreadableReply, match="too deeply"):
        rewrite(deep, b"[]")


@pytest.mark.parametrize("body", [b'{"a": 1, "a": 2}', b'[{"b": {"a": 1, "a": 1}}]', b"[" * 10**6])
def test_what_a_model_filled_in_twice_is_not(body):
    with pytest.raises(UnreadableReply, match="a key twice"):
        rewrite({"a": 2}, body)


def test_the_first_item_is_an_object():
    assert first([{"a": 1}, 2]) == {"a": 1}
    bads: tuple[list[object], ...] = ([], [None], [[]])
    for bad in bads:
        with pytest.raises(UnreadableReply, match="holds no answer"):
            first(bad)


def test_what_is_hopeless_is_not_tried_again():
    fault = permanent(Reason.RATE_LIMITED, 429, "why")
    assert (fault.retryable, fault.status, fault.message) == (
        False,
        429,
        "it answered 429: why",
    )
