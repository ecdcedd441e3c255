"""Corrected means on the screen and in the document."""

from judged.cli.tables import corrected_table
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
