"""`judged agree` and `judged label`: agreement of raters, and labelling of judged items.

The server computes the numbers; `judged.labelling` chooses the items.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from judged import RatingLevel, RatingTable
from judged._files import FileError
from judged._views import of_all, plural, row_of, word
from judged.cli.frame import Document, arg, flag, opt
from judged.cli.gates import IntervalOption
from judged.cli.inputs import input_records, name_of
from judged.cli.output import Output, Places, Problem
from judged.cli.server import ResultCommand
from judged.cli.tables import (
    corrected_table,
    estimate_warnings,
    estimates_table,
)
from judged.labelling import RANDOM_SHARE, Item, Judged, LabelFile, summarize
from judged.values.choices import estimates_of, shared_warnings

_LONGEST_SCALE = 101
"""The most steps of a scale, such as 0 to 100: the most categories that a server takes."""


class AgreeCommand(ResultCommand, IntervalOption):
    """Measure how far raters agree on items; no judge is asked.

    Examples:
    judged agree ratings.jsonl
    """

    labels: str = arg(
        "LABELS.jsonl",
        "Lines of {item_id, ratings: {rater: category}}; - reads standard input.",
    )
    level: RatingLevel = opt(None, "What may be done with the categories.", RatingLevel.NOMINAL)
    categories: str | None = opt("A,B,C", "All categories in order; else those of the file.")

    def run(self, out: Output) -> Document:
        """Measure, and report."""
        name, items = name_of(self.labels), read_ratings(self.labels)
        named = choose_categories(name, items, self.level, self.categories)
        raters = dict.fromkeys(rater for item in items for rater in item)
        ratings = {rater: [item.get(rater) for item in items] for rater in raters}
        table = RatingTable.of(named, ratings, self.level)
        places: Places = {r"ratings\.raters.*": name, r"ratings\.categories.*": "--categories"}
        with self.connect(places) as (client, _):
            found = client.measure_agreement(table, interval=self.interval_options()).ratings
        if found is None:  # pragma: no cover - the server answers what it is asked
            raise Problem("the server did not answer; is it of an older version?")
        estimates = estimates_of(found)
        out.warn(*found.warnings, *estimate_warnings(estimates))
        two_ratings = of_all(found.n_items, len(items), "item")
        out.show(
            estimates_table("agreement", {n: one for n, one in estimates.items() if one}),
            "",
            f"{two_ratings} {word(found.n_items, 'has', 'have')} two ratings or more; "
            f"{len(found.raters)} raters, {len(found.categories)} categories",
        )
        return {
            **row_of(found, "raters categories n_items"),
            "level": self.level.name.lower(),
            "confusion": list(found.confusion_rows()),
            "agreement": estimates,
        }


def read_ratings(path: str) -> list[dict[str, str]]:
    """Return the rating of each rater as text, for each item. Raises FileError."""
    items: list[dict[str, str]] = []
    line_of: dict[str, int | None] = {}
    empty = "holds no ratings; write lines of {item_id, ratings}"
    for record in input_records(path, empty):
        again = "has the 'item_id' of line {} again; merge their ratings"
        record.refuse_again(line_of, record.identifier("item_id"), again)
        given = record.value("ratings", Mapping[str, str | int | bool | None])
        known = {rater: rating for rater, rating in given.items() if rating is not None}
        for rater, rating in known.items():
            if not str(rating).strip():
                raise record.error(f"has a blank rating of {rater!r}; write null if there is none")
        items.append({r: x if isinstance(x, str) else json.dumps(x) for r, x in known.items()})
    if not any(items):
        raise FileError(name_of(path), None, empty)
    return items


def choose_categories(
    name: str, items: Sequence[dict[str, str]], level: RatingLevel, given: str | None
) -> list[str]:
    """Return the categories in order: those given, else those of the file. Raises Problem.

    Whole numbers are in numeric order, and on a scale the ones in between are categories too.
    Other categories must be given if their order matters.
    """
    found = sorted({rating for item in items for rating in item.values()})
    if given is not None:
        named = [category.strip() for category in given.split(",")]
        if unknown := [category for category in found if category not in named]:
            raise Problem(
                f"--categories {given}: {name} has {unknown[0]!r} too; add it in its place"
            )
        return named
    whole = [category for category in found if re.fullmatch("0|-?[1-9][0-9]*", category)]
    if whole == found:
        numbers = sorted(map(int, whole))
        if level is not RatingLevel.NOMINAL:
            if numbers[-1] - numbers[0] >= _LONGEST_SCALE:
                raise Problem(
                    f"--level {level.name.lower()}: {name} has numbers from {numbers[0]} to "
                    f"{numbers[-1]}, and a scale has at most {_LONGEST_SCALE} steps; round "
                    "them, or list the categories in order with --categories"
                )
            numbers = list(range(numbers[0], numbers[-1] + 1))
        return list(map(str, numbers))
    if level is not RatingLevel.NOMINAL:
        raise Problem(
            f"--level {level.name.lower()}: say the order of the categories of {name} with "
            f"--categories {','.join(found)}"
        )
    return found


class LabelCommand(ResultCommand):
    """Label the items that the judge is unsure of.

    The labels then correct estimates from the judge's verdicts.

    Examples:
    judged label results.jsonl -n 100 -o labels.jsonl
    judged label results.jsonl -o labels.jsonl --summary --json summary.json
    """

    results: str = arg("RESULTS.jsonl", "What `judged judge --output` wrote: lines with verdicts.")
    output: str = opt(
        "LABELS.jsonl",
        "The labels, those of before included.",
        writes=True,
        required=True,
    )
    number: int = opt("N", "How many items to label.", 100, low=1)
    random_share: float = opt(
        "X",
        "Share of the labels that is drawn evenly, not by how unsure the judge is.",
        RANDOM_SHARE,
        low=0.01,
        high=1.0,
    )
    draw_seed: int = opt("N", "Of the draw; the same for all who label.", 0, low=0)
    summary: bool = flag("Label nothing; show what the labels say.")
    confidence: float = opt("X", "Confidence of the intervals.", 0.95)

    def run(self, out: Output) -> Document:
        """Draw items, take labels, and show the estimates from them."""
        judged = Judged.read(self.results, self.random_share, self.draw_seed)
        drawn, items = judged.drawn(self.number), len(judged.items)
        chances = judged.probabilities(self.number)
        labels = LabelFile.read(self.output, judged.items, chances)
        if judged.missing:
            out.warn(
                f"{plural(judged.missing, 'line')} without a verdict; the estimates do not cover "
                "them"
            )
        if not self.summary:
            _on_screen(drawn, labels, chances)
        if all(label.relevant is None for label in labels.labels.values()):
            out.show(f"there are no labels in {self.output} yet")
            return {"labels": 0, "items": items, "means": {}}
        with self.connect() as (client, _):
            found = summarize(client, judged, labels, self.confidence)
        out.warn(*found.warnings, *shared_warnings("corrected mean", found.means))
        out.show(corrected_table(found.means))
        return {
            "labels": len(labels.labels),
            "items": items,
            **row_of(found, "counted means"),
        }


def _on_screen(drawn: Sequence[Item], labels: LabelFile, chances: Mapping[str, float]) -> None:
    lacks = None if find_spec("textual") else "textual: pip install 'judged[label]'"
    if lacks is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        lacks = "a terminal; --summary does not"
    if lacks is not None:
        raise Problem(f"the screen needs {lacks}")
    from judged.cli.label_screen import LabelScreen  # noqa: PLC0415 - of an extra

    LabelScreen(drawn, labels, chances.__getitem__).run()
