"""The guarantee of a cascade between its message and the domain."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise
from math import inf

from judged.v1 import groups_pb2

from judged_server.api.convert.fields import write
from judged_server.domain import ErrorGuarantee, ItemShares
from judged_server.errors import InvalidField
from judged_server.statistics.calibration.cascade import FLAGS, LENGTH, SCORE

MAX_EDGES = 16


def read_error_guarantee(message: groups_pb2.ErrorGuarantee, field: str) -> ErrorGuarantee:
    """Return the guarantee that a request brings. Raises InvalidField for what none has."""
    for name in ("max_error", "confidence"):
        if not 0 <= getattr(message, name) <= 1:  # NaN is in no range
            raise InvalidField(f"{field}.{name}", "must be a number from 0 to 1")
    if not 0 <= message.labels_counted <= message.n_labels:
        raise InvalidField(f"{field}.labels_counted", "must lie in 0 to n_labels")
    data = tuple(_read_shares(each, f"{field}.data[{i}]") for i, each in enumerate(message.data))
    same = {each.name: getattr(message, each.name) for each in fields(ErrorGuarantee)}
    return ErrorGuarantee(**{**same, "data": data})


def _read_shares(message: groups_pb2.ItemShares, field: str) -> ItemShares:
    if message.name not in (SCORE, LENGTH, FLAGS):
        raise InvalidField(f"{field}.name", f"must be one of {SCORE}, {LENGTH}, {FLAGS}")
    edges = list(message.edges)
    if len(edges) > MAX_EDGES or not all(a < b for a, b in pairwise([-inf, *edges, inf])):
        raise InvalidField(f"{field}.edges", f"must be up to {MAX_EDGES} numbers, ascending")
    for name in ("shares", "variances"):
        values = getattr(message, name)
        if len(values) != len(edges) + 1 or not all(0 <= each <= 1 for each in values):
            rule = f"must be {len(edges) + 1} numbers from 0 to 1, one more than edges"
            raise InvalidField(f"{field}.{name}", rule)
    return ItemShares(message.name, tuple(edges), tuple(message.shares), tuple(message.variances))


def write_error_guarantee(guarantee: ErrorGuarantee) -> groups_pb2.ErrorGuarantee:
    """Return the message of a guarantee."""
    data = [write(groups_pb2.ItemShares, each) for each in guarantee.data]
    return write(groups_pb2.ErrorGuarantee, guarantee, data=data)
