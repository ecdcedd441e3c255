"""Between the messages of MeasureAgreement and `metrics.agreement`."""

from __future__ import annotations

from judged.v1 import statistics_service_pb2

from judged_server.api.convert.statistics.intervals import read_interval_options, write_estimate
from judged_server.errors import InvalidField, full_names
from judged_server.statistics.agreement import (
    AGREEMENT_MEASURES,
    QUALITY_MEASURES,
    Agreement,
    Estimate,
    JudgeQuality,
    RankAgreement,
    RatingLevel,
    Ratings,
    measure_agreement,
    rank_agreement,
)


def agreement(
    request: statistics_service_pb2.MeasureAgreementRequest,
) -> statistics_service_pb2.MeasureAgreementResponse:
    """Return the answer to a MeasureAgreement request. Raises InvalidField."""
    if not request.HasField("ratings") and not request.HasField("systems"):
        raise InvalidField("ratings", "set ratings, systems or both")
    options = read_interval_options(request.interval, "interval")
    reply = statistics_service_pb2.MeasureAgreementResponse()
    if request.HasField("ratings"):
        ratings = read_ratings(request.ratings)
        reply.ratings.CopyFrom(write_agreement(ratings, measure_agreement(ratings, options)))
    if request.HasField("systems"):
        asked = request.systems
        ranked = rank_agreement(asked.systems, asked.first, asked.second, options)
        reply.systems.CopyFrom(write_rank_agreement(ranked))
    return reply


def read_ratings(message: statistics_service_pb2.RatingTable, field: str = "ratings") -> Ratings:
    """Return the ratings of a request. Raises InvalidField."""
    level = RatingLevel.NOMINAL
    if message.HasField("level"):
        if int(message.level) not in set(RatingLevel):
            names = full_names(RatingLevel)
            raise InvalidField(f"{field}.level", f"must be unset or one of {names}")
        level = RatingLevel(message.level)
    return Ratings.build(
        [rater.name for rater in message.raters],
        list(message.categories),
        [rater.ratings for rater in message.raters],
        level,
        field,
    )


def write_agreement(ratings: Ratings, found: Agreement) -> statistics_service_pb2.Agreement:
    """Return the message of what raters agree on."""
    message = statistics_service_pb2.Agreement(
        raters=ratings.raters,
        n_items=found.n_items,
        categories=ratings.categories,
        confusion=() if found.confusion is None else found.confusion.ravel().tolist(),
        warnings=found.warnings,
    )
    for name in AGREEMENT_MEASURES:
        put(message, name, getattr(found, name))
    return message


def write_rank_agreement(found: RankAgreement) -> statistics_service_pb2.RankAgreement:
    """Return the message of how alike two judges order systems."""
    message = statistics_service_pb2.RankAgreement(
        n_systems=found.n_systems, warnings=found.warnings
    )
    put(message, "kendall_tau", found.kendall_tau)
    put(message, "tau_ap", found.tau_ap)
    return message


def write_quality(found: JudgeQuality) -> statistics_service_pb2.JudgeQuality:
    """Return the message of how well a judge follows labels."""
    message = statistics_service_pb2.JudgeQuality(
        n=found.n,
        true_positives=found.true_positives,
        false_positives=found.false_positives,
        true_negatives=found.true_negatives,
        false_negatives=found.false_negatives,
        warnings=found.warnings,
    )
    for name in QUALITY_MEASURES:
        put(message, name, getattr(found, name))
    return message


def put(
    message: statistics_service_pb2.Agreement
    | statistics_service_pb2.RankAgreement
    | statistics_service_pb2.JudgeQuality
    | statistics_service_pb2.Reliability
    | statistics_service_pb2.Threshold,
    name: str,
    found: Estimate,
) -> None:
    """Set a field of a message to an estimate; one without a value stays unset."""
    if found.value is not None:
        getattr(message, name).CopyFrom(write_estimate(found.value, found.interval))
