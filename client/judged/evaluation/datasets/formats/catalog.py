"""The formats of data sets by name, and which one a path has."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from judged.evaluation.datasets.files import FileError, writing
from judged.evaluation.datasets.formats import beir, json_files, qrels, ragas, tables
from judged.evaluation.datasets.formats.content import Content, Saved

Reader = Callable[[Path | str, Content], object]
Writer = Callable[[Path | str, Saved], list[str]]

FORMATS: dict[str, tuple[Reader, Writer]] = {
    "json": (json_files.read_json, json_files.write_json),
    "jsonl": (json_files.read_jsonl, json_files.write_jsonl),
    "csv": (tables.read_csv, tables.write_csv),
    "tsv": (
        partial(tables.read_csv, delimiter="\t"),
        partial(tables.write_csv, delimiter="\t"),
    ),
    "parquet": (tables.read_parquet, tables.write_parquet),
    "beir": (beir.read_beir, beir.write_beir),
    "ragas": (ragas.read_ragas, ragas.write_ragas),
    "trec": (qrels.read_qrels, qrels.write_qrels),
}
"""What reads and what writes each format."""

_BY_SUFFIX = {name: name for name in ("json", "jsonl", "csv", "tsv", "parquet")}
_BY_SUFFIX |= {"ndjson": "jsonl", "qrels": "trec", "qrel": "trec"}


def format_of(path: Path | str, name: str | None = None) -> str:
    """Return the name of the format of a path. Raises FileError where it is not known."""
    if name is not None:
        if name not in FORMATS:
            raise FileError(str(path), None, f"{name!r} is no format; one of {_names()}")
        return name
    if Path(path).is_dir() or not Path(path).suffix:
        return "beir"
    suffix = Path(str(path).removesuffix(".gz")).suffix.removeprefix(".").lower()
    if suffix not in _BY_SUFFIX:
        problem = f"has no known format by its name; name one of {_names()}"
        raise FileError(str(path), None, problem)
    return _BY_SUFFIX[suffix]


def read_content(
    path: Path | str, name: str | None = None, problems: list[FileError] | None = None
) -> Content:
    """Return what a file or a folder holds. Raises FileError, or puts it into `problems`."""
    if not Path(path).exists():
        raise FileError(str(path), None, "there is no such file or folder")
    content = Content(problems=problems)
    FORMATS[format_of(path, name)][0](path, content)
    return content


def write_content(path: Path | str, dataset: Saved, name: str | None = None) -> list[str]:
    """Write a data set; return what the format can't hold. Raises FileError."""
    write = FORMATS[format_of(path, name)][1]
    with writing(path):
        return write(path, dataset)


def _names() -> str:
    return ", ".join(FORMATS)
