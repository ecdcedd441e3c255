"""`judged convert`, `validate`, `split`, `slice` and `merge`: data sets and results in files.

They ask no server. What the formats are is in `judged.evaluation.datasets.formats`. The document of
`--json` says what was read and written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from judged._views import plural
from judged.cli.options import common
from judged.cli.output.writer import Output, check_apart
from judged.cli.problems import Problem
from judged.evaluation import Dataset, Document, Query, Results
from judged.evaluation.datasets.dataset import dataset_of
from judged.evaluation.datasets.formats.catalog import FORMATS, format_of, read_content
from judged.evaluation.datasets.validation import validate as findings_of

_NAMES = ", ".join(FORMATS)
_PARTS = 2**32

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
    _check_other(source, target)
    check_apart({"DATASET": source, "OUT": target}, json=json_to)
    if results:
        read, written = _convert_results(out, source, target)
    else:
        dataset, read = _load(out, source, from_format)
        written = _save(out, dataset, target, to_format)
    _finish(out, [read], [written])


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


def split(
    source: Input,
    first: Annotated[Path, typer.Argument(metavar="OUT1", help="The share goes here.")],
    second: Annotated[Path, typer.Argument(metavar="OUT2", help="The rest goes here.")],
    share: Annotated[
        float, typer.Option(metavar="X", min=0.0, max=1.0, help="The share of queries in OUT1.")
    ] = 0.5,
    seed: Annotated[int, typer.Option(metavar="N", help="Another seed, another split.")] = 0,
    from_format: From = None,
    json_to: common.Json = None,
    strict: common.Strict = False,
) -> None:
    """Split a data set in two by the queries' ids.

    A query stays on its side when others come.
    """
    out = Output(json_to, strict=strict)
    if first.resolve() == second.resolve():
        raise Problem(f"{second}: is OUT1 too; name another file for the rest")
    check_apart({"DATASET": source, "OUT1": first, "OUT2": second}, json=json_to)
    dataset, read = _load(out, source, from_format)
    inside = [_place(query, seed) < share * _PARTS for query in dataset.queries]
    written = []
    for target, side in ((first, True), (second, False)):
        _check_other(source, target)
        chosen = [q for q, on in zip(dataset.queries, inside, strict=True) if on is side]
        if not chosen:
            out.warn(f"{target}: has no query; take more queries, another --share or --seed")
        written.append(_save(out, Dataset(chosen, dataset.documents), target))
    _finish(out, [read], written)


def slice_command(
    source: Input,
    target: OutputPath,
    where: Annotated[
        list[str],
        typer.Option(metavar="K=V", help="Queries whose metadata have V under K; may be repeated."),
    ],
    from_format: From = None,
    json_to: common.Json = None,
    strict: common.Strict = False,
) -> None:
    """Write the queries that have the named metadata."""
    out = Output(json_to, strict=strict)
    _check_other(source, target)
    check_apart({"DATASET": source, "OUT": target}, json=json_to)
    wanted = [_condition(text) for text in where]
    dataset, read = _load(out, source, from_format)
    chosen = [
        query
        for query in dataset.queries
        if all(query.metadata.get(key, "") == value for key, value in wanted)
    ]
    if not chosen:
        keys = sorted({key for query in dataset.queries for key in query.metadata})
        known = ", ".join(keys) or "none"
        raise Problem(f"no query has {' and '.join(where)}; the keys of metadata are: {known}")
    written = _save(out, Dataset(chosen, dataset.documents), target)
    _finish(out, [read], [written])


def merge(
    target: OutputPath,
    sources: Annotated[
        list[Path], typer.Argument(metavar="DATASET...", help="Data sets with ids of their own.")
    ],
    json_to: common.Json = None,
    strict: common.Strict = False,
) -> None:
    """Write several data sets as one.

    An id may repeat only where all of it is the same.
    """
    out = Output(json_to, strict=strict)
    inputs = {f"DATASET {number}": source for number, source in enumerate(sources, 1)}
    check_apart({**inputs, "OUT": target}, json=json_to)
    queries: dict[str, Query] = {}
    documents: dict[str, Document] = {}
    read = []
    for source in sources:
        _check_other(source, target)
        dataset, described = _load(out, source)
        read.append(described)
        for query in dataset.queries:
            if queries.setdefault(query.query_id, query) != query:
                raise Problem(f"{source}: query {query.query_id!r} differs from an earlier one")
        for name, document in dataset.documents.items():
            if documents.setdefault(name, document) != document:
                raise Problem(f"{source}: document {name!r} differs from an earlier one")
    written = _save(out, Dataset(list(queries.values()), documents), target)
    _finish(out, read, [written])


def _load(
    out: Output, source: Path, format_name: str | None = None
) -> tuple[Dataset, dict[str, Any]]:
    """Return a data set, and what the document of `--json` says of its file. Raises FileError."""
    with out.told_misspellings():
        content = read_content(source, format_name)
    out.warn(*content.left_out.values())
    dataset = dataset_of(content, str(source))
    return dataset, _described(dataset, source, format_name)


def _save(
    out: Output, dataset: Dataset, target: Path, format_name: str | None = None
) -> dict[str, Any]:
    """Write a data set, say what its format can't hold, and describe the file. Raises FileError."""
    lost = dataset.save(target, format_name)
    written = {**_described(dataset, target, format_name), "cannot_hold": lost}
    _tell(out, written)
    return written


def _convert_results(
    out: Output, source: Path, target: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write results in the format of the target; describe both files. Raises FileError."""
    with out.told_misspellings():
        if _results_format(source) == "trec":
            found = Results.from_trec_run(source)
        else:
            found = Results.from_jsonl(source)
    out.warn(*found.warnings)
    counts = {"queries": len(found), "results": sum(map(len, found.values()))}
    read: dict[str, Any] = {"path": str(source), "format": _results_format(source), **counts}
    written: dict[str, Any] = {"path": str(target), "format": _results_format(target), **counts}
    written["cannot_hold"] = found.save(target)
    _tell(out, written)
    return read, written


def _results_format(path: Path) -> str:
    return "trec" if path.suffix in (".run", ".trec") else "jsonl"


def _described(dataset: Dataset, path: Path, format_name: str | None) -> dict[str, Any]:
    return {
        "path": str(path),
        "format": format_of(path, format_name),
        "queries": len(dataset.queries),
        "documents": len(dataset.documents),
    }


def _tell(out: Output, written: Mapping[str, Any]) -> None:
    out.warn(*(f"{written['path']}: {text}" for text in written["cannot_hold"]))
    out.note(f"{written['path']}: {plural(written['queries'], 'query', 'queries')}")


def _finish(
    out: Output, read: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]
) -> None:
    out.write_json({"read": read, "written": written, "warnings": out.warnings})
    out.finish()


def _check_other(source: Path, target: Path) -> None:
    if source.resolve() == target.resolve():
        raise Problem(f"{target}: is the file that is read too; name another one")


def _condition(text: str) -> Sequence[str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise Problem(f"--where {text!r}: write KEY=VALUE, as in topic=billing")
    return key, value


def _place(query: Query, seed: int) -> int:
    """Return a number below 2^32 that a query's id and the seed draw."""
    drawn = hashlib.sha256(f"{seed}\n{query.query_id}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(drawn[:4], "big")
