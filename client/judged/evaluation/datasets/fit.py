"""How the queries of a data set and those of results fit each other, and what to mind of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from judged._views import of_all, word


@dataclass(frozen=True, slots=True)
class Example:
    """How many there are, and the id of the first of them."""

    count: int = 0
    query_id: str = ""

    @classmethod
    def of(cls, query_ids: Iterable[str]) -> Example:
        """Return how many ids there are, and the first."""
        ids = list(query_ids)
        return cls(len(ids), ids[0] if ids else "")

    def and_also(self, query_id: str) -> Example:
        """Return the same with one more."""
        return Example(self.count + 1, self.query_id if self.count else query_id)


@dataclass(frozen=True, slots=True)
class Fit:
    """How the queries of a data set and those of results fit each other.

    `missing` are queries without results, `unknown` results for no query of the data set, `rising`
    results whose scores rise with rank, `spelling` what `spelling_warning` says of the first two.
    """

    n_queries: int
    n_results: int
    missing: Example
    unknown: Example
    rising: Example
    spelling: str = ""

    @classmethod
    def of(cls, query_ids: Collection[str], results: Collection[str], rising: Iterable[str]) -> Fit:
        """Return how ids of queries fit those of results, of which some have scores that rise."""
        known, found = set(query_ids), set(results)
        missing = [query_id for query_id in query_ids if query_id not in found]
        unknown = [query_id for query_id in results if query_id not in known]
        return cls(
            *(len(query_ids), len(results), Example.of(missing), Example.of(unknown)),
            *(Example.of(rising), spelling_warning(missing, unknown)),
        )

    @property
    def problem(self) -> str:
        """Why nothing can be measured; "" where any query has results."""
        if not self.n_results:
            return "the results hold no query; write a line for each query of the dataset"
        if self.missing.count < self.n_queries:
            return ""
        return (
            f"no query of the results is in the dataset: {self.unknown.query_id!r} is one of the "
            f"results, {self.missing.query_id!r} one of the dataset; check that they belong "
            "together"
        )

    def warnings(self) -> Iterator[str]:
        """Yield where the two do not fit."""
        if n := self.missing.count:
            yield (
                f"{of_all(n, self.n_queries, 'query', 'queries')} {word(n, 'has', 'have')} no "
                f"results and {word(n, 'counts', 'count')} as having found nothing, for example "
                f"{self.missing.query_id!r}"
            )
        if n := self.unknown.count:
            yield (
                f"{of_all(n, self.n_results, 'query', 'queries')} of the results "
                f"{word(n, 'is', 'are')} not in the data set and left out, for example "
                f"{self.unknown.query_id!r}"
            )
        if self.spelling:
            yield self.spelling
        if n := self.rising.count:
            yield (
                f"{of_all(n, self.n_results, 'query', 'queries')} of the results "
                f"{word(n, 'has', 'have')} scores that rise with rank, for example "
                f"{self.rising.query_id!r}; the given order is the ranking"
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
