"""Verdicts as a judgment list: TREC qrels, for trec_eval and `judged metrics`."""

from __future__ import annotations

from collections.abc import Sequence

from judged import Verdicts
from judged._inputs import as_id
from judged._views import plural
from judged.cli.inputs.contexts import Line
from judged.cli.output.writer import Output, open_output
from judged.evaluation.datasets.files import FileError

SUFFIX = ".qrels"
_IDS = ("query_id", "doc_id")


def check_ids(name: str, lines: Sequence[Line]) -> None:
    """Raise FileError for a line without the ids of a judgment list, or with those of another."""
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        query_id, doc_id = (_id(name, line, field) for field in _IDS)
        first = seen.setdefault((query_id, doc_id), line.number)
        if first != line.number:
            problem = f"judges {doc_id!r} for query {query_id!r} again, as line {first} does"
            raise FileError(name, line.number, f"{problem}; a judgment list has one grade of each")


def write_judgments(
    out: Output, path: str, lines: Sequence[Line], verdicts: Verdicts, flag: str
) -> None:
    """Write `query 0 document grade` for each verdict; warn of what the list can't hold.

    The grade is the judge's, where it gives some, else 1 for relevant and 0 for not.
    """
    missing = rounded = 0
    rows = []
    for line, verdict in zip(lines, verdicts, strict=True):
        if verdict.relevant is None:
            missing += 1
            continue
        grade = float(verdict.relevant) if verdict.grade is None else verdict.grade
        whole = int(grade + 0.5)
        rounded += grade != whole
        rows.append(f"{line.fields['query_id']} 0 {line.fields['doc_id']} {whole}\n")
    with open_output(path, flag) as file:
        file.writelines(rows)
    if missing:
        out.warn(
            f"{plural(missing, 'line', 'lines')} without a verdict left out of {path}, where they "
            "count as not judged"
        )
    if rounded:
        what = plural(rounded, "grade", "grades")
        out.warn(f"{what} of {path} rounded to whole numbers, the means of several samples")


def _id(name: str, line: Line, field: str) -> str:
    value = as_id(line.fields.get(field))
    if not isinstance(value, str):
        problem = f"has no {field!r}, which a judgment list is made of; give each line both ids"
    elif value.split() != [value]:
        problem = f"has {field!r} with white space, at which TREC's columns end"
    else:
        return value
    raise FileError(name, line.number, problem)
