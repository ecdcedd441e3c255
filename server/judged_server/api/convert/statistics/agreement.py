"""Between the messages of MeasureAgreement and `statistics.agreement`."""

from __future__ import annotations

from judged.v1 import statistics_service_pb2

from judged_server.api.convert.fields import read_choice, write
from judged_server.api.convert.statistics.intervals import read_interval_options, write_known
from judged_server.errors import InvalidField
from judged_server.statistics.agreement.measure import (
    AGREEMENT_MEASURES,
    Agreement,
    measure_agreement,
)
from judged_server.statistics.agreement.quality import QUALITY_MEASURES, JudgeQuality
from judged_server.statistics.agreement.rank_correlation import RankAgreement, rank_agreement
from judged_server.statistics.agreement.ratings import RatingLevel, Ratings


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
    return Ratings.build(
        [rater.name for rater in message.raters],
        list(message.categories),
        [rater.ratings for rater in message.raters],
        read_choice(message, "level", RatingLevel.NOMINAL, f"{field}."),
        field,
    )


def write_agreement(ratings: Ratings, found: Agreement) -> statistics_service_pb2.Agreement:
    """Return the message of what raters agree on."""
    return write(
        statistics_service_pb2.Agreement,
        found,
        raters=ratings.raters,
        categories=ratings.categories,
        confusion=() if found.confusion is None else found.confusion.ravel().tolist(),
        **{name: write_known(getattr(found, name)) for name in AGREEMENT_MEASURES},
    )


def write_rank_agreement(found: RankAgreement) -> statistics_service_pb2.RankAgreement:
    """Return the message of how alike two judges order systems."""
    return write(
        statistics_service_pb2.RankAgreement,
        found,
        kendall_tau=write_known(found.kendall_tau),
        tau_ap=write_known(found.tau_ap),
    )


def write_quality(found: JudgeQuality) -> statistics_service_pb2.JudgeQuality:
    """Return the message of how well a judge follows labels."""
    estimates = {name: write_known(getattr(found, name)) for name in QUALITY_MEASURES}
    return write(statistics_service_pb2.JudgeQuality, found, **estimates)
