"""Canaries and histories go to files and come back as they were; other files are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged import Calibrator, Judge, PanelMember
from judged.canary import Canary, CanaryItem, Check, History, Outcome
from judged.evaluation import FileError

WHEN = datetime(2026, 1, 31, 6, 0, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
ITEMS = st.builds(
    lambda item, flips, more: replace(item, flips=flips, asks=flips + more),
    st.builds(CanaryItem, TEXT.filter(bool), TEXT, st.lists(TEXT), TEXT, st.sampled_from(Outcome)),
    st.integers(0, 30),
    st.integers(0, 30),
)
JUDGES = st.sampled_from(
    [
        Judge(),
        Judge("llm", "retrieval_match", 0.5, {"model": "small", "samples": 3, "temperature": 0.5}),
        Judge("semantic", calibration=Calibrator("ab", 1.5, -0.25, 0.6, "by hand", 0.9, 0.1)),
        Judge("exact", calibration="mine"),
        Judge("panel", "weighted", members=["exact", PanelMember(Judge("semantic"), 2.0)]),
    ]
)


ONE = CanaryItem("a", "q", ["e"], "r", Outcome.RELEVANT, 1, 25)
LLM = Judge("llm")


def canary(items=(ONE,), judge=LLM):
    return Canary(list(items), judge, "llm|v1", "f1", WHEN, ["gpt-x-0613"])


def check(evidence=(0.5, 3.5)):
    rounds = [(1, 1)] * len(evidence)
    return Check(WHEN, rounds, {"a": 2}, {"a": 2}, list(evidence), "llm|v1", "f1", ["m"])


ITEM = {
    "item_id": "a",
    "query": "q",
    "expected": ["e"],
    "retrieved": "r",
    "verdict": "relevant",
    "flips": 1,
    "asks": 25,
}


@given(
    st.lists(ITEMS, min_size=1, max_size=4, unique_by=lambda item: item.item_id),
    JUDGES,
)
def test_what_was_recorded_comes_back(tmp_path_factory, items, judge):
    path = tmp_path_factory.mktemp("canary") / "c.json"
    written = canary(items, judge)
    written.write(path)
    read = Canary.read(path)
    assert read.sha256 == written.sha256
    assert list(read.items) == items
    assert (read.flips, read.asks) == (written.flips, written.asks)
    assert len(read.judge.members) == len(judge.members)
    assert read.judge.calibration == judge.calibration
    assert read.judge.parameters == judge.parameters


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "trace"}, "has no 'format' 'judged canary'; `judged canary record` writes one"),
        ({"version": 2}, "has 'version' 2, and this judged reads 1"),
        ({"judge": None}, "has no 'judge'"),
        ({"items": []}, "has no items, or two with one item_id"),
        ({"items": [ITEM, ITEM]}, "has no items, or two with one item_id"),
    ],
)
def test_another_file_is_refused(tmp_path, change, message):
    path = tmp_path / "c.json"
    canary().write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FileError, match=message):
        Canary.read(path)


def test_a_history_grows_and_comes_back(tmp_path):
    path = tmp_path / "h.jsonl"
    history = History.read(path, canary())
    assert (history.checks, history.highest) == ([], 0.0)
    evidence, values = canary().evidence(), []
    for _ in range(3):
        evidence.add(1, 1)
        values.append(evidence.log_value)
    history.add(check(values[:2]))
    history.add(check(values[2:]))
    again = History.read(path, canary())
    assert again.checks == history.checks
    assert again.highest == max(values)
    assert again.evidence().share == (1 + 3) / (25 + 3)


def test_the_evidence_is_that_of_the_rounds_and_not_what_another_version_made_of_them(tmp_path):
    path = tmp_path / "h.jsonl"
    History.read(path, canary()).add(check((99.0,)))
    again = History.read(path, canary())
    assert again.highest == again.evidence().log_value < 99


def test_checks_of_another_recording_do_not_count(tmp_path):
    path = tmp_path / "h.jsonl"
    History.read(path, canary()).add(check())
    other = canary([CanaryItem("b", "q", ["e"], "r", Outcome.ABSTAINED, 0, 9)])
    assert (History.read(path, other).checks, History.read(path, other).others) == ([], 1)
