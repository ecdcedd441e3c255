"""What `judged calibrate` prints: a judge's quality, thresholds, cascade, shares, probabilities."""

from __future__ import annotations

from dataclasses import asdict

from rich.table import Table

from judged._views import plural
from judged.cli.output.estimates import (
    cells,
    estimate_warnings,
    estimates_document,
    estimates_table,
    more_labels,
)
from judged.cli.output.usage import usage_document
from judged.cli.output.writer import Output, new_table
from judged.report.summary import number
from judged.values import (
    Calibration,
    CascadeBounds,
    CorrectedEstimate,
    Estimate,
    Reliability,
    Usage,
)
from judged.values.intervals import estimates_of


def report_calibration(
    out: Output, found: Calibration, n_lines: int, judge: str | None, usage: Usage | None
) -> None:
    """Show what a judge is worth, warn of what needs it, write the document.

    `n_lines` is how many lines were judged, `judge` its signature where one was asked.
    """
    quality, prevalence = estimates_of(found.quality), _prevalence(found.prevalence)
    crossed = {
        f"cross-validated {threshold.criterion.name.lower()}": threshold.cross_validated
        for threshold in found.thresholds
    }
    believed = found.reliability
    probability = {} if believed is None else estimates_of(believed)
    everything = {
        **quality,
        **{f"probability {name}": one for name, one in probability.items()},
        **crossed,
        **{f"prevalence {name}": one for name, one in prevalence.items()},
    }
    out.warn(
        *found.quality.warnings,
        *(f"prevalence: {warning}" for warning in found.prevalence.warnings),
        *(() if believed is None else believed.warnings),
        *estimate_warnings(everything),
    )
    out.show(describe_agreement(found, judge), "")
    out.show(estimates_table("quality", quality), "", _describe(found, n_lines, judge), "")
    out.show(thresholds_table(found), "", _cascade(found), "")
    out.show(estimates_table("share of relevant items", prevalence))
    shares = {"share of relevant items": found.prevalence}
    if found.agreement is not None:
        shares["judge agrees with people"] = found.agreement
        agreement = _prevalence(found.agreement)
        out.show("", estimates_table("judge agrees with people", agreement))
    if told := more_labels(shares):
        out.show("", told)
    if believed is not None:
        out.show("", estimates_table("probability", probability), "", _describe_fit(believed))
    out.write_json(
        {
            "quality": {
                name: value for name, value in asdict(found.quality).items() if name != "warnings"
            },
            "thresholds": [
                {**asdict(threshold), "criterion": threshold.criterion.name.lower()}
                for threshold in found.thresholds
            ],
            "cascade": asdict(found.cascade),
            "reliability": None
            if believed is None
            else {
                "calibrator": asdict(believed.calibrator),
                "fitted": believed.fitted,
                "n_labels": believed.n_labels,
                "n_queries": believed.n_clusters,
                **estimates_document(probability),
                "bins": [asdict(each) for each in believed.bins],
            },
            "prevalence": {
                **estimates_document(prevalence),
                "n": found.prevalence.n,
                "n_labelled": found.prevalence.n_labelled,
                "power": found.prevalence.power,
            },
            "agreement": None if found.agreement is None else asdict(found.agreement),
            "judge": judge,
            "signature": found.signature,
            **usage_document(usage),
            "warnings": out.warnings,
        }
    )


def describe_agreement(found: Calibration, judge: str | None) -> str:
    """Return how often the judge agrees with people, by how many labels, as a sentence."""
    quality, believed = found.quality, found.reliability
    name = "the judge" if judge is None else judge.partition("|")[0]
    labels = plural(quality.n, "label", "labels")
    by = "" if believed is None else f" of {plural(believed.n_clusters, 'query', 'queries')}"
    said = f"{name} agrees with people on {_share(quality.accuracy)} of {labels}{by}"
    if believed is None or not believed.fitted or believed.accuracy is None:
        return said
    calibrated = _share(believed.accuracy)
    return f"{said}; calibrated, on {calibrated}, by labels that did not make the calibration"


def _share(estimate: Estimate | None) -> str:
    value, lower, upper = cells(estimate)
    return value if lower == "-" else f"{value} ({lower} to {upper})"


def thresholds_table(found: Calibration) -> Table:
    """Return the thresholds: what each is best at, where it is, and what it is worth."""
    view = new_table("best threshold for", "min_score", "fitted", "held out", "lower", "upper")
    for threshold in found.thresholds:
        view.add_row(
            threshold.criterion.name.lower(),
            number(threshold.min_score),
            number(threshold.fitted),
            *cells(threshold.cross_validated),
        )
    return view


def _prevalence(prevalence: CorrectedEstimate) -> dict[str, Estimate | None]:
    return {
        "naive": prevalence.naive,
        "corrected": prevalence.corrected,
        "labels_only": prevalence.labels_only,
    }


def _describe(found: Calibration, n_lines: int, judge: str | None) -> str:
    quality = found.quality
    by = f"; {judge}" if judge else ""
    return (
        f"{plural(quality.n, 'label', 'labels')} of {plural(n_lines, 'line', 'lines')}: "
        f"{quality.true_positives} true and {quality.false_positives} false positives, "
        f"{quality.true_negatives} true and {quality.false_negatives} false negatives{by}"
    )


def _describe_fit(believed: Reliability) -> str:
    made = believed.calibrator
    threshold = "" if made.min_score is None else f", threshold {made.min_score:.4f}"
    how = "fitted, cross-validated" if believed.fitted else "not fitted"
    return (
        f"calibration {how}: slope {made.slope:.4f}, intercept {made.intercept:.4f}{threshold}; "
        f"{plural(believed.n_labels, 'label', 'labels')} of "
        f"{plural(believed.n_clusters, 'query', 'queries')}"
    )


def _cascade(found: Calibration) -> str:
    cascade = found.cascade
    accept = "no score" if cascade.accept is None else f"from {cascade.accept:.4f}"
    reject = "no score" if cascade.reject is None else f"up to {cascade.reject:.4f}"
    return (
        f"cascade at an error of {cascade.max_error:g}: accept {accept}, reject {reject}, "
        f"{cascade.escalated:.1%} go on to a better judge; the labels count as "
        f"{cascade.labels_counted:.1f}, {cascade.design_effect:.2f} of them as one"
        + _uncertified(cascade)
    )


def _uncertified(cascade: CascadeBounds) -> str:
    """Return the bounds that nothing vouches for, where there are no others."""
    parts = []
    if cascade.accept is None and cascade.uncertified_accept is not None:
        parts.append(f"accept from {cascade.uncertified_accept:.4f}")
    if cascade.reject is None and cascade.uncertified_reject is not None:
        parts.append(f"reject up to {cascade.uncertified_reject:.4f}")
    return f"\nuncertified, on these labels alone: {', '.join(parts)}" if parts else ""
