"""Callers of the wire are told the names that the contract has; no other name does there."""

from __future__ import annotations

from enum import IntEnum

import pytest
from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper
from judged import Matching, NoGold, Unjudged
from judged._transport.status import in_python
from judged.v1 import groups_pb2, metrics_pb2, statistics_service_pb2, verdicts_pb2
from judged.values.agreement import RatingLevel
from judged.values.choices import CacheMode, Source, Status
from judged.values.choices import CacheMode as PythonCache
from judged.values.choices import Source as PythonSource
from judged.values.choices import Status as PythonStatus
from judged.values.intervals import IntervalMethod
from judged_server.api.convert.judging import read_asking
from judged_server.api.convert.metrics import read_options
from judged_server.api.convert.statistics import agreement
from judged_server.api.convert.verdicts import read_verdicts
from judged_server.errors import InvalidField, full_name, full_names
from judged_server.metrics.table import MatchingMode, NoGoldPolicy, UnjudgedPolicy

ENUMS: list[tuple[type[IntEnum], EnumTypeWrapper, type[IntEnum]]] = [
    (CacheMode, groups_pb2.CacheMode, PythonCache),
    (MatchingMode, metrics_pb2.MatchingMode, Matching),
    (NoGoldPolicy, metrics_pb2.NoGoldPolicy, NoGold),
    (UnjudgedPolicy, metrics_pb2.UnjudgedPolicy, Unjudged),
    (IntervalMethod, metrics_pb2.IntervalMethod, IntervalMethod),
    (RatingLevel, statistics_service_pb2.RatingLevel, RatingLevel),
    (Status, verdicts_pb2.VerdictStatus, PythonStatus),
    (Source, verdicts_pb2.VerdictSource, PythonSource),
]


@pytest.mark.parametrize(("ours", "contract", "python"), ENUMS)
def test_a_full_name_is_the_contracts(ours, contract, python):
    for choice in ours:
        name = contract.Name(choice.value)
        assert full_name(choice, contract.DESCRIPTOR.name) == name
        assert in_python(f"use {name}.") == f"use {python.__name__}.{python(choice).name}."


REFUSED = {
    CacheMode: lambda: read_asking(groups_pb2.AskingOptions(cache=0)),
    MatchingMode: lambda: read_options(
        metrics_pb2.MetricOptions(verdicts=metrics_pb2.VerdictOptions(matching=0))
    ),
    NoGoldPolicy: lambda: read_options(
        metrics_pb2.MetricOptions(verdicts=metrics_pb2.VerdictOptions(no_gold=0))
    ),
    UnjudgedPolicy: lambda: read_options(
        metrics_pb2.MetricOptions(qrels=metrics_pb2.QrelsOptions(unjudged=9))
    ),
    IntervalMethod: lambda: read_options(
        metrics_pb2.MetricOptions(interval=metrics_pb2.IntervalOptions(method=0))
    ),
    RatingLevel: lambda: agreement(
        statistics_service_pb2.MeasureAgreementRequest(
            ratings=statistics_service_pb2.RatingTable(level=0)
        )
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_choice_that_is_none_is_refused_with_the_full_names(kind):
    with pytest.raises(InvalidField) as caught:
        REFUSED[kind]()
    assert caught.value.rule == f"must be unset or one of {full_names(kind)}"


@pytest.mark.parametrize(("kind", "column"), [(Status, "status"), (Source, "source")])
def test_a_verdict_that_is_none_is_refused_with_the_full_names(kind, column):
    columns = verdicts_pb2.VerdictColumns(relevant=[True], score=[1.0], **{column: [9]})
    with pytest.raises(InvalidField) as caught:
        read_verdicts(columns, [1], "verdicts")
    assert caught.value.rule == f"must be one of {full_names(kind, f'Verdict{kind.__name__}')}"
