"""Values out of messages, and THE rules of their fields: each once, with the path of the fault.

The codec knows what a field is called and its type. What it may be beyond that stands in RULES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import pairwise
from math import inf
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message
from judged._codec import UnknownChoice, read_fields
from judged.values.calibrators import Calibrator, ErrorGuarantee, ItemShares
from judged.values.comparison import CompareOptions
from judged.values.intervals import IntervalOptions
from judged.values.judges import Asking
from judged.values.scores import AnswerItem, Rubric

from judged_server.domain import BoolArray, FloatArray, JudgeSpec, PanelMember, need
from judged_server.errors import InvalidField
from judged_server.metrics.table import MetricOptions
from judged_server.settings import Limits
from judged_server.statistics.calibration.calibrate import CalibrationOptions
from judged_server.statistics.calibration.cascade import FLAGS, LENGTH, SCORE
from judged_server.statistics.calibration.frontier import FrontierOptions

MAX_EDGES = 16
MAX_INT32 = 2**31 - 1
"""More documents than a message holds, and the largest grade of the contract."""

Value = TypeVar("Value")
Rule = tuple[Callable[[Any, Any], bool], str]
"""Whether a field of a value may be what it is, and what it must be. NaN is in no range."""
_INSIDE: Rule = (lambda _, __: True, "")
"""The field may be anything: what it holds has rules."""


def _within(low: float, high: float, text: str = "must lie in {} to {}, or be unset") -> Rule:
    return lambda part, _: low <= part <= high, text.format(low, high)


def _between(low: float, high: float, text: str) -> Rule:
    return lambda part, _: low < part < high, text


def _shares(part: Sequence[float], data: ItemShares) -> bool:
    return len(part) == len(data.edges) + 1 and all(0 <= each <= 1 for each in part)


_SHARE = _within(0, 1, "must be a number from {} to {}")
_NUMBER = _between(-inf, inf, "must be a number")
_COUNT = _within(1, MAX_INT32, "must be unset or from {} to {}")
_MAX_ERROR = _between(0, 0.5, "must be above 0 and below 0.5, or be unset")
_OF_BINS: Rule = (_shares, "must be numbers from 0 to 1, one more than edges")
_FLOOR: Rule = (
    lambda part, _: 0 < part <= 1,
    "must be above 0 and at most 1, or be unset",
)

RULES: Mapping[type, Mapping[str, Rule]] = {
    Asking: {
        "max_cost": _between(0, inf, "must be a finite number above 0; leave it unset for no limit")
    },
    JudgeSpec: {"members": _INSIDE, "calibration": _INSIDE, "guarantee": _INSIDE},
    PanelMember: {"judge": _INSIDE},
    Rubric: {"calibration": _INSIDE},
    AnswerItem: {"confidence": _within(0, 1, "must be from {} to {}")},
    Calibrator: {
        "slope": _between(0, inf, "must be a number above 0"),
        "intercept": _NUMBER,
        "min_score": _SHARE,
        "accept": _SHARE,
        "reject": _SHARE,
    },
    ErrorGuarantee: {
        "max_error": _SHARE,
        "confidence": _SHARE,
        "labels_counted": (
            lambda part, guarantee: 0 <= part <= guarantee.n_labels,
            "must lie in 0 to n_labels",
        ),
        "data": _INSIDE,
    },
    ItemShares: {
        "name": (
            lambda part, _: part in (SCORE, LENGTH, FLAGS),
            f"must be one of {SCORE}, {LENGTH}, {FLAGS}",
        ),
        "edges": (
            lambda part, _: (
                len(part) <= MAX_EDGES and all(a < b for a, b in pairwise([-inf, *part, inf]))
            ),
            f"must be up to {MAX_EDGES} numbers, ascending",
        ),
        "shares": _OF_BINS,
        "variances": _OF_BINS,
    },
    MetricOptions: {"interval": _INSIDE, "relevance_level": _COUNT, "max_documents": _COUNT},
    IntervalOptions: {"confidence": _within(0.5, 0.9999), "resamples": _within(100, 100_000)},
    CompareOptions: {
        "permutations": _within(100, 1_000_000),
        "max_moved": _within(0, 1_000, "must be at most {1}"),
        "difference": _between(0, inf, "must be finite and above 0, or be unset"),
    },
    CalibrationOptions: {
        "interval": _INSIDE,
        "min_score": _within(0, 1),
        "precision_floor": _FLOOR,
        "folds": _within(2, 20),
        "max_error": _MAX_ERROR,
        "max_share": _within(0, 1),
    },
    FrontierOptions: {
        "max_error": _MAX_ERROR,
        "max_share": _within(0, 1),
        "max_cost": (lambda part, _: 0 <= part < inf, "must be a number, 0 or more, or be unset"),
        "confidence": _between(0, 1, "must be above 0 and below 1, or be unset"),
    },
}


def read(kind: type[Value], message: Message, path: str = "", **others: object) -> Value:
    """Return the value of a message at a path. Raises InvalidField for what breaks a rule."""
    try:
        value = read_fields(kind, message, **others)
    except UnknownChoice as unknown:
        raise InvalidField(f"{path}.{unknown.field}".lstrip("."), unknown.rule) from None
    check(value, path)
    return value


def check(value: object, path: str) -> None:
    """Raise InvalidField for the first field of a value that breaks its rule; None breaks none."""
    if isinstance(value, Calibrator):
        path += ".calibrator"  # the message says whether it is one, or a name
        not_fitted = value.not_fitted
        need(not not_fitted, path, f"holds nothing that labels made: {not_fitted[:200]}")
    for name, (holds, rule) in RULES.get(type(value), {}).items():
        part, at = getattr(value, name), f"{path}.{name}".lstrip(".")
        if part is not None and not holds(part, value):
            raise InvalidField(at, rule)
        if isinstance(part, tuple):
            for place, each in enumerate(part):
                check(each, f"{at}[{place}]")
        else:
            check(part, at)


def need_all(good: BoolArray, field: str, rule: str) -> None:
    """Raise InvalidField at the first entry of a column that is not good."""
    if not good.all():
        need(False, f"{field}[{int(good.argmin())}]", rule)


def check_texts(value: Any, limits: Limits, path: str) -> None:  # noqa: ANN401 - a dataclass
    """Raise LimitExceeded for an id or a text of a value that is too long."""
    for part in fields(value):
        given, at = getattr(value, part.name), f"{path}.{part.name}"
        if isinstance(given, list | tuple):
            limits.check_texts(given, at)
        elif isinstance(given, str):
            (limits.check_id if part.name.endswith("_id") else limits.check_text)(given, at)


def read_inclusion(
    probabilities: Sequence[float], n_labelled: int, field: str = ""
) -> FloatArray | None:
    """Return with which probability each label was drawn; None where all had the same.

    Raises InvalidField at `inclusion_probabilities` of the field for another number of them, and
    below it for one that is not above 0 and at most 1.
    """
    name = f"{field}.inclusion_probabilities".lstrip(".")
    if not probabilities:
        return None
    n = len(probabilities)
    need(n == n_labelled, name, f"has {n} entries for {n_labelled} labels")
    values = np.array(probabilities, np.float64)
    need_all((values > 0) & (values <= 1), name, "must be above 0 and at most 1")
    return values
