"""Corrected means on the screen and in the document."""

from judged.cli.output.estimates import corrected_document, corrected_table, corrected_warnings
from judged.values import CorrectedEstimate, Estimate, Interval
from rich.console import Console

INTERVAL = Interval(0.25, 0.75, 0.95, 0.1, "s")


def mean(corrected, warnings=()):
    naive = Estimate(0.7, INTERVAL)
    return CorrectedEstimate(corrected, naive, Estimate(0.5, None), 3, 90, 0.25, warnings)


def test_the_three_means_stand_side_by_side():
    means = {"ap": mean(Estimate(0.5, INTERVAL)), "mrr": mean(None)}
    console = Console(width=200, color_system=None)
    with console.capture() as shown:
        console.print(corrected_table(means))
    _, _, first, second = shown.get().splitlines()
    assert first.split() == [
        *("ap", "0.7000", "[0.2500,", "0.7500]", "0.5000"),
        *("0.5000", "[0.2500,", "0.7500]", "3", "of", "90", "0.250"),
    ]
    assert second.split()[4:6] == ["0.5000", "-"]


def test_a_warning_is_said_once_for_the_metrics_that_share_it():
    means = {"ap": mean(None, ["few", "odd"]), "mrr": mean(None, ["few"])}
    assert list(corrected_warnings(means)) == [
        "corrected mean: few",
        "corrected mean of ap: odd",
    ]
    assert list(corrected_warnings(None)) == []


def test_the_document_has_all_numbers_when_there_were_labels():
    assert corrected_document(None) == {}
    document = corrected_document({"ap": mean(Estimate(0.5, INTERVAL), ["few"])})["corrected"]
    assert document["ap"]["corrected"]["interval"]["upper"] == 0.75
    assert (document["ap"]["n_labelled"], document["ap"]["warnings"]) == (3, ["few"])
