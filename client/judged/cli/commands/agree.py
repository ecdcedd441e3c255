"""`judged agree`: how far raters agree.

The numbers are the server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from judged import RatingLevel, RatingTable
from judged._views import of_all, word
from judged.cli.frame import Document, arg, opt
from judged.cli.inputs import input_records, name_of
from judged.cli.measuring import MethodOption
from judged.cli.output import Output, new_table
from judged.cli.problems import Problem
from judged.cli.server import ResultCommand
from judged.cli.tables import estimate_warnings, estimates_document, estimates_table
from judged.evaluation.datasets.files import FileError, Record
from judged.values import Agreement
from judged.values.intervals import estimates_of

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
            "agreement": estimates_document(estimates),
        }


def read_ratings(path: str) -> RatedItems:
    """Return the ratings of a file, or of standard input for "-". Raises FileError."""
    name = name_of(path)
    raters: dict[str, None] = {}
    items: list[dict[str, str]] = []
    seen: dict[str, int] = {}
    for number, record in input_records(path):
        item_id = record.identifier("item_id")
        first = seen.setdefault(item_id, number)
        if first != number:
            raise record.error(f"has the 'item_id' of line {first} again; merge their ratings")
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
    view = new_table(f"{first} \\ {second}", *found.categories, "all")
    rows = found.confusion_rows()
    for category, row in zip(found.categories, rows, strict=True):
        view.add_row(category, *(str(count) for count in row), str(sum(row)))
    columns = [sum(column) for column in zip(*rows, strict=True)]
    view.add_row("all", *(str(count) for count in columns), str(sum(columns)))
    return view


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
