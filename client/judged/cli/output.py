"""Output of commands, their exit status, and errors in words of the command line.

Results go to standard output, everything else to standard error.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from threading import Timer
from typing import Any, TextIO

import click
from click.exceptions import Exit

from judged import errors
from judged._files import replacing_text
from judged._views import aligned, plain, row_of
from judged.report.content import number, visible
from judged.values import Estimate, VerdictError

Progress = Callable[[int, int], object]
"""Called with the number done and the total."""

STDOUT = "-"
UNANSWERED = 0
"""The code of an error that did not come from a server."""
_LONG_S = 30.0
_GAP = 3
"""Characters between two columns of a table."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One gate: its flag, the metric (empty for negatives) and the number."""

    flag: str
    metric: str
    threshold: float

    def __str__(self) -> str:
        if self.flag == "--min-score" and not self.metric:
            return "--min-score of lines"
        named = self.metric if self.flag != "--min-coverage" else ""
        return f"{self.flag} {named}{'=' if named else ''}{self.threshold:g}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a gate, and the sentence about it.

    `value` is the mean, drop, count or share; None if there is no mean. `worst` is the worst case
    if values are missing, and is then compared with the threshold; None if nothing is missing.
    Without `assessed` there was nothing to compare.
    """

    gate: Gate
    value: float | None
    passed: bool
    message: str
    worst: float | None = None
    assessed: bool = True

    def to_dict(self) -> dict[str, object]:
        """Return the entry of the JSON document."""
        return {
            "gate": self.gate.flag.removeprefix("--").replace("-", "_"),
            "metric": self.gate.metric or None,
            "threshold": self.gate.threshold,
            "worst_case": self.value if self.worst is None else self.worst,
            **row_of(self, "value passed message"),
        }


class Items(list[Any]):
    """A long list of a document, whose items are made as they are written."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._rest = iter(values)
        super().__init__(islice(self._rest, 1))  # the encoder tests for emptiness

    def __iter__(self) -> Iterator[Any]:
        return chain(super().__iter__(), self._rest)


class NamedItems(dict[str, Any]):
    """A long object of a document, whose values are made as they are written."""

    def __init__(self, values: Iterable[tuple[str, Any]]) -> None:
        self._rest = iter(values)
        super().__init__(islice(self._rest, 1))

    def items(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]  # no view
        """Yield names and values, once."""
        return chain(super().items(), self._rest)


class Problem(Exception):
    """A command can't continue. The message is one line and says what to do."""


class Output:
    """A command's output. `json_to` is the value of `--json`; `strict` makes warnings failures.

    `gates` decide at the end; `failed` means that there is no result, `worse` that it is worse.
    """

    def __init__(self, json_to: str | None, *, strict: bool = False) -> None:
        self._json_to = json_to
        self.strict = strict
        self.warnings: list[str] = []
        self.gates: list[Outcome] = []
        self.failed = self.worse = False
        self._why = ""

    @property
    def takes_stdout(self) -> bool:
        """Whether the JSON document takes the place of the usual output."""
        return self._json_to == STDOUT

    @property
    def writes_json(self) -> bool:
        """Whether the JSON document was asked for."""
        return self._json_to is not None

    def warn(self, *messages: str) -> None:
        """Warn about the result on standard error; with `--strict` the command fails."""
        for message in messages:
            self.warnings.append(message)
            say(f"warning: {message}")

    def write_json(self, document: Mapping[str, object]) -> None:
        """Write the JSON document, if requested; Items are streamed."""
        if self._json_to is not None:
            _write("--json", self._json_to, document_texts(document))

    def write(self, flag: str, target: str | None, texts: Iterable[str]) -> bool:
        """Write texts to the file of an option, or print them; return whether that was done.

        It is not done without a file, or if the JSON document is printed. Raises Problem.
        """
        if target is None or (target == STDOUT and self.takes_stdout):
            return False
        _write(flag, target, texts)
        return True

    def show(self, *parts: Table | str) -> None:
        """Print tables and lines on standard output, unless the JSON document is printed."""
        if self.takes_stdout:
            return
        with _standard_output() as stream:
            for part in parts:
                text = part if isinstance(part, str) else "\n".join(part.lines())
                for line in visible(text).split("\n"):
                    stream.write(f"{line.rstrip()}\n")

    def count(self, *, failed: int, total: int, errors: Iterable[VerdictError] = ()) -> None:
        """Make the command fail if all verdicts failed, or any had no answer from the server."""
        if unanswered := sum(error.code == UNANSWERED for error in errors):
            self._why = f"{unanswered} had no answer from the server"
        if 0 < total == failed:
            self._why = "every verdict failed, so there is no result"

    def finish(self) -> None:
        """Print a line for each gate, and end the command. Raises Exit.

        Status 2 if every verdict failed, some had no answer, or a gate had nothing to assess; 1 if
        a gate failed, the result is worse, or `strict` meets a warning.
        """
        for outcome in self.gates:
            say(outcome.message)
        if self._why:
            say(f"{self._why}; the warnings say why")
        if self._why or self.failed or not all(outcome.assessed for outcome in self.gates):
            raise Exit(2)
        missed = self.worse or not all(outcome.passed for outcome in self.gates)
        if missed or (self.strict and self.warnings):
            raise Exit(1)


def say(message: str) -> None:
    """Write a remark on standard error, as one line whatever texts it contains."""
    line = visible(message).replace("\n", " ")
    sys.stderr.write(f"judged: {line}\n")


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Progress | None]:
    """Yield a callback for (done, total); None if standard error is not a terminal.

    Then a line after half a minute says what the command may be waiting for.
    """
    if not sys.stderr.isatty():
        message = (
            f"still {title}, {total} in all, after {_LONG_S:.0f} s; a language model may be slow "
            "or unreachable: the server's log says which"
        )
        waiting = Timer(_LONG_S, say, [message])
        waiting.daemon = True
        waiting.start()
        try:
            yield None
        finally:
            waiting.cancel()
        return
    with click.progressbar(length=total, label=title, show_pos=True, file=sys.stderr) as bar:

        def report(done: int, _: int) -> None:
            bar.update(done - bar.pos)

        yield report


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Yield standard output, and flush it. Raises Problem, and BrokenPipeError from `| head`."""
    if sys.stdout is None:
        raise Problem("standard output is closed; send it to a file, or to /dev/null")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Else Python fails again at exit, when it flushes the rest of the buffer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Problem(f"standard output: can't be written: {error.strerror or error}") from None


def check_writable(flag: str, target: str) -> None:
    """Raise Problem if an output can't be written; called before any work is done."""
    path = Path(target)
    there = path if path.exists() else path.absolute().parent
    if target != STDOUT and (path.is_dir() or not os.access(there, os.W_OK)):
        raise Problem(f"{flag} {target}: can't be written; name a file in a folder that is there")


def _write(flag: str, target: str, texts: Iterable[str]) -> None:
    """Write texts to a file, or to standard output for "-". Raises Problem."""
    if target == STDOUT:
        with _standard_output() as stream:
            stream.writelines(texts)
        return
    try:
        with replacing_text(target) as file:
            file.writelines(texts)
    except OSError as error:
        raise Problem(f"{flag} {target}: can't be written: {error.strerror or error}") from None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under their heads.

    Cells are texts, numbers and estimates; None and NaN are a dash. The first `left` columns are
    aligned left, the others right.
    """

    heads: Sequence[str]
    rows: Iterable[Sequence[str | float | Estimate | None]]
    left: int = 1

    @classmethod
    def of(cls, values: Iterable[object], columns: Mapping[str, str], **how: int) -> Table:
        """Return a row for each value; `columns` maps heads to an attribute or a format."""
        reads = [each.format if "{" in each else attrgetter(each) for each in columns.values()]
        return cls([*columns], [[read(value) for read in reads] for value in values], **how)

    def lines(self) -> list[str]:
        """Return the lines of the table."""
        cells = [
            [visible(_cell(cell)).replace("\n", " ") for cell in row]
            for row in (self.heads, *self.rows)
        ]
        heads, *rows = aligned(cells, range(self.left), _GAP)
        return [heads, "─" * max(map(len, [heads, *rows])), *rows]


def _cell(value: str | float | Estimate | None) -> str:
    if isinstance(value, Estimate):
        interval = value.interval
        ends = "" if interval is None else f" [{interval.lower:.4f}, {interval.upper:.4f}]"
        return f"{number(value.value)}{ends}"
    return str(value) if isinstance(value, str | int) else number(value)


def document_texts(document: Mapping[str, object]) -> Iterator[str]:
    """Yield the text of a document in parts, indented by two. Items are streamed.

    Raises ValueError for NaN and infinities.
    """
    written = json.JSONEncoder(ensure_ascii=False, indent=2, allow_nan=False, default=plain)
    return chain(written.iterencode(document), "\n")


Places = dict[str, str | Callable[..., str]]
"""Names of request fields in messages, by patterns of the fields' paths.

A text refers to the groups of its pattern as in `re`; a function gets them as arguments.
"""
_FLAGS: Places = {
    r"judge\.kind": "--judge",
    r'(?:judge|rubrics\[\d+\])\.parameters\["(.*)"\]': r"--param \1",
    r"groups\[\d+\]\.spans": "--judge span, for judged evaluate with 'expected_spans'",
    r"judge\.members(.*)": r"--member or --stage\1",
    r"judge\.calibration.*": "--calibration",
    r"judge\.guarantee.*": "--cascade",
}
"""Fields that have no option of the same name."""


def of_metrics(metrics: Sequence[str]) -> Places:
    """Return the names of requested metrics in messages."""
    named = {r"metrics\[(\d+)\]": lambda place: f"--metric {metrics[int(place)]}"}
    return {"metrics": "--metric", **named}


@contextmanager
def explained(places: Places | None = None) -> Iterator[None]:
    """Turn errors of calls into problems that name flags, and places in files."""
    try:
        yield
    except errors.JudgedError as error:
        raise Problem(explain(error, places or {})) from error


def explain(error: errors.JudgedError, places: Places) -> str:
    """Return an error as one line."""
    message = error.message
    if isinstance(error, errors.InvalidArgument) and (known := known_as(error.field, places)):
        rule = message.removeprefix(f"{error.field}: ")
        return f"{known}: {rule}"
    if isinstance(error, errors.DeadlineExceeded):
        return f"{message}; allow more with --timeout"
    if isinstance(error, errors.InternalError) and error.request_id:
        return f"{message} (request id {error.request_id}, for the log of the server)"
    return message


def known_as(path: str, places: Places) -> str | None:
    """Return the name of a field in messages, None if it has no other name."""
    path = path.removeprefix("start.")  # users of a command see no streams
    for pattern, known in (*places.items(), *_FLAGS.items()):
        if found := re.fullmatch(pattern, path):
            return found.expand(known) if isinstance(known, str) else known(*found.groups())
    return None
