"""`judged judges`, `usage`, `doctor` and `demo`: what a server offers and spent, and checks."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata, resources

from judged import MetricOptions
from judged._views import row_of
from judged.cli.frame import PREFIX, Document, opt
from judged.cli.output import Output, Problem, Table, of_metrics, say
from judged.cli.server import ServerCommand
from judged.cli.tables import means_table
from judged.evaluation import Dataset, Evaluator, Results
from judged.report import make_report, to_html
from judged.report.content import signed, verdict_of
from judged.values import (
    IntervalMethod,
    IntervalOptions,
    JudgeInfo,
    Scalar,
    ServerInfo,
)

_PACKAGES = ("judged", "grpcio", "protobuf")
_SECRET = ("TOKEN", "KEY", "SECRET", "PROXY")


class JudgesCommand(ServerCommand):
    """Show what a server offers: judges, models, metrics.

    Examples:
    judged judges
    judged judges --target 127.0.0.1:8470 --json -
    """

    def run(self, out: Output) -> Document:
        """Ask, and show."""
        with self.connect() as (_, info):
            rows = []
            for judge in info.judges:  # the first profile of a judge is its default
                shown = " ".join(f"{p.name}={_value(p.default_value)}" for p in judge.parameters)
                rows.append([_name_of(judge), f"{judge.default_min_score:g}", shown or "-"])
            rubrics = [f"{each.rubric}@{each.version}" for each in info.rubrics]
            out.show(
                Table(["judge", "min_score", "parameters"], rows, left=3),
                *(f"Unavailable: {name}: {why}" for name, why in _unavailable(info)),
                "",
                f"default judge  {info.default_judge}",
                f"models         {', '.join(model.name for model in info.models) or 'none'}",
                f"chat models    {', '.join(model.name for model in info.chat_models) or 'none'}",
                f"rubrics        {', '.join(rubrics) or 'none'}",
                f"metrics        {', '.join(metric.name for metric in info.metrics)}",
                f"server         {info.version}",
            )
            return row_of(info, "version default_judge judges models rubrics chat_models metrics")


def _name_of(judge: JudgeInfo) -> str:
    """Return kind and profile, as `--judge` and `--profile` take them."""
    return f"{judge.kind} {judge.profile}".rstrip()


def _unavailable(info: ServerInfo) -> Iterator[tuple[str, str]]:
    """Yield the judges and models that can't be asked, and why."""
    judges = [(_name_of(judge), judge.unavailable) for judge in info.judges]
    models = [(f"model {model.name}", model.unavailable) for model in info.chat_models]
    yield from ((name, why) for name, why in [*judges, *models] if why)


def _value(value: Scalar | None) -> str:
    """Return a parameter's value as `--param` takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


class UsageCommand(ServerCommand):
    """Show what your tenant asked of language models, by day.

    Also shows what is left of its budgets.

    Examples:
    judged usage --target 127.0.0.1:8470 --token-file search.token
    judged usage --days 7 --json -
    """

    days: int = opt("N", "The last N days, in UTC.", 31)

    def run(self, out: Output) -> Document:
        """Ask, and show."""
        if not self.target:
            raise Problem(
                "a private server has no usage to show; name one: --target HOST:PORT, or "
                "JUDGED_TARGET"
            )
        with self.connect() as (client, _):
            usage = client.usage(self.days)
        if not usage.is_recorded:
            say("the server does not record usage; that needs tenants, or a daily budget")
        elif not usage.rows:
            say(f"no language model was asked in the last {self.days} days")
        if usage.rows:
            out.show(Table.of(usage.rows, _USED, left=4))
        if usage.budgets:
            out.show(*([""] if usage.rows else []), Table.of(usage.budgets, _BUDGETS))
        return row_of(usage, "tenant rows is_recorded budgets")


_USED = {
    "day": "day",
    "judge": "judge",
    "rubric": "rubric",
    "model": "model",
    "questions": "{0.questions:,}",
    "input tokens": "{0.input_tokens:,}",
    "output tokens": "{0.output_tokens:,}",
    "cost": "{0.cost:.6f} {0.currency}",
}
_BUDGETS = {
    "budget": "budget",
    "limit": "{0.limit:g} {0.currency}",
    "left": "{0.left:.6f} {0.currency}",
    "renewed at": "{0.renewed_at:%Y-%m-%d %H:%M} UTC",
}
"""The columns of what was used, and of budgets."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do about it; `status` is ok, note or problem."""

    check: str
    status: str
    found: str


class DoctorCommand(ServerCommand):
    """Check that everything needed for judging works.

    Ends with 2 if something does not.

    Examples:
    judged doctor
    judged doctor --target 127.0.0.1:8470
    """

    def run(self, out: Output) -> Document:
        """Check packages, variables and the server."""
        findings = [*_here(), *self._server()]
        columns = {"check": "check", "": "status", "found": "found"}
        out.show(Table.of(findings, columns, left=3))
        problems = [one for one in findings if one.status == "problem"]
        out.failed = bool(problems)
        return {"findings": findings, "problems": len(problems)}

    def _server(self) -> Iterator[Finding]:
        where = self.target or "a private server"
        begun = time.monotonic()
        try:
            with self.connect() as (_, info):
                took = time.monotonic() - begun
        except Problem as problem:
            yield Finding("server", "problem", str(problem))
            return
        yield Finding("server", "ok", f"{where} answered in {took:.2f} s; version {info.version}")
        own = metadata.version("judged")
        if info.version != own:
            found = (
                f"the server is {info.version}, the client {own}; install the same on both sides"
            )
            yield Finding("versions", "note", found)
        there = dict.fromkeys(judge.kind for judge in info.judges if not judge.unavailable)
        yield Finding("judges", "ok", ", ".join(there))
        for name, why in _unavailable(info):
            yield Finding(name, "problem" if name.startswith("model ") else "note", why)


def _here() -> Iterator[Finding]:
    """Yield the versions, and the JUDGED_* variables; values of secrets are not shown."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    yield Finding("packages", "ok", f"Python {platform.python_version()}, {versions}")
    variables = [
        f"{name}={'***' if any(part in name for part in _SECRET) else value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(f"{PREFIX}_")
    ]
    yield Finding("environment", "ok", " ".join(variables) or f"no {PREFIX}_* variable is set")


_METRICS = ["ndcg@5", "recall@5", "mrr"]


class DemoCommand(ServerCommand):
    """Show what judged does, on built-in data.

    It takes some seconds, and uses no model and no network.

    Examples:
    judged demo
    judged demo -o demo.html
    """

    output: str = opt("FILE.html", "Where to write the report.", "judged-demo.html", writes=True)

    def run(self, out: Output) -> Document:
        """Search, judge, compare and write the page."""
        runs = {}
        with resources.as_file(resources.files("judged.cli") / "data") as folder:
            dataset = Dataset.from_json(folder / "demo.json")
            for run in ("first words", "all words"):
                file = folder / f"{run.replace(' ', '_')}.jsonl"
                runs[run] = Results.from_jsonl(file)
        interval = IntervalOptions(IntervalMethod.BCA)
        options = MetricOptions(per_query=True, interval=interval, slice_by=["topic"])
        out.show(
            f"{len(dataset.queries)} questions, {len(dataset.documents)} passages. Two retrievers:",
            "one looks at the first three words of a question, the other at all of them.",
        )
        with self.connect(of_metrics(_METRICS)) as (client, _):
            evaluator = Evaluator(client)
            found = {
                name: evaluator.evaluate(
                    run, dataset, _METRICS, "token_overlap", 5, options, name=name
                )
                for name, run in runs.items()
            }
            compared = client.compare_runs(
                _METRICS, {name: result.table.per_query_values() for name, result in found.items()}
            )
        first, second = runs
        report = make_report(
            found[second].to_dict(),
            found[first].to_dict(),
            compared.comparisons,
            title="judged demo",
            names=(second, first),
        )
        for name, result in found.items():
            out.show("", f"retriever {name!r}:", means_table(result.table))
        out.show("", f"{second!r} beside {first!r}, by paired tests:")
        for one in report.differences:
            out.show(f"  {one.metric:9} {signed(one.difference.value)}: {verdict_of(one)}")
        out.write("--output", self.output, [to_html(report)])
        out.show(
            "",
            f"The report is in {self.output}: open it in a browser.",
        )
        return {"runs": {name: result.to_dict() for name, result in found.items()}}
