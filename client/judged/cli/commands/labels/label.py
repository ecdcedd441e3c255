"""`judged label`: people look at the items that the judge is unsure of.

Which items these are, and what labels are worth, is up to `judged.labelling`.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Annotated

import typer

from judged._views import plural
from judged.cli.connection import connect
from judged.cli.options import intervals
from judged.cli.options.server import ResultFlags
from judged.cli.output.estimates import corrected_table, corrected_warnings, more_labels
from judged.cli.output.writer import check_apart, check_writable
from judged.cli.problems import Problem, explained
from judged.labelling import Item, Judged, Label, LabelFile, read_csv, write_csv
from judged.labelling.picking import RANDOM_SHARE
from judged.labelling.summary import summarize


def command(
    results: Annotated[
        str,
        typer.Argument(
            metavar="RESULTS.jsonl", help="What `judged judge --output` wrote: lines with verdicts."
        ),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="LABELS.jsonl", help="The labels, those of before included."
        ),
    ],
    number: Annotated[
        int, typer.Option("--number", "-n", metavar="N", min=1, help="How many items to label.")
    ] = 100,
    annotator: Annotated[
        str | None, typer.Option(metavar="NAME", help="Who labels; your user name by default.")
    ] = None,
    random_share: Annotated[
        float,
        typer.Option(
            metavar="X",
            min=0.01,
            max=1.0,
            help="Share of the labels that is drawn evenly, not by how unsure the judge is.",
        ),
    ] = RANDOM_SHARE,
    draw_seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of the draw; the same for all annotators.")
    ] = 0,
    to_csv: Annotated[
        str | None,
        typer.Option(metavar="FILE.csv", help="Write the drawn items as a table to fill in."),
    ] = None,
    from_csv: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="Read labels from such a table.")
    ] = None,
    summary: Annotated[
        bool, typer.Option("--summary", help="Label nothing; show what the labels say.")
    ] = False,
    confidence: intervals.Confidence = None,
    *,
    shared: ResultFlags,
) -> None:
    """Label the items that the judge is unsure of.

    What it says is then corrected by these labels.
    """
    out = shared.output()
    if sum((to_csv is not None, from_csv is not None, summary)) > 1:
        raise Problem("--to-csv, --from-csv and --summary exclude each other; use one at a time")
    check_writable(output, "--output")
    inputs = {"RESULTS.jsonl": results, "--from-csv": from_csv}
    check_apart(inputs, output=output, json=shared.json_to, to_csv=to_csv)
    who = annotator or getpass.getuser()
    judged = Judged.read(results, random_share, draw_seed)
    drawn = judged.drawn(number)
    chances = judged.probabilities(number)
    labels = LabelFile.read(output, judged.items, chances)
    if judged.missing:
        out.warn(
            f"{plural(judged.missing, 'line', 'lines')} without a verdict; the labels speak of the "
            "others alone"
        )
    if to_csv is not None:
        check_writable(to_csv, "--to-csv")
        write_csv(to_csv, drawn, labels.of(who))
        out.show(f"{len(drawn)} of {len(judged.items)} items written to {to_csv}")
        out.write_json({"written": len(drawn), "items": len(judged.items)})
        out.finish()
        return
    if from_csv is not None:
        read = _take_csv(from_csv, labels, who, chances)
        out.note(f"{plural(read, 'label', 'labels')} of {who} read from {from_csv}")
    elif not summary:
        _on_screen(drawn, labels, who, chances)
    if all(label.relevant is None for label in labels.labels):
        step = f"; write y or n into the column `label` of {from_csv}" if from_csv else ""
        out.show(f"there are no labels in {output} yet{step}")
        out.write_json({"labels": 0, "items": len(judged.items), "means": {}})
        out.finish()
        return
    with connect(shared) as server, explained():
        found = summarize(server.client, judged, labels, confidence)
    out.warn(*found.warnings, *corrected_warnings(found.means))
    out.show(corrected_table(found.means))
    if told := more_labels(found.means):
        out.show("", told)
    out.write_json(
        {
            "labels": len(labels.labels),
            "counted": found.counted,
            "items": len(judged.items),
            "annotators": labels.annotators,
            "means": {name: asdict(mean) for name, mean in found.means.items()},
            "warnings": out.warnings,
        }
    )
    out.finish()


def _take_csv(path: str, labels: LabelFile, who: str, chances: Mapping[str, float]) -> int:
    """Put the labels of a table in place of those that the annotator has; return how many."""
    now = datetime.now(UTC).replace(microsecond=0)
    read: dict[str, Label] = {}
    for line, item_id, relevant, note in read_csv(path):
        if item_id not in labels.items:
            raise Problem(f"{path}:{line}: no judged line has the id {item_id!r}")
        read[item_id] = Label(item_id, who, relevant, now, chances[item_id], note)
    labels.add(*read.values())
    return len(read)


def _on_screen(
    drawn: Sequence[Item], labels: LabelFile, who: str, chances: Mapping[str, float]
) -> None:
    if find_spec("textual") is None:
        raise Problem(
            "the screen needs textual: pip install 'judged[label]'; or use --to-csv and --from-csv"
        )
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Problem("the screen needs a terminal; use --to-csv and --from-csv, or --summary")
    from judged.labelling.screen import LabelScreen  # noqa: PLC0415 - of an extra

    LabelScreen(drawn, labels, who, chances.__getitem__).run()
