"""A trace that is kept in its file while judgements come in.

What a judgement is made of is in `recording`, the file's format in `trace`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from judged.traces.recording import record_scores, record_verdicts
from judged.traces.trace import Trace
from judged.values import AnswerItem, AnswerScore, QueryGroup, RubricInfo, Verdicts


class TraceFile:
    """A file of judgements that grows: what is kept stands beside what it has, as `--trace` does.

    `trace` is what the file holds. Pass it to `evaluate_answers`, or keep verdicts by yourself.
    """

    def __init__(self, path: Path | str, *, hashed: bool = False) -> None:
        """Read the file, if there is one; `hashed` writes no texts, only what finds them again.

        Raises FileError for a file that is no trace.
        """
        self._path = Path(path)
        self._hashed = hashed
        self.trace = Trace.read(path) if self._path.exists() else Trace(str(path))

    def keep_verdicts(self, groups: Sequence[QueryGroup], verdicts: Verdicts) -> None:
        """Put the verdicts of groups into the file; ask for details to keep rationales too.

        Raises FileError when it can't be written.
        """
        record_verdicts(self.trace, groups, verdicts)
        self.trace.write(self._path, hashed=self._hashed)

    def keep_scores(
        self,
        items: Sequence[AnswerItem],
        scores: Sequence[AnswerScore],
        rubrics: Sequence[RubricInfo],
    ) -> None:
        """Put the scores of items into the file; `rubrics` are those of the server.

        Raises FileError when it can't be written.
        """
        record_scores(self.trace, items, scores, rubrics)
        self.trace.write(self._path, hashed=self._hashed)
