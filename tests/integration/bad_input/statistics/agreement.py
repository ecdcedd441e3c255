"""Bad requests to MeasureAgreement and Calibrate."""

from __future__ import annotations

from judged.v1 import metrics_pb2, statistics_service_pb2

from tests.integration.bad_input.case import NAN, case


def ratings(
    raters: object = None, categories: object = ("yes", "no"), **more: object
) -> statistics_service_pb2.MeasureAgreementRequest:
    table = statistics_service_pb2.RatingTable(
        categories=categories, raters=raters or [rater("a"), rater("b")], **more
    )
    return statistics_service_pb2.MeasureAgreementRequest(ratings=table)


def rater(name: str, ratings: object = (0, 1)) -> statistics_service_pb2.Rater:
    return statistics_service_pb2.Rater(name=name, ratings=ratings)


def systems(
    names: object = ("a", "b"), first: object = (1, 2), second: object = (1, 2)
) -> statistics_service_pb2.MeasureAgreementRequest:
    return statistics_service_pb2.MeasureAgreementRequest(
        systems=statistics_service_pb2.SystemScores(systems=names, first=first, second=second)
    )


def calibrate(**fields: object) -> statistics_service_pb2.CalibrateRequest:
    good = {"scores": [0.2, 0.8, 0.9], "labelled": [0, 1], "labels": [False, True]}
    return statistics_service_pb2.CalibrateRequest(**{**good, **fields})


CASES = [
    case(
        "MeasureAgreementRequest.ratings", "ratings", statistics_service_pb2.MeasureAgreementRequest
    ),
    case("MeasureAgreementRequest.systems", "systems.systems", lambda: systems(names=[])),
    case(
        "MeasureAgreementRequest.interval",
        "interval.confidence",
        lambda: statistics_service_pb2.MeasureAgreementRequest(
            ratings=ratings().ratings, interval=metrics_pb2.IntervalOptions(confidence=2)
        ),
    ),
    case("RatingTable.categories", "ratings.categories", lambda: ratings(categories=["yes"])),
    case("RatingTable.categories", "ratings.categories[1]", lambda: ratings(categories=["a", "a"])),
    case("RatingTable.raters", "ratings.raters", lambda: ratings([rater("a")])),
    case("RatingTable.level", "ratings.level", lambda: ratings(level=0)),
    case("Rater.name", "ratings.raters[1].name", lambda: ratings([rater("a"), rater("")])),
    case(
        "Rater.ratings",
        "ratings.raters[0].ratings",
        lambda: ratings([rater("a", []), rater("b", [])]),
    ),
    case(
        "Rater.ratings",
        "ratings.raters[1].ratings",
        lambda: ratings([rater("a"), rater("b", [0])]),
    ),
    case(
        "Rater.ratings",
        "ratings.raters[1].ratings[1]",
        lambda: ratings([rater("a"), rater("b", [0, 2])]),
    ),
    case(
        "Rater.ratings",
        "ratings.raters[0].ratings[0]",
        lambda: ratings([rater("a", [-2, 0]), rater("b")]),
    ),
    case(
        "Rater.ratings",
        "ratings.raters[0].ratings",
        lambda: ratings([rater("a", [0] * 1_000_001), rater("b", [0])]),
    ),
    case("SystemScores.systems", "systems.systems[1]", lambda: systems(names=["a", "a"])),
    case("SystemScores.systems", "systems.systems[0]", lambda: systems(names=["", "a"])),
    case("SystemScores.first", "systems.first", lambda: systems(first=[1])),
    case("SystemScores.first", "systems.first[1]", lambda: systems(first=[1, NAN])),
    case("SystemScores.second", "systems.second", lambda: systems(second=[1, 2, 3])),
    case("SystemScores.second", "systems.second[0]", lambda: systems(second=[float("inf"), 1])),
    case("CalibrateRequest.scores", "scores", lambda: calibrate(scores=[])),
    case("CalibrateRequest.scores", "scores[2]", lambda: calibrate(scores=[0, 1, NAN])),
    case("CalibrateRequest.scores", "scores[1]", lambda: calibrate(scores=[0, 1.1, 0])),
    case("CalibrateRequest.labelled", "labelled", lambda: calibrate(labelled=[], labels=[])),
    case("CalibrateRequest.labelled", "labelled[1]", lambda: calibrate(labelled=[0, 3])),
    case("CalibrateRequest.labelled", "labelled[1]", lambda: calibrate(labelled=[1, 0])),
    case("CalibrateRequest.labels", "labels", lambda: calibrate(labels=[True])),
    case("CalibrateRequest.clusters", "clusters", lambda: calibrate(clusters=[1])),
    case(
        "CalibrateRequest.inclusion_probabilities",
        "inclusion_probabilities",
        lambda: calibrate(inclusion_probabilities=[0.5]),
    ),
    case(
        "CalibrateRequest.inclusion_probabilities",
        "inclusion_probabilities[1]",
        lambda: calibrate(inclusion_probabilities=[1.0, 1.5]),
    ),
    case("CalibrateRequest.min_score", "min_score", lambda: calibrate(min_score=NAN)),
    case(
        "CalibrateRequest.interval",
        "interval.resamples",
        lambda: calibrate(interval=metrics_pb2.IntervalOptions(resamples=99)),
    ),
    case(
        "CalibrateRequest.interval",
        "interval.method",
        lambda: calibrate(interval=metrics_pb2.IntervalOptions(method=0)),
    ),
    case(
        "CalibrateRequest.precision_floor", "precision_floor", lambda: calibrate(precision_floor=0)
    ),
    case("CalibrateRequest.folds", "folds", lambda: calibrate(folds=1)),
    case("CalibrateRequest.max_error", "max_error", lambda: calibrate(max_error=0.5)),
]

HARMLESS: dict[str, str] = {}
