"""MeasureAgreement and the quality of judges, between messages and `statistics.agreement`."""

from __future__ import annotations

from judged._codec import write_fields
from judged.v1 import statistics_service_pb2 as pb
from judged.values.agreement import MeasuredAgreement, RatingTable, SystemScores

from judged_server.api.convert.fields import read, write
from judged_server.api.convert.statistics.intervals import read_interval_options, write_known
from judged_server.errors import InvalidField
from judged_server.statistics.agreement import measure_agreement
from judged_server.statistics.quality import QUALITY_MEASURES, JudgeQuality
from judged_server.statistics.rank_correlation import rank_agreement


def agreement(request: pb.MeasureAgreementRequest) -> pb.MeasureAgreementResponse:
    """Return the answer to a MeasureAgreement request. Raises InvalidField."""
    if not request.HasField("ratings") and not request.HasField("systems"):
        raise InvalidField("ratings", "set ratings, systems or both")
    options = read_interval_options(request.interval, "interval")
    ratings = systems = None
    if request.HasField("ratings"):
        table = read(RatingTable, request.ratings, "ratings")
        ratings = measure_agreement(table, options)
    if request.HasField("systems"):
        scores = read(SystemScores, request.systems, "systems")
        systems = rank_agreement(scores, options)
    return write_fields(pb.MeasureAgreementResponse, MeasuredAgreement(ratings, systems))


def write_quality(found: JudgeQuality) -> pb.JudgeQuality:
    """Return the message of how well a judge follows labels."""
    estimates = {name: write_known(getattr(found, name)) for name in QUALITY_MEASURES}
    return write(pb.JudgeQuality, found, **estimates)
