"""`judged ci`: a pull request's result held against main's, as a comment, annotations, a status.

On main `--save` keeps the result as the baseline, on a branch of the repository. On a pull request
the result is compared with it by paired tests; the status is 1 where a metric is worse.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from judged import IntervalOptions, MetricOptions
from judged.cli import baselines
from judged.cli.inputs.documents import compare_documents
from judged.cli.options.gates import AllowOtherSignature
from judged.cli.options.server import ResultFlags
from judged.cli.output.annotations import Annotation, for_github, for_gitlab, lines_of_queries
from judged.cli.output.reports import parse_report
from judged.cli.output.writer import Output, check_writable, open_output
from judged.cli.problems import Problem
from judged.evaluation.datasets.files import parse_json, read_bytes
from judged.report import Report, make_report, to_html
from judged.report.comment import BaselineAge, headline, lost, to_comment, worse
from judged.report.texts import visible

_STALE_DAYS = 30.0


def command(
    result: Annotated[
        Path,
        typer.Argument(metavar="RESULT.json", help="Document of judged evaluate --json."),
    ],
    save: Annotated[
        bool, typer.Option("--save", help="Keep the result as the baseline; run this on main.")
    ] = False,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Which baseline, where there are several.")
    ] = "result",
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Compare with this document instead of the one kept with --save."
        ),
    ] = None,
    dataset: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Data set whose lines are annotated."),
    ] = None,
    comment: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the comment, as Markdown.")
    ] = None,
    report: Annotated[
        str | None, typer.Option(metavar="FILE.html", help="Write the report of both results.")
    ] = None,
    code_quality: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write GitLab's code quality report.")
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Print annotations as GitHub Actions reads them.")
    ] = False,
    alpha: Annotated[
        float,
        typer.Option(
            metavar="A",
            help="How often a pull request that changes nothing may be called different, by all "
            "metrics together.",
            min=0.0001,
            max=0.5,
        ),
    ] = 0.05,
    max_age: Annotated[
        float,
        typer.Option(metavar="DAYS", min=0, help="Age from which a baseline is stale."),
    ] = _STALE_DAYS,
    remote: Annotated[str, typer.Option(metavar="NAME", help="Git remote.")] = "origin",
    main: Annotated[str, typer.Option(metavar="NAME", help="The branch to compare with.")] = "main",
    branch: Annotated[
        str, typer.Option(metavar="NAME", help="Branch that baselines are kept on.")
    ] = baselines.BRANCH,
    allow_other_signature: AllowOtherSignature = False,
    *,
    shared: ResultFlags,
) -> None:
    """Hold a result against main's: what moved, and how certain."""
    out = shared.output()
    content = read_bytes(result)
    now = parse_report(content, str(result))
    if save:
        of = baselines.save(name, content, remote, branch)
        out.note(f"kept {result} as the baseline {name!r} of commit {of[:10]} on {branch}")
        return
    check_writable(comment, "--comment")
    check_writable(report, "--report")
    check_writable(code_quality, "--code-quality")
    before, age = _baseline(name, baseline, remote, main, branch, max_age)
    compared: list[dict[str, Any]] = []
    source = f"the baseline {name!r}" if baseline is None else str(baseline)
    if before is not None:
        known = parse_report(before, source)
        found = compare_documents(
            *(out, shared, ["main", "pull request"], [known, now]),
            MetricOptions(interval=IntervalOptions(confidence=1 - alpha)),
            allow=allow_other_signature,
        )
        compared = [one.to_dict() for one in found.comparisons]
        for one in found.comparisons:
            out.warn(*(f"{one.metric}: {warning}" for warning in one.warnings))
    if age is not None and age.stale:
        out.warn(f"{age}, older than --max-age {max_age:g}; run judged ci --save on main")
    made = make_report(
        parse_json(content, str(result), None),
        None if before is None else parse_json(before, source, None),
        compared,
        title="Pull request beside main",
        names=("pull request", "main"),
    )
    _write(out, made, age, comment=comment, report=report)
    _annotate(made, dataset, code_quality, github=github)
    out.show(headline(made), *([] if age is None else [str(age)]))
    out.write_json(_document(made, age, out.warnings))
    out.finish(fell_short=bool(worse(made)))


def _baseline(
    name: str, file: Path | None, remote: str, main: str, branch: str, max_age: float
) -> tuple[bytes | None, BaselineAge | None]:
    if file is not None:
        changed = datetime.fromtimestamp(file.stat().st_mtime, UTC) if file.exists() else None
        content = read_bytes(file)
        days = 0.0 if changed is None else (datetime.now(UTC) - changed).total_seconds() / 86400
        return content, BaselineAge(None, days, None, days > max_age, str(file))
    kept = baselines.read(name, remote, main, branch)
    if kept is None:
        return None, None
    days = kept.age_days(datetime.now(UTC))
    return kept.document, BaselineAge(kept.commit, days, kept.behind, days > max_age)


def _write(
    out: Output, made: Report, age: BaselineAge | None, *, comment: str | None, report: str | None
) -> None:
    if comment is not None:
        with open_output(comment, "--comment") as file:
            file.write(to_comment(made, age))
    if report is not None:
        with open_output(report, "--report") as file:
            file.write(to_html(made))
        out.note(f"wrote {report}")


def _annotate(
    made: Report, dataset: Path | None, code_quality: str | None, *, github: bool
) -> None:
    annotations = [
        Annotation(query_id, f"{metric} of query {query_id} fell from {was:.4f} to {now:.4f}")
        for query_id, metric, was, now in lost(made)
    ]
    path, lines = "", {}
    if dataset is not None:
        lines = lines_of_queries(read_bytes(dataset))
        path = _in_repository(dataset)
    if github and dataset is not None:
        for line in for_github(path, lines, annotations):
            sys.stderr.write(f"{visible(line)}\n")
    if code_quality is not None:
        if dataset is None:
            raise Problem("--code-quality: needs --dataset FILE, whose lines it is about")
        with open_output(code_quality, "--code-quality") as file:
            json.dump(for_gitlab(path, lines, annotations), file, indent=1)


def _in_repository(path: Path) -> str:
    """Return a path as annotations name it: from the root of the repository."""
    whole = path.resolve()
    root = baselines.repository()
    return whole.relative_to(root).as_posix() if whole.is_relative_to(root) else str(path)


def _document(made: Report, age: BaselineAge | None, warnings: Sequence[str]) -> dict[str, Any]:
    return {
        "headline": headline(made),
        "worse": [one.metric for one in worse(made)],
        "differences": [
            {
                "metric": one.metric,
                "n": one.n,
                "baseline": one.baseline_mean,
                "mean": one.run_mean,
                "difference": one.difference,
                "lower": one.lower,
                "upper": one.upper,
                "p": one.p,
                "effect": one.effect,
                "it_is": one.verdict,
            }
            for one in made.differences
        ],
        "baseline": None
        if age is None
        else {
            "commit": age.commit,
            "file": age.file,
            "days": age.days,
            "behind": age.behind,
            "stale": age.stale,
        },
        "warnings": list(warnings),
    }
