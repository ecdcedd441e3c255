"""`judged agree` and `judged label`: how far raters agree, and items for people to look at.

The numbers are the server's; which items these are is up to `judged.labelling`.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec

from judged import RatingLevel, RatingTable
from judged._files import FileError, Record
from judged._views import of_all, plain, plural, word
from judged.cli.frame import Document, arg, flag, opt
from judged.cli.gates import MethodOption
from judged.cli.inputs import input_records, name_of
from judged.cli.output import Output, Problem, Table, say
from judged.cli.server import ResultCommand
from judged.cli.tables import (
    corrected_table,
    estimate_warnings,
    estimates_table,
    more_labels,
)
from judged.labelling import Item, Judged, Label, LabelFile, read_csv, write_csv
from judged.labelling.items import RANDOM_SHARE
from judged.labelling.summary import summarize
from judged.values import Agreement
from judged.values.intervals import estimates_of, shared_warnings

_MOST_CATEGORIES = 100


@dataclass(frozen=True, slots=True)
class RatedItems:
    """What a file says: all raters in the order of their first rating, and one dict an item."""

    name: str
    raters: Sequence[str]
    items: Sequence[dict[str, str]]

    @property
    def categories(self) -> list[str]:
        """The categories that occur, sorted."""
        return sorted({rating for item in self.items for rating in item.values()})


@dataclass(kw_only=True)
class AgreeCommand(ResultCommand, MethodOption):
    """Tell how far raters agree on items; no judge is asked.

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
        rated = read_ratings(self.labels)
        if len(rated.raters) < 2:
            raise Problem(f"{rated.name}: has one rater, {rated.raters[0]!r}; agreement needs two")
        named = choose_categories(rated, self.level, self.categories)
        if self.level is RatingLevel.ORDINAL and self.categories is None:
            out.warn(*_gaps(named))
        ratings = {rater: [item.get(rater) for item in rated.items] for rater in rated.raters}
        table = RatingTable.of(named, ratings, self.level)
        with self.connect() as server:
            measured = server.client.measure_agreement(table, interval=self.how_sure())
        found = measured.ratings
        if found is None:  # pragma: no cover - the server answers what it is asked
            raise Problem("the server did not answer; is it of an older version?")
        estimates = estimates_of(found)
        out.warn(*found.warnings, *estimate_warnings(estimates))
        shown = {n: one for n, one in estimates.items() if _applies(n, found, self.level)}
        out.show(estimates_table("agreement", shown), "", _describe(found, rated))
        if found.confusion:
            out.show("", confusion_table(found))
        return {
            "raters": list(found.raters),
            "categories": list(found.categories),
            "level": self.level.name.lower(),
            "n_items": found.n_items,
            "confusion": [list(row) for row in found.confusion_rows()],
            "agreement": plain(estimates),
        }


def read_ratings(path: str) -> RatedItems:
    """Return the ratings of a file, or of standard input for "-". Raises FileError."""
    name = name_of(path)
    raters: dict[str, None] = {}
    items: list[dict[str, str]] = []
    seen: dict[str, int | None] = {}
    for record in input_records(path):
        item_id = record.identifier("item_id")
        problem = "has the 'item_id' of line {} again; merge their ratings"
        record.refuse_again(seen, item_id, problem)
        ratings = record.get("ratings")
        if not isinstance(ratings, dict):
            raise record.error("has no 'ratings', an object of {rater: category}")
        item = {}
        for rater, rating in ratings.items():
            if rating is None:
                continue
            if not rater:
                raise record.error("has a rater without a name in 'ratings'")
            item[rater] = _category(record, rater, rating)
            raters.setdefault(rater)
        items.append(item)
    if not raters:
        raise FileError(name, None, "holds no ratings; write lines of {item_id, ratings}")
    return RatedItems(name, list(raters), items)


def _category(record: Record, rater: str, rating: object) -> str:
    """Return a rating as text: a string, a whole number, or true and false."""
    if isinstance(rating, bool):
        return "true" if rating else "false"
    if isinstance(rating, int):
        return str(rating)
    if not isinstance(rating, str) or not rating:
        raise record.error(
            f"has a rating by {rater!r} that is no category: use text, a whole number, true or "
            "false, or null for none"
        )
    return rating


def choose_categories(rated: RatedItems, level: RatingLevel, given: str | None) -> list[str]:
    """Return the categories in order: those given, else those of the file. Raises Problem.

    Whole numbers have an order of their own; at the interval level those between are categories
    too. Other categories must be given where their order matters.
    """
    found = rated.categories
    if given is not None:
        named = [category.strip() for category in given.split(",")]
        if any(named.count(category) > 1 or not category for category in named):
            raise Problem(f"--categories {given}: name each category once, with commas between")
        unknown = [category for category in found if category not in named]
        if unknown:
            raise Problem(
                f"--categories {given}: {rated.name} has {unknown[0]!r} too; add it in its place"
            )
    else:
        named = _natural(rated, found, level)
    if len(named) < 2:
        raise Problem(
            f"{rated.name}: all ratings are {found[0]!r}; name the categories that could have "
            "been given with --categories"
        )
    if len(named) > _MOST_CATEGORIES:
        raise Problem(
            f"{rated.name}: has {len(named)} categories; at most {_MOST_CATEGORIES} are compared, "
            "so put numbers into ranges first"
        )
    return named


def _natural(rated: RatedItems, found: list[str], level: RatingLevel) -> list[str]:
    numbers = [int(c) for c in found if c.removeprefix("-").isdecimal() and c.isascii()]
    if len(numbers) == len(found) and len({str(n) for n in numbers} & set(found)) == len(found):
        numbers.sort()
        if level is RatingLevel.INTERVAL and numbers[-1] - numbers[0] < _MOST_CATEGORIES:
            numbers = list(range(numbers[0], numbers[-1] + 1))
        return [str(n) for n in numbers]
    if level is not RatingLevel.NOMINAL:
        raise Problem(
            f"--level {level.name.lower()}: say the order of the categories of {rated.name} with "
            f"--categories {','.join(found)}"
        )
    return found


def _gaps(scale: Sequence[str]) -> list[str]:
    """Return what to know of a scale of whole numbers of which nobody gave some."""
    whole = range(int(scale[0]), int(scale[-1]) + 1)
    unused = next((n for n in whole if str(n) not in scale), None)
    if unused is None:
        return []
    named = f"--categories {','.join(map(str, whole[:_MOST_CATEGORIES]))}"
    told = f"no rating is {unused}, so that the categories beside it count as one step apart"
    return [f"{told}; if it could have been given, pass {named}"]


def confusion_table(found: Agreement) -> Table:
    """Return the items of two raters by both their categories, the first's as rows."""
    first, second = found.raters
    counts = found.confusion_rows()
    counts = [*counts, [sum(column) for column in zip(*counts, strict=True)]]
    names = [*found.categories, "all"]
    rows = [[name, *map(str, row), str(sum(row))] for name, row in zip(names, counts, strict=True)]
    return Table([f"{first} \\ {second}", *names], rows)


def _applies(name: str, found: Agreement, level: RatingLevel) -> bool:
    if name == "cohen_kappa":
        return len(found.raters) == 2
    if name in {"linear_kappa", "quadratic_kappa"}:
        return len(found.raters) == 2 and level is not RatingLevel.NOMINAL
    return True


def _describe(found: Agreement, rated: RatedItems) -> str:
    return (
        f"{of_all(found.n_items, len(rated.items), 'item', 'items')} "
        f"{word(found.n_items, 'has', 'have')} two ratings or more; "
        f"{len(found.raters)} raters, {len(found.categories)} categories"
    )


@dataclass(kw_only=True)
class LabelCommand(ResultCommand):
    """Label the items that the judge is unsure of.

    What it says is then corrected by these labels.

    Examples:
    judged label results.jsonl -n 100 -o labels.jsonl
    judged label results.jsonl -o labels.jsonl --to-csv to_label.csv
    judged label results.jsonl -o labels.jsonl --summary --json summary.json
    """

    results: str = arg("RESULTS.jsonl", "What `judged judge --output` wrote: lines with verdicts.")
    output: str = opt(
        "LABELS.jsonl",
        "The labels, those of before included.",
        None,
        *("--output", "-o"),
        writes=True,
        required=True,
    )
    number: int = opt("N", "How many items to label.", 100, "--number", "-n", low=1)
    annotator: str | None = opt("NAME", "Who labels; your user name by default.")
    random_share: float = opt(
        "X",
        "Share of the labels that is drawn evenly, not by how unsure the judge is.",
        RANDOM_SHARE,
        low=0.01,
        high=1.0,
    )
    draw_seed: int = opt("N", "Of the draw; the same for all annotators.", 0, low=0)
    to_csv: str | None = opt(
        "FILE.csv", "Write the drawn items as a table to fill in.", writes=True
    )
    from_csv: str | None = opt("FILE.csv", "Read labels from such a table.", reads=True)
    summary: bool = flag("Label nothing; show what the labels say.")
    confidence: float | None = opt("X", "Confidence of the intervals; 0.95.", low=0.5, high=0.9999)

    def run(self, out: Output) -> Document:
        """Draw, take labels, and say what they are worth."""
        if sum((self.to_csv is not None, self.from_csv is not None, self.summary)) > 1:
            raise Problem(
                "--to-csv, --from-csv and --summary exclude each other; use one at a time"
            )
        who = self.annotator or getpass.getuser()
        judged = Judged.read(self.results, self.random_share, self.draw_seed)
        drawn, items = judged.drawn(self.number), len(judged.items)
        chances = judged.probabilities(self.number)
        labels = LabelFile.read(self.output, judged.items, chances)
        if judged.missing:
            out.warn(
                f"{plural(judged.missing, 'line', 'lines')} without a verdict; the labels speak of "
                "the others alone"
            )
        if self.to_csv is not None:
            write_csv(self.to_csv, drawn, labels.of(who))
            out.show(f"{len(drawn)} of {items} items written to {self.to_csv}")
            return {"written": len(drawn), "items": items}
        step = ""
        if self.from_csv is not None:
            read = _take_csv(self.from_csv, labels, who, chances)
            say(f"{plural(read, 'label', 'labels')} of {who} read from {self.from_csv}")
            step = f"; write y or n into the column `label` of {self.from_csv}"
        elif not self.summary:
            _on_screen(drawn, labels, who, chances)
        if all(label.relevant is None for label in labels.labels):
            out.show(f"there are no labels in {self.output} yet{step}")
            return {"labels": 0, "items": items, "means": {}}
        with self.connect() as server:
            found = summarize(server.client, judged, labels, self.confidence)
        out.warn(*found.warnings, *shared_warnings("corrected mean", found.means))
        out.show(corrected_table(found.means))
        if told := more_labels(found.means):
            out.show("", told)
        return {
            "labels": len(labels.labels),
            "counted": found.counted,
            "items": items,
            "annotators": labels.annotators,
            "means": {name: asdict(mean) for name, mean in found.means.items()},
        }


def _take_csv(path: str, labels: LabelFile, who: str, chances: Mapping[str, float]) -> int:
    """Put the labels of a table in place of those that the annotator has; return how many."""
    now = datetime.now(UTC).replace(microsecond=0)
    read: dict[str, Label] = {}
    for line, item_id, relevant, note in read_csv(path):
        if item_id not in labels.items:
            raise Problem(f"{path}:{line}: no judged line has the id {item_id!r}")
        read[item_id] = Label(item_id, who, relevant, now, chances[item_id], note)
    labels.add(*read.values())
    return len(read)


def _on_screen(
    drawn: Sequence[Item], labels: LabelFile, who: str, chances: Mapping[str, float]
) -> None:
    if find_spec("textual") is None:
        raise Problem(
            "the screen needs textual: pip install 'judged[label]'; or use --to-csv and --from-csv"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Problem("the screen needs a terminal; use --to-csv and --from-csv, or --summary")
    from judged.labelling.screen import LabelScreen  # noqa: PLC0415 - of an extra

    LabelScreen(drawn, labels, who, chances.__getitem__).run()
