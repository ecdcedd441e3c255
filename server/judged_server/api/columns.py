"""Rules for the columns of numbers that callers send: their length and their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from google.protobuf.message import Message
from judged.v1 import metrics_pb2, verdicts_pb2
from judged.v1 import statistics_service_pb2 as pb
from judged.values.choices import Flag, Source, Status

from judged_server.api.requests import SHARE, interval
from judged_server.domain import FloatArray, check_limit, need, need_all
from judged_server.statistics import agreement
from judged_server.statistics.calibration import calibrate, frontier


@dataclass(frozen=True, slots=True)
class Column:
    """The rules of one column. In the strings, `{name}` is replaced by the count of that name.

    The column has one entry per entry of `of`, another column or a count that the reader passes;
    an `optional` column may be empty instead. With `some` (the word for an entry in errors) it must
    not be empty. It has at most `most` entries, 0 for any number. Values lie in the interval
    `within`; errors say `rule` instead where it is set. With `rises` values strictly increase.
    With `nan` they may be NaN. Values at the places listed in the column `unread` are not checked.
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


_PLACES = "[0, {scores})", "must be below {scores}, the number of scores"
_SYSTEM = "[0, {systems})"
_SCORE = Column("systems", "(-inf, inf)", "must be a finite number")
_NAMES = Column()

COLUMNS: Mapping[type[Message], Mapping[str, Column]] = {
    verdicts_pb2.VerdictColumns: {
        "relevant": Column("contexts", SHARE),
        "score": Column("contexts", SHARE, optional=True),
        "status": Column(
            "contexts",
            f"[1, {max(Status)}]",
            f"must be one of {', '.join(verdicts_pb2.VerdictStatus.keys()[1:])}",
            optional=True,
        ),
        "source": Column(
            "contexts",
            f"[1, {max(Source)}]",
            f"must be one of {', '.join(verdicts_pb2.VerdictSource.keys()[1:])}",
            optional=True,
        ),
        "flags": Column("contexts", f"[0, {sum(Flag)}]", optional=True),
        "agreement": Column("contexts", SHARE, optional=True),
    },
    metrics_pb2.HumanLabels: {
        "query_ids": _NAMES,
        "relevant": Column("contexts"),
        "inclusion_probabilities": Column("query_ids", "(0, 1]", optional=True),
    },
    metrics_pb2.PerQueryValues: {
        "query_ids": _NAMES,
        "columns": Column("metrics"),
        "inclusion_probabilities": Column("query_ids", "(0, 1]", optional=True),
    },
    metrics_pb2.TopicColumns: {"query_ids": _NAMES, "n_documents": Column("query_ids")},
    metrics_pb2.ValueColumn: {
        "values": Column("query_ids", "[-1e100, 1e100]", "must be finite, within +-1e100")
    },
    pb.ComputeTextMetricsRequest: {"values": Column("metrics")},
    pb.Rater: {
        "ratings": Column(
            "items",
            "[-1, {categories})",
            "must be -1 for no rating, or the place of one of {categories} categories, counted "
            "from 0",
            some="item",
            most=agreement.MAX_ITEMS,
        )
    },
    pb.SystemScores: {"systems": _NAMES, "first": _SCORE, "second": _SCORE},
    pb.RankSystemsRequest: {
        "systems": _NAMES,
        "query_ids": Column(some="comparison"),
        "first": Column("query_ids", _SYSTEM),
        "second": Column("query_ids", _SYSTEM),
        "preference": Column("query_ids", SHARE),
    },
    pb.CalibrateRequest: {
        "scores": Column("", SHARE, some="score", most=calibrate.MAX_ITEMS),
        "labelled": Column("", *_PLACES, some="item that has a label", rises=True),
        "labels": Column("labelled"),
        "clusters": Column("scores", optional=True),
        "inclusion_probabilities": Column("labels", "(0, 1]", optional=True),
    },
    pb.CalibrateCascadeRequest: {
        "labels": Column(some="label", most=frontier.MAX_LABELS),
        "clusters": Column("labels", optional=True),
        "lengths": Column("labels", optional=True),
        "stages": Column(some="judge", most=frontier.MAX_STAGES),
    },
    pb.ScoredStage: {
        "flagged": Column("", *_PLACES, rises=True),
        "missing": Column("", *_PLACES, rises=True),
        "scores": Column(
            "labels",
            SHARE,
            "must be from 0 to 1; name it in missing if there is none",
            unread="missing",
        ),
    },
}
"""The columns of each message, by field name."""
Columns = Mapping[str, Column]
VALUES_OF_TEXTS: Columns = {"values": Column("items", SHARE, some="value", nan=True)}
"""For a ValueColumn of ComputeTextMetrics."""


def read_columns(
    message: Message, path: str = "", rules: Columns | None = None, **counted: int
) -> dict[str, FloatArray]:
    """Check all columns of a message; return those whose rule has an interval.

    The rules are those in COLUMNS unless `rules` are given. Raises InvalidField and LimitExceeded
    with the path of a column, or of an entry.
    """
    rules = rules or COLUMNS[type(message)]
    counted = {name: len(getattr(message, name)) for name in rules} | counted
    found: dict[str, FloatArray] = {}
    for name, column in rules.items():
        at, n = f"{path}.{name}".lstrip("."), counted[name]
        need(n > 0 or not column.some, at, f"must hold at least one {column.some}")
        check_limit(n, column.most or n, f"{column.some}s", at)
        if column.of and (n or not column.optional):
            of = counted[column.of]
            need(n == of, at, f"has {n} entries for {of} {column.of}")
        if column.within:
            values = found[name] = np.array(getattr(message, name), np.float64)
            holds, rule = interval(column.within.format(**counted))
            good = np.asarray(holds(values, None))
            if column.nan:
                good |= np.isnan(values)
            if column.unread:
                good[found[column.unread].astype(np.int64)] = True
            need_all(good, at, column.rule.format(**counted) or rule)
            if column.rises:
                rule = "must be above the entry before it; sort, each once"
                need_all(np.diff(values, prepend=-1) > 0, at, rule)
    return found


def read_values(
    columns: Iterable[metrics_pb2.ValueColumn],
    path: str,
    rules: Columns | None = None,
    **counted: int,
) -> list[FloatArray]:
    """Return the values of each column. Raises as `read_columns` does."""
    return [
        read_columns(column, f"{path}[{place}]", rules, **counted)["values"]
        for place, column in enumerate(columns)
    ]
