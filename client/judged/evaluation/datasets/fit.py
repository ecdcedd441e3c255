"""How the queries of a data set and those of results fit each other, and what to mind of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from judged._views import of_all, word


@dataclass(frozen=True, slots=True)
class Fit:
    """How the queries of a data set and those of results fit each other.

    `missing` are the queries without results, `unknown` those of results for no query of the data
    set, `rising` those whose scores rise with rank.
    """

    n_queries: int
    n_results: int
    missing: Sequence[str]
    unknown: Sequence[str]
    rising: Sequence[str]

    @classmethod
    def of(cls, query_ids: Collection[str], results: Collection[str], rising: Iterable[str]) -> Fit:
        """Return how ids of queries fit those of results, of which some have scores that rise."""
        known, found = set(query_ids), set(results)
        missing = [query_id for query_id in query_ids if query_id not in found]
        unknown = [query_id for query_id in results if query_id not in known]
        return cls(len(query_ids), len(results), missing, unknown, list(rising))

    @property
    def problem(self) -> str:
        """Why nothing can be measured; "" where any query has results."""
        if not self.n_results:
            return "the results hold no query; write a line for each query of the dataset"
        if len(self.missing) < self.n_queries:
            return ""
        return (
            f"no query of the results is in the dataset: {self.unknown[0]!r} is one of the "
            f"results, {self.missing[0]!r} one of the dataset; check that they belong together"
        )

    def warnings(self) -> Iterator[str]:
        """Yield where the two do not fit."""
        if n := len(self.missing):
            yield (
                f"{of_all(n, self.n_queries, 'query', 'queries')} {word(n, 'has', 'have')} no "
                f"results and {word(n, 'counts', 'count')} as having found nothing, for example "
                f"{self.missing[0]!r}"
            )
        if n := len(self.unknown):
            yield (
                f"{of_all(n, self.n_results, 'query', 'queries')} of the results "
                f"{word(n, 'is', 'are')} not in the data set and left out, for example "
                f"{self.unknown[0]!r}"
            )
        if told := spelling_warning(self.missing, self.unknown):
            yield told
        if n := len(self.rising):
            yield (
                f"{of_all(n, self.n_results, 'query', 'queries')} of the results "
                f"{word(n, 'has', 'have')} scores that rise with rank, for example "
                f"{self.rising[0]!r}; the given order is the ranking"
            )


def spelling_warning(missing: Iterable[str], unknown: Iterable[str]) -> str:
    """Return what to mind of ids of queries that differ by spelling alone, "" where none do."""
    found = {_plain(name): name for name in unknown}
    for name in missing if found else ():
        if (other := found.get(_plain(name))) is not None:
            return (
                f"the results have query {other!a}, and none of them is of {name!a}; write both "
                "alike if they are one query"
            )
    return ""


def _plain(name: str) -> str:
    """Return an id without what spells one id in several ways: case, forms, punctuation, `.0`."""
    text = unicodedata.normalize("NFKC", name).casefold().strip().removesuffix(".0")
    return re.sub(r"[\W_]+", "", text).lstrip("0") or text
