"""Bad requests to MeasureAgreement and Calibrate."""

from __future__ import annotations

from judged.v1 import metrics_pb2, statistics_service_pb2

from tests.integration.bad_input.case import NAN, Case


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
    Case("ratings", statistics_service_pb2.MeasureAgreementRequest),
    Case("systems.systems", lambda: systems(names=[])),
    Case(
        "interval.confidence",
        lambda: statistics_service_pb2.MeasureAgreementRequest(
            ratings=ratings().ratings, interval=metrics_pb2.IntervalOptions(confidence=2)
        ),
    ),
    Case("ratings.categories", lambda: ratings(categories=["yes"])),
    Case("ratings.categories[1]", lambda: ratings(categories=["a", "a"])),
    Case("ratings.raters", lambda: ratings([rater("a")])),
    Case("ratings.level", lambda: ratings(level=0)),
    Case("ratings.raters[1].name", lambda: ratings([rater("a"), rater("")])),
    Case("ratings.raters[0].ratings", lambda: ratings([rater("a", []), rater("b", [])])),
    Case("ratings.raters[1].ratings", lambda: ratings([rater("a"), rater("b", [0])])),
    Case("ratings.raters[1].ratings[1]", lambda: ratings([rater("a"), rater("b", [0, 2])])),
    Case("ratings.raters[0].ratings[0]", lambda: ratings([rater("a", [-2, 0]), rater("b")])),
    Case(
        "ratings.raters[0].ratings", lambda: ratings([rater("a", [0] * 1_000_001), rater("b", [0])])
    ),
    Case("systems.systems[1]", lambda: systems(names=["a", "a"])),
    Case("systems.systems[0]", lambda: systems(names=["", "a"])),
    Case("systems.first", lambda: systems(first=[1])),
    Case("systems.first[1]", lambda: systems(first=[1, NAN])),
    Case("systems.second", lambda: systems(second=[1, 2, 3])),
    Case("systems.second[0]", lambda: systems(second=[float("inf"), 1])),
    Case("scores", lambda: calibrate(scores=[])),
    Case("scores[2]", lambda: calibrate(scores=[0, 1, NAN])),
    Case("scores[1]", lambda: calibrate(scores=[0, 1.1, 0])),
    Case("labelled", lambda: calibrate(labelled=[], labels=[])),
    Case("labelled[1]", lambda: calibrate(labelled=[0, 3])),
    Case("labelled[1]", lambda: calibrate(labelled=[1, 0])),
    Case("labels", lambda: calibrate(labels=[True])),
    Case("clusters", lambda: calibrate(clusters=[1])),
    Case("inclusion_probabilities", lambda: calibrate(inclusion_probabilities=[0.5])),
    Case("inclusion_probabilities[1]", lambda: calibrate(inclusion_probabilities=[1.0, 1.5])),
    Case("min_score", lambda: calibrate(min_score=NAN)),
    Case(
        "interval.resamples", lambda: calibrate(interval=metrics_pb2.IntervalOptions(resamples=99))
    ),
    Case("interval.method", lambda: calibrate(interval=metrics_pb2.IntervalOptions(method=0))),
    Case("precision_floor", lambda: calibrate(precision_floor=0)),
    Case("folds", lambda: calibrate(folds=1)),
    Case("max_error", lambda: calibrate(max_error=0.5)),
]

HARMLESS: dict[str, str] = {}
