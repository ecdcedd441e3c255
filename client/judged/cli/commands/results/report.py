"""`judged report`: result documents as a page, as Markdown, as JUnit XML.

With two documents the first is the baseline, as in `judged compare`, and the server tests how they
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from judged.cli.inputs.documents import compare_documents, run_names
from judged.cli.options.gates import AllowOtherSignature
from judged.cli.options.server import ResultFlags
from judged.cli.output.reports import read_report
from judged.cli.output.writer import STDOUT, check_apart, check_writable, open_output
from judged.cli.problems import Problem
from judged.evaluation.datasets.files import parse_json, read_bytes
from judged.report import NoResultDocument, Report, make_report, to_html, to_junit, to_markdown

_FORMS: Mapping[str, str] = {
    ".html": "html",
    ".htm": "html",
    ".md": "markdown",
    ".xml": "junit",
}
_WRITERS: Mapping[str, Callable[[Report], str]] = {
    "html": to_html,
    "markdown": to_markdown,
    "junit": to_junit,
}


def command(
    documents: Annotated[
        list[Path],
        typer.Argument(
            metavar="RESULT.json [OTHER.json]",
            help="Documents of judged evaluate --json, judged metrics --json or a result's "
            "to_json. Of two the first is the baseline.",
            show_default=False,
        ),
    ],
    output: Annotated[
        list[str],
        typer.Option(
            *("--output", "-o"),
            metavar="FILE|-",
            help="Where to write: .html a page, .md Markdown, .xml JUnit; - prints Markdown. May "
            "be repeated.",
        ),
    ],
    title: Annotated[
        str, typer.Option(metavar="TEXT", help="Heading of the report.")
    ] = "Evaluation report",
    allow_other_signature: AllowOtherSignature = False,
    *,
    shared: ResultFlags,
) -> None:
    """Show results as an HTML page, as Markdown or as JUnit XML."""
    out = shared.output()
    if len(documents) > 2:
        raise Problem("a report shows one document, or two of which the first is the baseline")
    forms = [(to, _form(to)) for to in output]
    inputs = {f"RESULT {number}": path for number, path in enumerate(documents, 1)}
    for to, _ in forms:
        check_apart(inputs, output=to, json=shared.json_to)
        check_writable(to, "--output")
    names = run_names(documents)
    read = [parse_json(read_bytes(path), str(path), None) for path in documents]
    compared: list[dict[str, Any]] = []
    if len(documents) == 2:
        reports = [read_report(path) for path in documents]
        found = compare_documents(out, shared, names, reports, allow=allow_other_signature)
        compared = [made.to_dict() for made in found.comparisons]
    baseline = (read[0], names[0]) if len(documents) == 2 else (None, "")
    try:
        made = make_report(
            read[-1], baseline[0], compared, title=title, names=(names[-1], baseline[1])
        )
    except NoResultDocument as error:
        raise Problem(f"{documents[-1]}: {error.message}") from None
    written = []
    for to, form in forms:
        if to == STDOUT and out.takes_stdout:
            continue
        text = _WRITERS[form](made)
        with open_output(to, "--output") as file:
            file.write(text)
        n = len(text.encode())
        written.append({"path": to, "format": form, "bytes": n})
        if to != STDOUT:
            out.note(f"wrote {to}, {n:,} bytes")
    shown = [run for run in (made.baseline, made.run) if run is not None]
    read_files = [
        {
            "path": str(path),
            "name": run.name,
            "metrics": [metric.name for metric in run.metrics],
            "queries": run.counts.get("queries", len(run.queries)),
        }
        for path, run in zip(documents, shown, strict=True)
    ]
    out.write_json({"read": read_files, "written": written, "warnings": out.warnings})
    out.finish()


def _form(to: str) -> str:
    """Return what an output is written as, by its name. Raises Problem."""
    if to == STDOUT:
        return "markdown"
    ending = Path(to).suffix.lower()
    if ending not in _FORMS:
        raise Problem(
            f"--output {to}: ends in none of {', '.join(_FORMS)}, which say what to write"
        )
    return _FORMS[ending]
