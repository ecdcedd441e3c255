"""JSON to messages and back: what fits comes through, what does not names its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from judged.v1 import judge_service_pb2 as pb
from judged.v1 import metrics_pb2
from judged_server import errors
from judged_server.http_api import port as json_mapping
from judged_server.http_api.port import count_values, read_message, to_json

KIND = pb.BatchJudgeRequest.DESCRIPTOR
MOST = 1 << 20


def refused(said: Any, kind: Any = KIND, most: int = MOST) -> errors.JudgedError:
    raw = said if isinstance(said, bytes) else json.dumps(said).encode()
    with pytest.raises(errors.JudgedError) as caught:
        read_message(raw, kind, most)
    return caught.value


def test_names_are_those_of_the_contract_and_their_camel_case():
    snake = read_message(b'{"include_details": true, "request_id": "x"}', KIND, MOST)
    assert snake == read_message(b'{"includeDetails": true, "requestId": "x"}', KIND, MOST)
    assert "include_details" in json.loads(to_json(snake))


@pytest.mark.parametrize(
    ("said", "field", "rule"),
    [
        ({"group": []}, "group", "is no field of judged.v1.BatchJudgeRequest; did you mean groups"),
        ({"judge": ""}, "judge", "must be a JSON object"),
        ({"groups": [{"expected": "x"}]}, "groups[0].expected", "must be a JSON array"),
        ({"groups": [{"expected": ["a", 3]}]}, "groups[0].expected[1]", "must be a string"),
        ({"judge": {"min_score": "high"}}, "judge.min_score", "must be a number"),
        ({"include_details": "yes"}, "include_details", "must be true or false"),
        ({"asking": {"cache": "CACHE_MODE_NEVER"}}, "asking.cache", "must be one of CACHE_MODE_"),
    ],
)
def test_what_does_not_fit_names_the_field(said: Any, field: str, rule: str):
    error = refused(said)
    assert isinstance(error, errors.InvalidField)
    assert error.field == field
    assert rule in error.rule


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"judge": {"min_score": True}}, "judge.min_score"),
        ({"judge": {"min_score": "1e999"}}, "judge.min_score"),
        ({"asking": {"cache": True}}, "asking.cache"),
        ({"asking": {"cache": 1 << 40}}, "asking.cache"),
        ({"groups": [{"metadata": {"d": "\ud800"}}]}, 'groups[0].metadata["d"]'),
        ({"asking": {"max_cost": False}}, "asking.max_cost"),
        ({"groups": [{"grades": {"d": 1.5}}]}, 'groups[0].grades["d"]'),
        ({"request_id": "a", "requestId": "b"}, "requestId"),
    ],
)
def test_nothing_is_converted_in_silence(said: Any, field: str):
    error = refused(said)
    assert isinstance(error, errors.InvalidField)
    assert error.field == field


def test_numbers_may_be_texts_as_the_mapping_wants_it():
    said = {"judge": {"min_score": "0.5", "parameters": {"n": {"int_value": "9007199254740993"}}}}
    message: Any = read_message(json.dumps(said).encode(), KIND, MOST)
    assert message.judge.min_score == 0.5
    assert message.judge.parameters["n"].int_value == 9007199254740993


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"[]", "not an object"),
        (b"{", "is not JSON"),
        (b'{"groups": "\xff"}', "not UTF-8"),
        (b'{"groups": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"groups": ' + b"7" * 10_000 + b"}", "too many digits"),
    ],
)
def test_what_is_no_json_object(raw: bytes, said: str):
    error = refused(raw)
    assert isinstance(error, errors.MalformedMessage)
    assert said in error.message


def test_a_name_that_stands_twice_among_a_hundred_thousand_is_found_in_one_pass():
    # Compared with each other they would take minutes, which no deadline ends.
    names = b",".join(b'"%d":0' % number for number in range(100_000))
    assert refused(b"{" + names + b',"99999":0}', most=1 << 30).message.startswith("99999: ")


def test_numbers_count_as_what_they_take_as_protobuf():
    raw = b'{"values": [' + b"0," * 99 + b"0]}"
    kind = metrics_pb2.ValueColumn.DESCRIPTOR
    assert isinstance(refused(raw, kind, most=300), errors.LimitExceeded)
    assert read_message(raw, kind, 1000) == metrics_pb2.ValueColumn(values=[0] * 100)


def test_values_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(json_mapping, "MOST_VALUES", 10)
    with pytest.raises(errors.LimitExceeded) as error:
        count_values(b'{"groups": [' + b"[],[]," * 9 + b"[]]}")
    assert error.value.metadata["limit"] == "10"
    assert count_values(b'{"groups": [{}, {}]}') == 10
