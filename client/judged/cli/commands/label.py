"""`judged label`: people look at the items that the judge is unsure of.

Which items these are, and what labels are worth, is up to `judged.labelling`.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.util import find_spec

from judged._views import plural
from judged.cli.frame import Document, arg, flag, opt
from judged.cli.output import Output, say
from judged.cli.problems import Problem
from judged.cli.server import ResultCommand
from judged.cli.tables import corrected_table, more_labels
from judged.labelling import Item, Judged, Label, LabelFile, read_csv, write_csv
from judged.labelling.picking import RANDOM_SHARE
from judged.labelling.summary import summarize
from judged.values.intervals import shared_warnings


@dataclass(kw_only=True)
class LabelCommand(ResultCommand):
    """Label the items that the judge is unsure of.

    What it says is then corrected by these labels.

    Examples:
    judged label results.jsonl -n 100 -o labels.jsonl
    judged label results.jsonl -o labels.jsonl --to-csv to_label.csv
    judged label results.jsonl -o labels.jsonl --summary --json summary.json
    """

    results: str = arg("RESULTS.jsonl", "What `judged judge --output` wrote: lines with verdicts.")
    output: str = opt(
        "LABELS.jsonl",
        "The labels, those of before included.",
        None,
        *("--output", "-o"),
        writes=True,
        required=True,
    )
    number: int = opt("N", "How many items to label.", 100, "--number", "-n", low=1)
    annotator: str | None = opt("NAME", "Who labels; your user name by default.")
    random_share: float = opt(
        "X",
        "Share of the labels that is drawn evenly, not by how unsure the judge is.",
        RANDOM_SHARE,
        low=0.01,
        high=1.0,
    )
    draw_seed: int = opt("N", "Of the draw; the same for all annotators.", 0, low=0)
    to_csv: str | None = opt(
        "FILE.csv", "Write the drawn items as a table to fill in.", writes=True
    )
    from_csv: str | None = opt("FILE.csv", "Read labels from such a table.", reads=True)
    summary: bool = flag("Label nothing; show what the labels say.")
    confidence: float | None = opt("X", "Confidence of the intervals; 0.95.", low=0.5, high=0.9999)

    def run(self, out: Output) -> Document:
        """Draw, take labels, and say what they are worth."""
        if sum((self.to_csv is not None, self.from_csv is not None, self.summary)) > 1:
            raise Problem(
                "--to-csv, --from-csv and --summary exclude each other; use one at a time"
            )
        who = self.annotator or getpass.getuser()
        judged = Judged.read(self.results, self.random_share, self.draw_seed)
        drawn, items = judged.drawn(self.number), len(judged.items)
        chances = judged.probabilities(self.number)
        labels = LabelFile.read(self.output, judged.items, chances)
        if judged.missing:
            out.warn(
                f"{plural(judged.missing, 'line', 'lines')} without a verdict; the labels speak of "
                "the others alone"
            )
        if self.to_csv is not None:
            write_csv(self.to_csv, drawn, labels.of(who))
            out.show(f"{len(drawn)} of {items} items written to {self.to_csv}")
            return {"written": len(drawn), "items": items}
        step = ""
        if self.from_csv is not None:
            read = _take_csv(self.from_csv, labels, who, chances)
            say(f"{plural(read, 'label', 'labels')} of {who} read from {self.from_csv}")
            step = f"; write y or n into the column `label` of {self.from_csv}"
        elif not self.summary:
            _on_screen(drawn, labels, who, chances)
        if all(label.relevant is None for label in labels.labels):
            out.show(f"there are no labels in {self.output} yet{step}")
            return {"labels": 0, "items": items, "means": {}}
        with self.connect() as server:
            found = summarize(server.client, judged, labels, self.confidence)
        out.warn(*found.warnings, *shared_warnings("corrected mean", found.means))
        out.show(corrected_table(found.means))
        if told := more_labels(found.means):
            out.show("", told)
        return {
            "labels": len(labels.labels),
            "counted": found.counted,
            "items": items,
            "annotators": labels.annotators,
            "means": {name: asdict(mean) for name, mean in found.means.items()},
        }


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
