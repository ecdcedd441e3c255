"""What may stand for a judge where judgements exist already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from judged.types import QueryGroup, RubricInfo, Verdicts

Record = Callable[[Sequence[QueryGroup], Verdicts], object]
"""Is told the groups that were judged, with their verdicts."""


@runtime_checkable
class RecordedJudge(Protocol):
    """Gives the verdicts of groups from what was recorded of them."""

    def verdicts(
        self, groups: Sequence[QueryGroup], rubrics: Sequence[RubricInfo]
    ) -> Verdicts | None:
        """Return a verdict for each context; None when there is nothing to judge.

        `rubrics` are those of the server, of which a recorded rubric must be one.
        """
        ...
