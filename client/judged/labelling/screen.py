"""The screen on which somebody labels items, and the summary of labels. The screen needs textual.

What the judge said, and what other annotators did, is not shown: it would sway who looks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Input, ProgressBar, Static

from judged.client import Client
from judged.errors import InvalidArgument
from judged.evaluation import FileError
from judged.labelling.items import Item, Judged, Label, LabelFile
from judged.report.content import visible
from judged.values import (
    CalibrateOptions,
    CorrectedEstimate,
    IntervalOptions,
    LabelledScores,
    RatingTable,
)

_WORD = re.compile(r"\w+")
_LEAST_MATCH = 3
"""Characters from which a word that both texts have is marked; shorter ones are in most texts."""


class LabelScreen(App[None]):
    """Shows the items that an annotator has not labelled, and keeps each answer at once."""

    TITLE = "judged label"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #progress { height: 1; margin: 0 1; }
    #count { margin: 0 1 1 1; color: $text-muted; }
    .title { margin: 0 1; color: $text-muted; }
    .text { margin: 0 1 1 3; }
    #note { display: none; }
    #note.open { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('y')", "relevant"),
        Binding("n", "answer('n')", "not relevant"),
        Binding("u", "answer('u')", "unsure"),
        Binding("o", "note", "note"),
        Binding("z", "undo", "undo"),
        Binding("q", "quit", "save and leave"),
        Binding("escape", "close_note", "close the note", show=False),
    ]

    def __init__(
        self,
        items: Sequence[Item],
        labels: LabelFile,
        annotator: str,
        probability: Callable[[str], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC).replace(microsecond=0),
    ) -> None:
        super().__init__()
        self._items = items
        self._labels = labels
        self._annotator = annotator
        self._probability = probability
        self._now = now
        self._note = ""

    def compose(self) -> ComposeResult:
        """Return the parts of the screen."""
        yield ProgressBar(total=len(self._items), show_eta=False, id="progress")
        yield Static(id="count")
        with VerticalScroll():
            yield Static("question", classes="title")
            yield Static(id="query", classes="text")
            yield Static(id="expected-title", classes="title")
            yield Static(id="expected", classes="text")
            yield Static("found", classes="title")
            yield Static(id="retrieved", classes="text")
            yield Static(id="said", classes="text")
        yield Input(placeholder="a note on this item; Enter keeps it", id="note")
        yield Footer()

    def on_mount(self) -> None:
        """Show the first item that has no label yet."""
        self._show()

    @property
    def current(self) -> Item | None:
        """The item that is shown; None once all have a label."""
        done = self._labels.of(self._annotator)
        return next((item for item in self._items if item.item_id not in done), None)

    def action_answer(self, said: str) -> None:
        """Keep an answer, and go on to the next item."""
        item = self.current
        if item is None:
            return
        relevant = {"y": True, "n": False, "u": None}[said]
        chance = self._probability(item.item_id)
        label = Label(item.item_id, self._annotator, relevant, self._now(), chance, self._note)
        try:
            self._labels.add(label)
        except FileError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self._note = ""
        self._show()

    def action_undo(self) -> None:
        """Take the last answer back, and show its item again."""
        try:
            label = self._labels.undo(self._annotator)
        except FileError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if label is None:
            self.notify("there is nothing to undo")
        else:
            self._note = label.note
        self._show()

    def action_note(self) -> None:
        """Open the line for a note."""
        if self.current is not None:
            line = self.query_one("#note", Input)
            line.value = self._note
            line.add_class("open")
            line.focus()

    def action_close_note(self) -> None:
        """Close the line for a note, and keep nothing."""
        self.query_one("#note", Input).remove_class("open")
        self.set_focus(None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Keep the note until the item is answered."""
        self._note = event.value.strip()
        self.action_close_note()
        self._show()

    def _show(self) -> None:
        done = self._labels.of(self._annotator)
        mine = [done[item.item_id] for item in self._items if item.item_id in done]
        unsure = sum(label.relevant is None for label in mine)
        self.query_one("#progress", ProgressBar).update(progress=len(mine))
        self.query_one("#count", Static).update(
            f"{len(mine)} of {len(self._items)} labelled, {unsure} unsure; {self._annotator}"
        )
        item = self.current
        if item is None:
            self._put("query", Text("All items have a label. z takes the last one back, q leaves."))
            for part in ("expected-title", "expected", "retrieved", "said"):
                self._put(part, Text(""))
            return
        several = len(item.expected) > 1
        self._put("query", Text(visible(item.query)))
        self._put("expected-title", Text("expected, any of these" if several else "expected"))
        self._put("expected", _expected(item))
        self._put("retrieved", _marked(item.retrieved, _words(*item.expected)))
        self._put("said", Text(f"note: {self._note}" if self._note else ""))

    def _put(self, part: str, text: Text) -> None:
        self.query_one(f"#{part}", Static).update(text)


def _expected(item: Item) -> Text:
    words = _words(item.retrieved)
    lines = [_marked(text, words) for text in item.expected]
    if len(lines) > 1:
        lines = [Text.assemble(f"{n}. ", line) for n, line in enumerate(lines, 1)]
    return Text("\n").join(lines)


def _words(*texts: str) -> set[str]:
    found = {word.casefold() for text in texts for word in _WORD.findall(text)}
    return {word for word in found if len(word) >= _LEAST_MATCH}


def _marked(text: str, words: set[str]) -> Text:
    """Return a text in which the words that are in the other one too stand out."""
    shown = Text(text := visible(text))
    for match in _WORD.finditer(text):
        if match[0].casefold() in words:
            shown.stylize("bold underline", *match.span())
    return shown


_CATEGORIES = ("relevant", "not relevant")
_BELOW_HALF = 0.5 - 1e-6
_RESAMPLES = 100  # the fewest: what is resampled is not shown here


@dataclass(frozen=True, slots=True)
class Summary:
    """Corrected means by name, over all items that have a verdict.

    `means` holds the share of items that are relevant, and the share on which the judge says what
    people say; with two annotators or more also how far these agree, as `labels_only`. `counted` is
    how many items of the draw were looked at, without a gap; `warnings` are remarks on them.
    """

    means: Mapping[str, CorrectedEstimate]
    counted: int
    warnings: Sequence[str]


def summarize(
    client: Client, judged: Judged, labels: LabelFile, confidence: float | None = None
) -> Summary:
    """Return what the labels say of all items.

    Items count in the order in which they were drawn, up to the first that nobody has looked at.
    Where annotators differ, most of them decide; an item on which they are divided evenly counts as
    "unsure", and has no label. Raises InvalidArgument without any label that counts.
    """
    votes: dict[str, Counter[bool | None]] = {}
    for label in labels.labels:
        votes.setdefault(label.item_id, Counter())[label.relevant] += 1
    order = judged.drawn(len(judged.items))
    counted = next((i for i, item in enumerate(order) if item.item_id not in votes), len(order))
    decided = {item.item_id: _decision(votes[item.item_id]) for item in order[:counted]}
    warnings = []
    if beyond := len(votes) - counted:
        warnings.append(
            f"{beyond} labelled items come after one in the draw that nobody looked at, and do not "
            "count; label those in between"
        )
    if unsure := sum(said is None for said in decided.values()):
        warnings.append(
            f"{unsure} of {counted} items are unsure, and count as if nobody had looked; what is "
            "said of all items holds as far as these are like the others"
        )
    if all(said is None for said in decided.values()):
        raise InvalidArgument.of_field("labels", "none counts; label the first items of the draw")
    chances = judged.probabilities(counted)
    found = client.calibrate(
        LabelledScores(
            [_score(item) for item in judged.items],
            [decided.get(item.item_id) for item in judged.items],
            [item.cluster for item in judged.items],
            [chances[item.item_id] for item in judged.items],
        ),
        CalibrateOptions(min_score=0.5),
        IntervalOptions.of(confidence=confidence, resamples=_RESAMPLES),
    )
    means = {"share of relevant items": found.prevalence}
    if found.agreement is not None:
        means["judge agrees with people"] = found.agreement
    if len(labels.annotators) > 1:
        means |= _annotators(client, labels, confidence)
    return Summary(means, counted, warnings)


def _score(item: Item) -> float:
    """Return the belief, on the side of one half that the verdict says."""
    return max(item.belief, 0.5) if item.relevant else min(item.belief, _BELOW_HALF)


def _decision(votes: Counter[bool | None]) -> bool | None:
    return None if votes[True] == votes[False] else votes[True] > votes[False]


def _annotators(
    client: Client, labels: LabelFile, confidence: float | None
) -> dict[str, CorrectedEstimate]:
    """Return how far annotators agree on the items that two of them or more decided."""
    names = list(dict.fromkeys(label.item_id for label in labels.labels))
    ratings: dict[str, list[str | None]] = {}
    for annotator in labels.annotators:
        own = labels.of(annotator)
        said = [own[name].relevant if name in own else None for name in names]
        ratings[annotator] = [
            None if relevant is None else _CATEGORIES[0 if relevant else 1] for relevant in said
        ]
    table = RatingTable.of(list(_CATEGORIES), ratings)
    agreed = client.measure_agreement(
        table, interval=IntervalOptions.of(confidence=confidence)
    ).ratings
    if agreed is None:
        return {}
    return {
        name: CorrectedEstimate(None, None, estimate, agreed.n_items, len(names), 0.0)
        for name, estimate in (
            ("annotators agree", agreed.observed),
            ("their krippendorff_alpha", agreed.krippendorff_alpha),
        )
    }
