"""The pytest plugin: a server per session, a fixture that evaluates, and a table at the end.

The means of a test are kept in its `user_properties`, which pytest-xdist sends to its controller
and which JUnit files contain.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from judged._views import aligned
from judged.evaluation.result import EvaluationResult

Evaluate = Callable[..., EvaluationResult]
"""The type of the fixture `judged_evaluate`; see there."""

_PREFIX = "judged:"
_EVALUATED = pytest.StashKey[list[EvaluationResult]]()
"""The results that a test has evaluated."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--judged-target`."""
    parser.getgroup("judged").addoption(
        "--judged-target",
        metavar="ADDR",
        help="Server that judges: HOST:PORT or unix:PATH. Without it JUDGED_TARGET, else one is "
        "started for the session, by each worker of pytest-xdist.",
    )


@pytest.fixture(scope="session")
def judged_client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield a Client of the session's server."""
    from judged import FailedPrecondition, client, local  # noqa: PLC0415 - few tests need it

    target = request.config.getoption("judged_target") or os.environ.get("JUDGED_TARGET")
    with ExitStack() as stack:
        try:
            target = target or stack.enter_context(local())
        except (ImportError, FailedPrecondition) as error:
            pytest.fail(f"{error}; or name a server with --judged-target", pytrace=False)
        yield stack.enter_context(client.Client(target))


@pytest.fixture
def judged_evaluate(request: pytest.FixtureRequest, judged_client: Any) -> Evaluate:  # noqa: ANN401
    """Return a function that evaluates, with the arguments of `Evaluator.evaluate`.

    `source` and `dataset` may also be paths of files as `judged evaluate` reads them. Each metric
    of a result is a line of the table at the end of the session.
    """
    from judged import JudgedError  # noqa: PLC0415 - as above
    from judged.evaluation import Dataset, Evaluator, FileError, Results  # noqa: PLC0415

    evaluated = request.node.stash.setdefault(_EVALUATED, [])

    def evaluate(
        source: Any,  # noqa: ANN401 - what Evaluator.evaluate takes
        dataset: Dataset | Path | str,
        metrics: list[str] | tuple[str, ...],
        judge: Any = None,  # noqa: ANN401
        **options: Any,  # noqa: ANN401
    ) -> EvaluationResult:
        __tracebackhide__ = True
        try:
            result = Evaluator(judged_client).evaluate(
                Results.from_jsonl(source) if isinstance(source, str | Path) else source,
                Dataset.load(dataset) if isinstance(dataset, str | Path) else dataset,
                metrics,
                judge,
                **options,
            )
        except (JudgedError, FileError) as error:
            # The message says what to fix; a hundred lines of gRPC traceback would bury it.
            raise error.with_traceback(None) from None
        if result.table.warnings:
            pytest.fail("; ".join(result.table.warnings), pytrace=False)
        evaluated.append(result)
        return result

    return evaluate


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Keep the means of a test, and the outcomes of its checks, with its report."""
    evaluated = item.stash.get(_EVALUATED, [])
    if call.when != "call" or not (evaluated or "judged.testing" in sys.modules):
        return
    from judged import testing  # noqa: PLC0415 - most tests evaluate nothing
    from judged.report.content import ends  # noqa: PLC0415
    from judged.values import RubricSummary  # noqa: PLC0415

    checked = {id(check.metric): check for check in testing.checks}
    rubrics = [c.metric for c in testing.checks if isinstance(c.metric, RubricSummary)]
    rows = [
        *((m.name, m.mean, m.n, m.interval, m) for r in evaluated for m in r.table.metrics),
        *((r.rubric, r.mean, r.counts.ok, None, r) for r in rubrics),
    ]
    for name, mean, n, interval, of in rows:
        details = ["-" if mean is None else f"{mean:.4f}"]
        if interval is not None:
            details.append(ends(interval))
        details.append(f"n {n}")
        if (check := checked.get(id(of))) is not None:
            details.append(f"{'reaches' if check.passed else 'is below'} {check.min_score:g}")
        item.user_properties.append((f"{_PREFIX}{name}", ", ".join(details)))
    testing.checks.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show one table of everything that was evaluated."""
    rows = sorted(
        (report.nodeid, name.removeprefix(_PREFIX), details)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, details in report.user_properties
        if name.startswith(_PREFIX)
    )
    if rows:
        terminalreporter.section("judged")
        for line in aligned(rows, left={0, 1, 2}):
            terminalreporter.write_line(line)
