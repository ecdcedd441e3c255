"""`judged convert` and `judged validate`: data sets and results in files.

They ask no server. What the formats are is in `judged.evaluation.datasets.formats`. The document of
`--json` says what was read and written.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from judged._views import plural
from judged.cli.options import common
from judged.cli.output.writer import Output, check_apart
from judged.cli.problems import Problem
from judged.evaluation import Results
from judged.evaluation.datasets.dataset import dataset_of
from judged.evaluation.datasets.formats.catalog import FORMATS, format_of, read_content
from judged.evaluation.datasets.validation import validate as findings_of

_NAMES = ", ".join(FORMATS)

Input = Annotated[Path, typer.Argument(metavar="DATASET", help="A file, or a folder of BEIR's.")]
OutputPath = Annotated[Path, typer.Argument(metavar="OUT", help="Where to write it.")]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="FORMAT", help=f"By the name's end, or one of {_NAMES}."),
]
To = Annotated[str | None, typer.Option("--to", metavar="FORMAT", help="The same of OUT.")]


def convert(
    source: Input,
    target: OutputPath,
    from_format: From = None,
    to_format: To = None,
    results: Annotated[
        bool,
        typer.Option(
            "--results", help="It holds results: JSONL, or a TREC run that ends in .run or .trec."
        ),
    ] = False,
    json_to: common.Json = None,
    strict: common.Strict = False,
) -> None:
    """Write a data set, or results, in another format."""
    out = Output(json_to, strict=strict)
    if source.resolve() == target.resolve():
        raise Problem(f"{target}: is the file that is read too; name another one")
    check_apart({"DATASET": source, "OUT": target}, json=json_to)
    with out.told_misspellings():
        if results:
            read, written = _convert_results(out, source, target)
        else:
            read, written = _convert_dataset(out, source, target, from_format, to_format)
    out.warn(*(f"{target}: {text}" for text in written["cannot_hold"]))
    out.note(f"{target}: {plural(written['queries'], 'query', 'queries')}")
    out.write_json({"read": [read], "written": [written], "warnings": out.warnings})
    out.finish()


def validate(
    source: Input,
    from_format: From = None,
    json_to: common.Json = None,
    strict: common.Strict = False,
) -> None:
    """Say what is wrong, or may be, with a data set.

    Ends with 2 if it can't be read.
    """
    out = Output(json_to, strict=strict)
    content, findings = findings_of(source, from_format)
    errors = [finding.text for finding in findings if finding.is_error]
    for text in errors:
        out.note(text)
    out.warn(*(finding.text for finding in findings if not finding.is_error))
    n, documents = len(content.queries), len(content.documents)
    counts = (
        plural(n, "query", "queries"),
        plural(documents, "document", "documents"),
        plural(len(errors), "error", "errors"),
        plural(len(out.warnings), "warning", "warnings"),
    )
    out.show(", ".join(counts))
    out.write_json(
        {"queries": n, "documents": documents, "findings": [asdict(f) for f in findings]}
    )
    if errors:
        raise typer.Exit(2)
    out.finish()


def _convert_dataset(
    out: Output, source: Path, target: Path, from_format: str | None, to_format: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write a data set in another format; describe both files. Raises FileError."""
    content = read_content(source, from_format)
    out.warn(*content.left_out.values())
    dataset = dataset_of(content, str(source))
    lost = dataset.save(target, to_format)
    counts = {"queries": len(dataset.queries), "documents": len(dataset.documents)}
    return (
        {"path": str(source), "format": format_of(source, from_format), **counts},
        {
            "path": str(target),
            "format": format_of(target, to_format),
            **counts,
            "cannot_hold": lost,
        },
    )


def _convert_results(
    out: Output, source: Path, target: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write results in the format of the target; describe both files. Raises FileError."""
    form = _results_format(source)
    found = Results.from_trec_run(source) if form == "trec" else Results.from_jsonl(source)
    out.warn(*found.warnings)
    counts = {"queries": len(found), "results": sum(map(len, found.values()))}
    lost = found.save(target)
    return (
        {"path": str(source), "format": form, **counts},
        {
            "path": str(target),
            "format": _results_format(target),
            **counts,
            "cannot_hold": lost,
        },
    )


def _results_format(path: Path) -> str:
    return "trec" if path.suffix in (".run", ".trec") else "jsonl"
