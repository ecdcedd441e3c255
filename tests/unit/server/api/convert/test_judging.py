"""Groups of a request: what any bytes, texts, files and metadata become; and their verdicts."""

from __future__ import annotations

from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from judged.v1 import groups_pb2, verdicts_pb2
from judged.values.choices import Source, Status
from judged.values.groups import VerdictDetail
from judged.values.judges import Usage
from judged_server.api.convert.judging import (
    read_groups,
    read_verdicts,
    write_verdicts,
)
from judged_server.domain import ScoreColumns, VerdictFault, Verdicts

from tests.fakes.limits import limits

LIMITS = limits(max_contexts=1000, max_text_bytes=100, max_groups=50, max_embedding_dimensions=16)


def read(**fields):
    return read_groups([groups_pb2.QueryGroup(**fields)], LIMITS)[0]


def span(file="f", start=0, end=1):
    return groups_pb2.Span(file=file, start=start, end=end)


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abcd")))
def test_equal_files_have_equal_numbers_on_both_sides(expected, retrieved):
    expected, retrieved = expected[:30], retrieved[:30]
    message = groups_pb2.GroupSpans(expected=map(span, expected), retrieved=map(span, retrieved))
    spans = read(spans=message).spans
    numbers = [*spans.expected[:, 0].tolist(), *spans.retrieved[:, 0].tolist()]
    named = dict(zip(numbers, expected + retrieved, strict=True))
    assert [named[number] for number in numbers] == expected + retrieved
    assert len(named) == len(set(expected + retrieved))


def test_positions_take_all_of_64_bits():
    top = 2**64 - 1
    spans = read(spans=groups_pb2.GroupSpans(expected=[span(start=top - 1, end=top)])).spans
    assert spans.expected.tolist() == [[0, top - 1, top]]


@st.composite
def verdicts(draw: st.DrawFn) -> Verdicts:
    sizes = draw(st.lists(st.sampled_from((0, 1, 3, 127, 128, 300)), min_size=1, max_size=5))
    total = sum(sizes)
    random = np.random.Generator(np.random.PCG64(draw(st.integers(0, 1000))))

    def maybe(values: np.ndarray) -> np.ndarray | None:
        return draw(st.sampled_from((None, values)))

    statuses = maybe(random.integers(1, draw(st.integers(2, 5)), total).astype(np.uint8))
    faults: tuple[VerdictFault, ...] = ()
    details: dict[int, VerdictDetail] = {}
    if statuses is not None:
        missing = np.flatnonzero(statuses != Status.OK).tolist()
        faults = tuple(VerdictFault(i, "INTERNAL", "m", retryable=bool(i % 2)) for i in missing)
    if total and draw(st.booleans()):
        details = {total - 1: VerdictDetail("why", (), Usage(calls=1), "model", "build")}
    columns = ScoreColumns(
        random.random(total),
        statuses,
        maybe(random.integers(0, draw(st.integers(1, 8)), total).astype(np.uint8)),
        faults,
        None,
        maybe(random.random(total)),
        details,
        draw(st.sampled_from((None, Usage(2, 3, 4, 5, 0.25, 1.5), Usage(cost=None)))),
        maybe(random.integers(1, draw(st.integers(2, 5)), total).astype(np.uint8)),
        maybe(random.random(total)),
        maybe(random.integers(0, 3, total).astype(np.uint8)),
    )
    return Verdicts.decide(columns, list(accumulate(sizes, initial=0)), draw(st.floats(0, 1)))


@given(verdicts())
def test_a_reply_has_every_column_that_says_something(sent: Verdicts):
    message, columns = write_verdicts(sent), sent.columns
    for name, column, absent in (
        ("status", columns.statuses, Status.OK),
        ("source", columns.sources, Source.COMPUTED),
        ("flags", columns.flags, 0),
        ("agreement", columns.agreements, None),
        ("probability", columns.probabilities, None),
        ("stage", columns.stages, None),
    ):
        says_nothing = column is None or (absent is not None and (column == absent).all())
        assert list(getattr(message, name)) == ([] if says_nothing else column.tolist()), name
    assert [fault.index for fault in message.errors] == [fault.index for fault in columns.faults]
    assert [(d.index, d.rationale) for d in message.details] == [
        (index, d.rationale) for index, d in columns.details.items()
    ]


@given(verdicts())
def test_columns_come_back_as_they_were_sent(sent: Verdicts):
    message = verdicts_pb2.VerdictColumns.FromString(write_verdicts(sent).SerializeToString())
    sizes = [b - a for a, b in pairwise(sent.offsets)]
    found = read_verdicts(message, sizes, "verdicts")
    assert found.relevant.tolist() == sent.relevant.tolist()
    assert found.columns.scores.tolist() == sent.columns.scores.tolist()
    assert list(found.offsets) == list(sent.offsets)
    assert found.columns.ok.tolist() == sent.columns.ok.tolist()
