"""The guarantee of a cascade between its message and the domain."""

from __future__ import annotations

from judged.v1 import groups_pb2

from judged_server.api.convert.fields import write
from judged_server.domain import ErrorGuarantee
from judged_server.errors import InvalidField

METHODS = ("design_effect", "kish", "items")


def read_error_guarantee(message: groups_pb2.ErrorGuarantee, field: str) -> ErrorGuarantee:
    """Return the guarantee that a request brings. Raises InvalidField for what none has."""
    for name in ("max_error", "confidence"):
        if not 0 <= getattr(message, name) <= 1:  # NaN is in no range
            raise InvalidField(f"{field}.{name}", "must be a number from 0 to 1")
    if not 0 <= message.labels_counted <= message.n_labels:
        raise InvalidField(f"{field}.labels_counted", "must lie in 0 to n_labels")
    if message.method not in METHODS:
        raise InvalidField(f"{field}.method", f"must be one of {', '.join(METHODS)}")
    return ErrorGuarantee(
        message.max_error,
        message.confidence,
        message.n_labels,
        message.n_wrong,
        message.n_clusters,
        message.labels_counted,
        message.method,
        message.stages_sha256,
    )


def write_error_guarantee(guarantee: ErrorGuarantee) -> groups_pb2.ErrorGuarantee:
    """Return the message of a guarantee."""
    return write(groups_pb2.ErrorGuarantee, guarantee)
