"""The columns of numbers that callers send: how long each is, and what its values may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from google.protobuf.message import Message
from judged.v1 import verdicts_pb2
from judged.values.choices import Flag, Source, Status

from judged_server.api.requests import SHARE, interval
from judged_server.domain import FloatArray, need, need_all
from judged_server.errors import LimitExceeded
from judged_server.statistics import agreement
from judged_server.statistics.calibration import calibrate, frontier


@dataclass(frozen=True, slots=True)
class Column:
    """What a column may be, of which a field in braces, in a text, is the length.

    `of` is what it has one entry each of: another column of its message, or what the reader counts.
    One that is `optional` may be empty instead. `some` is what it must hold one of at least, `most`
    of them at most, 0 for any number. Values lie in the interval `within`, which `rule` says in
    other words, and with `rises` each is above the one before it. They may be NaN with `nan`, and
    anything where the column `unread` has their places.
    """

    of: str = ""
    within: str = ""
    rule: str = ""
    optional: bool = False
    some: str = ""
    most: int = 0
    rises: bool = False
    nan: bool = False
    unread: str = ""


Columns = Mapping[str, Column]
NOTHING: Mapping[str, int] = {}

_PLACES_OF_SCORES = Column(
    within="[0, {scores})", rule="must be below {scores}, the number of scores", rises=True
)
_EITHER = Column("systems", "(-inf, inf)", "must be a finite number")
CONTEXTS, LABELLED = "contexts", "contexts of the labelled rankings"
ITEMS, FIRST = "ratings of raters[0]", "values of the first column"
"""What readers count for the columns below."""

VERDICTS: Columns = {
    "relevant": Column(CONTEXTS, SHARE),
    "score": Column(CONTEXTS, SHARE, optional=True),
    "status": Column(
        CONTEXTS,
        f"[1, {max(Status)}]",
        f"must be one of {', '.join(verdicts_pb2.VerdictStatus.keys()[1:])}",
        optional=True,
    ),
    "source": Column(
        CONTEXTS,
        f"[1, {max(Source)}]",
        f"must be one of {', '.join(verdicts_pb2.VerdictSource.keys()[1:])}",
        optional=True,
    ),
    "flags": Column(CONTEXTS, f"[0, {sum(Flag)}]", optional=True),
    "agreement": Column(CONTEXTS, SHARE, optional=True),
}
INCLUSION = "inclusion_probabilities"
_LABELLED_QUERIES = {"query_ids": Column(), INCLUSION: Column("query_ids", "(0, 1]", optional=True)}
HUMAN_LABELS: Columns = {"relevant": Column(LABELLED), **_LABELLED_QUERIES}
PER_QUERY_VALUES: Columns = {"columns": Column("metrics"), **_LABELLED_QUERIES}
VALUES: Columns = {
    "values": Column("query_ids", "[-1e100, 1e100]", "must be finite, within +-1e100")
}
TEXT_COLUMNS: Columns = {"values": Column("metrics")}
TEXT_VALUES: Columns = {"values": Column(FIRST, SHARE, some="value", nan=True)}
RATINGS: Columns = {
    "ratings": Column(
        ITEMS,
        "[-1, {categories})",
        "must be -1 for no rating, or the place of one of {categories} categories, counted from 0",
        some="item",
        most=agreement.MAX_ITEMS,
    )
}
SYSTEM_SCORES: Columns = {"systems": Column(), "first": _EITHER, "second": _EITHER}
COMPARISONS: Columns = {
    "query_ids": Column(some="comparison"),
    "first": Column("query_ids", "[0, {systems})"),
    "second": Column("query_ids", "[0, {systems})"),
    "preference": Column("query_ids", SHARE),
}
SCORED_ITEMS: Columns = {
    "scores": Column(within=SHARE, some="score", most=calibrate.MAX_ITEMS),
    "labelled": replace(_PLACES_OF_SCORES, some="item that has a label"),
    "labels": Column("labelled"),
    "clusters": Column("scores", optional=True),
    INCLUSION: Column("labels", "(0, 1]", optional=True),
}
STAGED_ITEMS: Columns = {
    "labels": Column(some="label", most=frontier.MAX_LABELS),
    "clusters": Column("labels", optional=True),
    "lengths": Column("labels", optional=True),
    "stages": Column(some="judge", most=frontier.MAX_STAGES),
}
STAGE: Columns = {
    "flagged": _PLACES_OF_SCORES,
    "missing": _PLACES_OF_SCORES,
    "scores": Column(
        "labels",
        SHARE,
        "must be from 0 to 1; name it in missing if there is none",
        unread="missing",
    ),
}


def read_columns(
    columns: Columns, message: Message, path: str = "", counted: Mapping[str, int] = NOTHING
) -> dict[str, FloatArray]:
    """Return the columns of a message that have an interval, once all keep their rules.

    Raises InvalidField and LimitExceeded at a column, or an entry of one.
    """
    lengths = {name: len(getattr(message, name)) for name in columns} | dict(counted)
    found: dict[str, FloatArray] = {}
    for name, column in columns.items():
        at, n = f"{path}.{name}".lstrip("."), lengths[name]
        need(n > 0 or not column.some, at, f"must hold at least one {column.some}")
        if 0 < column.most < n:
            raise LimitExceeded(at, f"{column.some}s", column.most, n)
        if column.of and (n or not column.optional):
            of = lengths[column.of]
            need(n == of, at, f"has {n} entries for {of} {column.of}")
        if column.within:
            values = found[name] = np.array(getattr(message, name), np.float64)
            holds, rule = interval(column.within.format(**lengths))
            good = np.asarray(holds(values, None))
            if column.nan:
                good |= np.isnan(values)
            if column.unread:
                good[found[column.unread].astype(np.int64)] = True
            need_all(good, at, column.rule.format(**lengths) or rule)
            if column.rises:
                rule = "must be above the entry before it; sort, each once"
                need_all(np.diff(values, prepend=-1) > 0, at, rule)
    return found
