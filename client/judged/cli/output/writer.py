"""Where results and remarks go: results to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from judged._writing import replacing_text
from judged.cli.output.json_document import document_texts
from judged.cli.output.table_width import VisibleTable, fitting
from judged.cli.problems import Problem
from judged.evaluation.datasets.files import FileWarning
from judged.report.texts import visible
from judged.values import VerdictError

Report = Callable[[int, int], object]
"""Called with what is done and what there is in all."""

STDOUT = "-"
UNANSWERED = 0
"""The code of an error that no server gave."""
_QUICK_S, _LONG_S = 1.0, 30.0
_WIDE = 1000
"""Characters a line may have where there is no terminal."""


class Output:
    """One command's output. `json_to` is the value of `--json`."""

    def __init__(self, json_to: str | None, *, strict: bool = False) -> None:
        self._json_to = json_to
        self._strict = strict
        self._in_vain = False
        self._unanswered = 0
        self.warnings: list[str] = []
        check_writable(json_to, "--json")

    @property
    def strict(self) -> bool:
        """Whether a warning counts as falling short."""
        return self._strict

    @property
    def takes_stdout(self) -> bool:
        """Whether the JSON document takes the place of the usual output."""
        return self._json_to == STDOUT

    def note(self, message: str) -> None:
        """Say something on standard error."""
        say(message)

    def warn(self, *messages: str) -> None:
        """Say on standard error what may be wrong with the result; `--strict` makes it count."""
        for message in messages:
            self.warnings.append(message)
            self.note(f"warning: {message}")

    @contextmanager
    def told_misspellings(self) -> Iterator[None]:
        """Tell of fields in files whose names are nearly right, as warnings of the command."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FileWarning)
            try:
                yield
            finally:
                told = (str(w.message) for w in caught if issubclass(w.category, FileWarning))
                self.warn(*dict.fromkeys(told))  # a file may be read twice

    @property
    def writes_json(self) -> bool:
        """Whether the JSON document was asked for."""
        return self._json_to is not None

    def write_json(self, document: Mapping[str, object]) -> None:
        """Write the JSON document, if one was asked for; Items are written as they come."""
        if self._json_to is not None:
            with open_output(self._json_to, "--json") as file:
                for text in document_texts(document):
                    file.write(text)

    def show(self, *parts: RenderableType) -> None:
        """Print tables and lines on standard output, unless the JSON document goes there."""
        if self.takes_stdout:
            return
        parts = tuple(visible(part) if isinstance(part, str) else part for part in parts)
        with _standard_output() as stream:
            # Ids and texts of the user are printed as they are: no markup, emoji, colouring.
            console = Console(file=stream, markup=False, emoji=False, highlight=False)
            if console.is_terminal:
                for part in parts:
                    _show_on_terminal(console, part)
                return
            # A file or a pipe has no width to keep to, and no use for blanks at ends of lines.
            console.width = _WIDE
            with console.capture() as capture:
                console.print(*parts, sep="\n", soft_wrap=True)
            for line in capture.get().removesuffix("\n").split("\n"):
                stream.write(line.rstrip() + "\n")

    def count(self, *, failed: int, total: int, errors: Iterable[VerdictError] = ()) -> None:
        """Take note of how many of all verdicts failed: the command fails where all of them did.

        It also fails where one of the `errors` is that the server never answered.
        """
        self._in_vain = 0 < total == failed
        self._unanswered = sum(error.code == UNANSWERED for error in errors)

    def finish(self, *, fell_short: bool = False, not_assessed: bool = False) -> None:
        """End the command: with 2 if every verdict failed, with 1 if the thing measured fell short.

        With 2 too if some had no answer from the server, or if there is a gate on what could not be
        assessed at all. A warning counts as falling short where the command is strict.
        """
        if self._in_vain:
            self.note("every verdict failed, so this is no result; the warnings say why")
            raise typer.Exit(2)
        if self._unanswered:
            self.note(f"{self._unanswered} had no answer from the server; the warnings say why")
            raise typer.Exit(2)
        if not_assessed:
            raise typer.Exit(2)
        if fell_short or (self._strict and self.warnings):
            raise typer.Exit(1)


def say(message: str) -> None:
    """Write a remark on standard error: one line, whatever texts of others it holds."""
    line = visible(message).replace("\n", " ")
    sys.stderr.write(f"judged: {line}\n")


def _show_on_terminal(console: Console, part: RenderableType) -> None:
    """Print a table as wide as the terminal at most, and anything else in lines as they are."""
    if not isinstance(part, Table):
        console.print(part, soft_wrap=True)
        return
    for i, view in enumerate(fitting(part, console.width)):
        if i:
            console.print()
        console.print(view)


def new_table(first: str, *others: str, names: int = 1) -> Table:
    """Return an empty table: the first `names` columns name a row, the rest are numbers or words.

    Names fold on a narrow terminal, numbers and words only where they alone are wider than it.
    """
    view = VisibleTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    view.add_column(first, overflow="fold")
    for i, name in enumerate(others, start=1):
        view.add_column(name, justify="right", no_wrap=i >= names, overflow="fold")
    return view


@contextmanager
def progress_bar(title: str, total: int) -> Iterator[Report | None]:
    """Yield what to call with (done, total); None when nobody watches standard error.

    The bar, with the time that is left, appears once the work has taken a second and something is
    done. Without one, a line after half a minute says what the command may wait for.
    """
    waiting = threading.Timer(
        _LONG_S,
        lambda: typer.echo(
            f"still {title}, {total} in all, after {_LONG_S:.0f} s; a model that is asked may be "
            "slow or away: the server's log says which",
            err=True,
        ),
    )
    waiting.daemon = True
    waiting.start()
    try:
        with _bar(title, total, waiting.cancel) as report:
            yield report
    finally:
        waiting.cancel()


@contextmanager
def _bar(title: str, total: int, shown: Callable[[], None]) -> Iterator[Report | None]:
    if not sys.stderr.isatty():
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task(title, total=total)
    begun = time.monotonic()

    def report(done: int, in_all: int) -> None:
        progress.update(task, completed=done, total=in_all)
        if not progress.live.is_started and time.monotonic() - begun >= _QUICK_S:
            shown()
            progress.start()

    try:
        yield report
    finally:
        if progress.live.is_started:
            progress.stop()


@contextmanager
def _standard_output() -> Iterator[TextIO]:
    """Yield standard output, and flush it. Raises Problem; BrokenPipeError if nobody reads."""
    if sys.stdout is None:
        raise Problem("standard output is closed; send it to a file, or to /dev/null")
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # What is left in the buffer can't be written at the end either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Problem(f"standard output: can't be written: {error.strerror or error}") from None


def check_writable(target: str | None, flag: str) -> None:
    """Raise Problem when an output can't be written, before the work that it is to hold."""
    if target is None or target == STDOUT:
        return
    path = Path(target)
    if path.is_dir():
        raise Problem(f"{flag} {target}: is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise Problem(f"{flag} {target}: there is no folder {path.parent}; create it first")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        raise Problem(f"{flag} {target}: can't be written here; name a file in another folder")


def check_apart(
    inputs: Mapping[str, str | Path | None] | None = None, **targets: str | None
) -> None:
    """Raise Problem when an output would replace an input, or what an earlier output wrote.

    `inputs` are the files that are read by their names in the help, `targets` the values of the
    flags of outputs by the flags' names.
    """
    taken = {_identity(path): name for name, path in (inputs or {}).items() if _is_file(path)}
    for name, target in targets.items():
        if not _is_file(target):
            continue
        flag = f"--{name.replace('_', '-')}"
        first = taken.setdefault(_identity(target), flag)
        if first != flag:
            raise Problem(f"{flag} {target}: is the file of {first} too; name another one")


def _is_file(path: str | Path | None) -> bool:
    return path is not None and path != STDOUT and not Path(path).is_char_device()


def _identity(path: str | Path | None) -> Path:
    return Path(path or "").resolve()


@contextmanager
def open_output(target: str, flag: str) -> Iterator[TextIO]:
    """Open a file for writing, or standard output for "-". Raises Problem."""
    if target == STDOUT:
        with _standard_output() as stream:
            yield stream
        return
    try:
        with replacing_text(target) as file:
            yield file
    except OSError as error:
        raise Problem(f"{flag} {target}: can't be written: {error.strerror or error}") from None
