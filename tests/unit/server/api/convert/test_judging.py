from __future__ import annotations

import contextlib
from itertools import accumulate

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import groups_pb2, verdicts_pb2
from judged_server import errors
from judged_server.api.convert.judging import read_groups
from judged_server.api.convert.verdicts import read_verdicts, write_counts, write_verdicts
from judged_server.domain import ScoreColumns, VerdictCounts, VerdictFault, Verdicts

from tests.fakes.limits import limits

LIMITS = limits(max_contexts=1000, max_text_bytes=100, max_groups=50)
scores = st.floats(0, 1)


@st.composite
def verdicts(draw: st.DrawFn) -> Verdicts:
    sizes = draw(st.lists(st.integers(0, 5), min_size=1, max_size=5))
    total = sum(sizes)
    statuses = draw(st.lists(st.integers(1, 4), min_size=total, max_size=total))
    flags = draw(st.lists(st.integers(0, 15), min_size=total, max_size=total))
    values = draw(st.lists(scores, min_size=total, max_size=total))
    ok = np.array(statuses, np.uint8) == 1
    columns = ScoreColumns(
        np.where(ok, values, 0.0) if total else np.empty(0),
        np.array(statuses, np.uint8),
        np.array(flags, np.uint8),
        tuple(VerdictFault(i, "INTERNAL", "m") for i in range(total) if statuses[i] != 1),
    )
    return Verdicts.decide(columns, list(accumulate(sizes, initial=0)), draw(scores))


@given(verdicts())
def test_columns_come_back_as_they_were_sent(sent: Verdicts):
    message = verdicts_pb2.VerdictColumns.FromString(write_verdicts(sent).SerializeToString())
    sizes = [b - a for a, b in zip(sent.offsets, sent.offsets[1:], strict=False)]
    read = read_verdicts(message, sizes, "verdicts")
    assert read.relevant.tolist() == sent.relevant.tolist()
    assert read.columns.scores.tolist() == sent.columns.scores.tolist()
    assert list(read.offsets) == list(sent.offsets)
    if read.columns.statuses is not None:
        assert read.columns.statuses.tolist() == sent.columns.statuses.tolist()
    counts = write_counts(VerdictCounts.of(sent))
    total = counts.ok + counts.error + counts.abstained + counts.not_assessable
    assert total == len(sent.relevant)
    flags = sent.columns.flags
    assert flags is not None
    assert [
        counts.flagged_no_tokens,
        counts.flagged_truncated,
        counts.flagged_reserved_tokens,
        counts.flagged_fallback,
    ] == [sum(flag & bit > 0 for flag in flags.tolist()) for bit in (1, 2, 8, 16)]
    assert [error.index for error in message.errors] == [f.index for f in sent.columns.faults]


def test_nothing_but_ok_is_relevant_and_the_tie_rule_is_generous():
    columns = ScoreColumns(np.array([0.6 - 5e-10, 0.6 - 2e-9, 1.0]), np.array([1, 1, 2], np.uint8))
    assert Verdicts.decide(columns, [0, 3], 0.6).relevant.tolist() == [True, False, False]


def test_columns_that_say_the_same_of_all_are_left_out():
    message = write_verdicts(Verdicts.decide(ScoreColumns(np.array([1.0])), [0, 1], 0.5))
    assert not message.status
    assert not message.flags
    assert not message.source


@given(st.text(max_size=60))
def test_a_text_fits_by_its_utf8_bytes(text: str):
    message = groups_pb2.QueryGroup(expected=[text])
    if len(text.encode()) <= LIMITS.max_text_bytes:
        assert read_groups([message], LIMITS)[0].expected == [text]
    else:
        with pytest.raises(errors.LimitExceeded, match=r"groups\[0\]\.expected\[0\]"):
            read_groups([message], LIMITS)


@given(st.binary(max_size=300))
def test_no_bytes_make_the_reader_fail_in_another_way(raw: bytes):
    message = groups_pb2.QueryGroup()
    with contextlib.suppress(DecodeError, errors.InvalidField):
        message.ParseFromString(raw)
        group = read_groups([message], LIMITS)[0]
        assert group.n_contexts == group.n_expected * group.n_retrieved
