"""The flags about traces: what they mean together, and the file that is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from judged import AnswerItem, QueryGroup, ScoredAnswers, Verdicts, traces
from judged._views import plural
from judged.cli.options.asking import KIND
from judged.cli.output.writer import Output, check_writable
from judged.cli.problems import Problem
from judged.values import RubricInfo

NONE = "none"
FLAG = "--judge none"


class TextsKept(StrEnum):
    """What of the texts a trace keeps."""

    FULL = "full"
    HASH = "hash"


TraceFile = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="FILE",
        help="Keep the judgements in this file, beside those it has; with --judge none, take them "
        "from it.",
    ),
]
TraceTexts = Annotated[
    TextsKept | None,
    typer.Option(case_sensitive=False, help="What --trace keeps of the texts; in full by default."),
]
NoJudge = Annotated[
    bool,
    typer.Option(
        "--no-judge", help="As --judge none: judgements come from --trace and the verdict cache."
    ),
]


@dataclass(frozen=True, slots=True)
class Tracing:
    """What the flags ask for. `replays` says that no judge is to run."""

    path: str | None
    replays: bool
    hashed: bool
    judgements: str

    def llm_kind(self, kind: str | None) -> str | None:
        """Return the judge whose flags may be given: without a judge, those of the cache."""
        return KIND if self.replays else kind


def read_tracing(
    kind: str | None,
    trace: str | None,
    texts: TextsKept | None,
    judgements: str | None,
    *,
    no_judge: bool,
) -> Tracing:
    """Return what the flags ask for. Raises Problem where they contradict each other."""
    if no_judge and kind not in {None, NONE}:
        raise Problem(f"--no-judge and --judge {kind} exclude each other; say one of them")
    replays = no_judge or kind == NONE
    if texts is not None and (trace is None or replays):
        raise Problem("--trace-texts: is for a --trace that is written; leave it out")
    if judgements is not None and (trace is None or not replays):
        raise Problem(f"--trace-judge: is for {FLAG} with --trace; leave it out")
    if trace is not None and not replays:
        check_writable(trace, "--trace")
    return Tracing(trace, replays, texts is TextsKept.HASH, judgements or "")


@dataclass(frozen=True, slots=True)
class TraceFlags:
    """The file that judgements are kept in, or taken from in place of a judge."""

    trace: TraceFile = None
    trace_texts: TraceTexts = None
    trace_judge: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Which judgements of a trace --judge none takes, as llm/retrieval_match; needed "
            "when it has several.",
        ),
    ] = None
    no_judge: NoJudge = False

    def tracing(self, kind: str | None) -> Tracing:
        """Return what the flags ask for beside --judge. Raises Problem."""
        texts, judgements = self.trace_texts, self.trace_judge
        return read_tracing(kind, self.trace, texts, judgements, no_judge=self.no_judge)


class KeptTrace:
    """The trace that a command writes, beside what its file has already."""

    def __init__(self, path: str, out: Output, *, hashed: bool) -> None:
        """Read the file, if there is one. Raises FileError."""
        self._path, self._out = path, out
        self._file = traces.TraceFile(path, hashed=hashed)
        out.warn(*self._file.trace.warnings)

    def record(self, groups: Sequence[QueryGroup], verdicts: Verdicts) -> None:
        """Put verdicts into the trace and write the file. Raises FileError."""
        self._file.keep_verdicts(groups, verdicts)
        self._tell()

    def record_scores(
        self, items: Sequence[AnswerItem], found: ScoredAnswers, rubrics: Sequence[RubricInfo]
    ) -> None:
        """Put scores into the trace and write the file. Raises FileError."""
        self._file.keep_scores(items, found.scores, rubrics)
        self._tell()

    def _tell(self) -> None:
        items = plural(len(self._file.trace), "item", "items")
        self._out.note(f"trace {self._path}: {items}")


def kept_trace(tracing: Tracing, out: Output) -> KeptTrace | None:
    """Return the trace to write, None when none is. Raises FileError for a file that is none."""
    if tracing.path is None or tracing.replays:
        return None
    return KeptTrace(tracing.path, out, hashed=tracing.hashed)
