"""The plugin for pytest: a server for the session, evaluations as a fixture, one table at the end.

With pytest-xdist all workers share one server. It is started when the first test needs it: workers
ask for its address at a socket of the process that controls them.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from judged._views import aligned
from judged.evaluation.result import EvaluationResult

Evaluate = Callable[..., EvaluationResult]
"""What the fixture `judged_evaluate` is; see there."""

_ROWS = "judged_rows"
_MOST_WORKERS = 128
_ANSWER_S = 90.0
"""Longer than a private server may take to start."""


class Row(NamedTuple):
    """One line of the table: a metric of a test, with its threshold where one was asserted."""

    test: str
    metric: str
    mean: float | None
    interval: str
    n: int
    check: tuple[float, bool] | None
    signature: str
    cost: float | None = None


class SharedServer:
    """The server of a session, started when its address is first asked for."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._address = ""
        self._listener: Listener | None = None

    def address(self) -> str:
        """Return the server's address. Raises Problem when it can't be started."""
        from judged.cli.server import private_server  # noqa: PLC0415 - few tests need it

        with self._lock:
            if not self._address:
                self._address = self._stack.enter_context(private_server())
            return self._address

    def socket_path(self) -> str:
        """Return the path of a socket at which other processes get the address."""
        if self._listener is None:
            self._listener = Listener(family="AF_UNIX", backlog=_MOST_WORKERS)
            threading.Thread(target=self._answer, args=[self._listener], daemon=True).start()
        return str(self._listener.address)

    def _answer(self, listener: Listener) -> None:
        while True:
            with listener.accept() as asked:
                try:
                    said = f"ok {self.address()}"
                except Exception as error:  # noqa: BLE001 - told to the worker, which raises it
                    said = f"no {error}"
                with suppress(OSError):  # the worker has gone
                    asked.send_bytes(said.encode())

    def close(self) -> None:
        """Stop the server."""
        self._stack.close()


def _ask(path: str) -> str:
    """Return the address that the controlling process answers at its socket."""
    with Client(path) as asked:
        said = asked.recv_bytes().decode() if asked.poll(_ANSWER_S) else "no"
    status, _, said = said.partition(" ")
    if status != "ok":
        pytest.fail(said or "the server of the session was not started", pytrace=False)
    return said


@dataclass(eq=False)  # pytest keeps plugins in sets
class _Session:
    """What a process of the session keeps: its server, its rows, what it may still spend."""

    config: pytest.Config
    shared: SharedServer = field(default_factory=SharedServer)
    rows: list[Row] = field(default_factory=list)
    evaluated: list[EvaluationResult] = field(default_factory=list)
    spent: float = 0.0

    @property
    def worker(self) -> dict[str, Any] | None:
        """What xdist handed to this worker; None in the process that controls, or without it."""
        return getattr(self.config, "workerinput", None)

    def pytest_runtest_logreport(self, report: Any) -> None:  # noqa: ANN401 - a report with rows
        """Collect the rows of a test; xdist hands reports to the controlling process."""
        self.rows += [Row(*row) for row in getattr(report, _ROWS, ())]

    def target(self) -> str:
        """Return the address of the server that judges."""
        named: str | None = self.config.getoption("judged_target")
        if named or (named := os.environ.get("JUDGED_TARGET")):
            return named
        return (
            self.shared.address()
            if self.worker is None
            else _ask(self.worker["judged_server_socket"])
        )

    def may_spend(self) -> float | None:
        """Return what is left of this process's share of the limit; None without a limit."""
        limit: float | None = self.config.getoption("judged_max_cost")
        if limit is None:
            return None
        workers = 1 if self.worker is None else int(self.worker["workercount"])
        return limit / workers - self.spent


_SESSION = pytest.StashKey[_Session]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("judged")
    group.addoption(
        "--judged-target",
        metavar="ADDR",
        help="Server that judges: HOST:PORT or unix:PATH. Without it JUDGED_TARGET, else one is "
        "started for the session.",
    )
    group.addoption(
        "--judged-max-cost",
        metavar="X",
        type=float,
        help="The most that language models may cost in the session, in the currency of the "
        "server's prices; workers of xdist get equal shares.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Begin the session."""
    limit = config.getoption("judged_max_cost")
    if limit is not None and not limit > 0:
        raise pytest.UsageError(f"--judged-max-cost {limit:g}: must be above 0")
    session = config.stash[_SESSION] = _Session(config)
    config.pluginmanager.register(session, "judged-session")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the server of the session."""
    if (session := config.stash.get(_SESSION, None)) is not None:
        session.shared.close()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401 - a class of xdist
    """Tell a worker of xdist where to ask for the server's address."""
    node.workerinput["judged_server_socket"] = node.config.stash[_SESSION].shared.socket_path()


@pytest.fixture(scope="session")
def judged_client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield a Client of the session's server."""
    from judged import client  # noqa: PLC0415 - few tests need it
    from judged.cli.output import Problem  # noqa: PLC0415

    try:
        target = request.config.stash[_SESSION].target()
    except Problem as problem:
        pytest.fail(str(problem), pytrace=False)
    with client.Client(target) as connected:
        yield connected


@pytest.fixture
def judged_evaluate(request: pytest.FixtureRequest, judged_client: Any) -> Evaluate:  # noqa: ANN401
    """Return what evaluates: the arguments of `Evaluator.evaluate`.

    `source` and `dataset` may also be paths of files as `judged evaluate` reads them. Each metric
    of what it returns is a line of the table at the end of the session.
    """
    from judged import JudgedError  # noqa: PLC0415 - as above
    from judged.evaluation import Dataset, Evaluator, FileError, Results  # noqa: PLC0415
    from judged.values import Asking  # noqa: PLC0415

    session = request.config.stash[_SESSION]

    def evaluate(
        source: Any,  # noqa: ANN401 - what Evaluator.evaluate takes
        dataset: Dataset | Path | str,
        metrics: list[str] | tuple[str, ...],
        judge: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> EvaluationResult:
        __tracebackhide__ = True
        left = session.may_spend()
        if left is not None:
            if left <= 0:
                pytest.fail(
                    f"--judged-max-cost is used up: {session.spent:g} was spent", pytrace=False
                )
            options.setdefault("asking", Asking(max_cost=left))
        try:
            result = Evaluator(judged_client).evaluate(
                Results.from_jsonl(source) if isinstance(source, str | Path) else source,
                Dataset.load(dataset) if isinstance(dataset, str | Path) else dataset,
                metrics,
                judge,
                **options,
            )
        except (JudgedError, FileError) as error:
            # The message says what to mend; a hundred lines of gRPC's code would bury it.
            raise error.with_traceback(None) from None
        if result.table.warnings:
            pytest.fail("; ".join(result.table.warnings), pytrace=False)
        session.spent += (result.usage and result.usage.cost) or 0.0
        session.evaluated.append(result)
        return result

    return evaluate


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, Any]:
    """Put the rows of a test on its report, which xdist hands to the controlling process."""
    report = yield
    session = item.config.stash.get(_SESSION, None)
    has_checks = "judged.testing" in sys.modules
    if call.when == "call" and session is not None and (session.evaluated or has_checks):
        rows = _rows(item.nodeid, session.evaluated)
        session.evaluated.clear()
        if rows:
            setattr(report, _ROWS, [tuple(row) for row in rows])
    return report


def _rows(test: str, evaluated: list[EvaluationResult]) -> list[Row]:
    from judged import testing  # noqa: PLC0415 - most tests evaluate nothing
    from judged.report.content import ends as ends_of  # noqa: PLC0415
    from judged.values import RubricSummary  # noqa: PLC0415

    checked = {id(c.metric): (c.min_score, c.passed) for c in testing.checks}
    rows = []
    for result in evaluated:
        cost = None if result.usage is None else result.usage.cost
        signature = "" if result.judge is None else result.judge.signature
        for metric in result.table.metrics:
            ends = "" if metric.interval is None else ends_of(metric.interval)
            held = checked.get(id(metric))
            rows.append(Row(test, metric.name, metric.mean, ends, metric.n, held, signature, cost))
            cost = None  # once a result
    for check in testing.checks:
        if isinstance(scored := check.metric, RubricSummary):
            signature = "" if scored.judge is None else scored.judge.signature
            held = check.min_score, check.passed
            rows.append(
                Row(test, scored.rubric, scored.mean, "", scored.counts.ok, held, signature)
            )
    testing.checks.clear()
    return rows


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the metrics into the JUnit file, as properties of its suite."""
    own = session.config.stash.get(_SESSION, None)
    try:
        from _pytest.junitxml import xml_key  # noqa: PLC0415 - no public name writes there
    except ImportError:
        return
    xml = session.config.stash.get(xml_key, None)
    if own is None or xml is None:
        return
    for row in sorted(own.rows, key=_place):
        value = "" if row.mean is None else f"{row.mean:.6f}"
        xml.add_global_property(f"judged:{row.test}:{row.metric}", value)
    for signature in sorted({row.signature for row in own.rows if row.signature}):
        xml.add_global_property("judged:signature", signature)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show one table of everything that was evaluated."""
    own = terminalreporter.config.stash.get(_SESSION, None)
    if own is None or not own.rows:
        return
    terminalreporter.section("judged")
    for line in table(own.rows):
        terminalreporter.write_line(line)
    costs = [row.cost for row in own.rows if row.cost is not None]
    if costs:
        terminalreporter.write_line(f"language models cost {sum(costs):.6g}")


def table(rows: list[Row]) -> list[str]:
    """Return the lines of the table."""
    cells = [("test", "metric", "mean", "interval", "n", "min_score", "")]
    for row in sorted(rows, key=_place):
        least, passed = row.check or (None, None)
        cells.append(
            (
                row.test,
                row.metric,
                "-" if row.mean is None else f"{row.mean:.4f}",
                row.interval,
                str(row.n),
                "" if least is None else f"{least:g}",
                {True: "held", False: "fell short", None: ""}[passed],
            )
        )
    return aligned(cells, left={0, 1, 6})


def _place(row: Row) -> tuple[str, str]:
    return row.test, row.metric
