"""The screen for labelling items; needs textual.

The judge's verdict is not shown: it would bias the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, ProgressBar, Static

from judged.evaluation import FileError
from judged.labelling import Item, Label, LabelFile
from judged.report.content import visible


class LabelScreen(App[None]):
    """Shows the items without a label, and saves each answer at once."""

    TITLE = "judged label"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #progress { height: 1; margin: 0 1; }
    #count { margin: 0 1 1 1; color: $text-muted; }
    .title { margin: 0 1; color: $text-muted; }
    .text { margin: 0 1 1 3; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('y')", "relevant"),
        Binding("n", "answer('n')", "not relevant"),
        Binding("u", "answer('u')", "unsure"),
        Binding("z", "undo", "undo"),
        Binding("q", "quit", "save and leave"),
    ]

    def __init__(
        self,
        items: Sequence[Item],
        labels: LabelFile,
        probability: Callable[[str], float],
        now: Callable[[], datetime] = lambda: datetime.now(UTC).replace(microsecond=0),
    ) -> None:
        super().__init__()
        self._items = items
        self._labels = labels
        self._probability = probability
        self._now = now

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
        yield Footer()

    def on_mount(self) -> None:
        """Show the first item that has no label yet."""
        self._show()

    @property
    def current(self) -> Item | None:
        """The item that is shown; None once all have a label."""
        done = self._labels.labels
        return next((item for item in self._items if item.item_id not in done), None)

    def action_answer(self, key: str) -> None:
        """Save an answer, and go on to the next item."""
        item = self.current
        if item is None:
            return
        relevant = {"y": True, "n": False, "u": None}[key]
        chance = self._probability(item.item_id)
        label = Label(item.item_id, relevant, self._now(), chance)
        try:
            if self._labels.add(label):
                self.notify("someone else has just labelled this item; their label stays")
        except FileError as error:
            self.notify(str(error), severity="error", markup=False)
        self._show()

    def action_undo(self) -> None:
        """Undo the last answer, and show its item again."""
        try:
            label = self._labels.undo()
        except FileError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if label is None:
            self.notify("there is nothing to undo")
        self._show()

    def _show(self) -> None:
        done = self._labels.labels
        mine = [done[item.item_id] for item in self._items if item.item_id in done]
        unsure = sum(label.relevant is None for label in mine)
        self.query_one("#progress", ProgressBar).update(progress=len(mine))
        self.query_one("#count", Static).update(
            f"{len(mine)} of {len(self._items)} labelled, {unsure} unsure"
        )
        self.query_one(VerticalScroll).scroll_home(animate=False)
        item = self.current
        if item is None:
            self._put("query", Text("All items have a label. z takes the last one back, q leaves."))
            for part in ("expected-title", "expected", "retrieved"):
                self._put(part, Text(""))
            return
        several = len(item.expected) > 1
        self._put("query", Text(visible(item.query)))
        self._put("expected-title", Text("expected, any of these" if several else "expected"))
        self._put("expected", Text("\n".join(map(visible, item.expected))))
        self._put("retrieved", Text(visible(item.retrieved)))

    def _put(self, part: str, text: Text) -> None:
        self.query_one(f"#{part}", Static).update(text)
