"""The screen by its keys: answers are kept at once, and undone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from judged.cli.label_screen import LabelScreen
from judged.labelling import Item, LabelFile
from textual.containers import VerticalScroll
from textual.pilot import Pilot
from textual.widgets import Static

WHEN = datetime(2026, 1, 31, 6, 0, tzinfo=UTC)
ITEMS = [
    Item(f"i{n}", f"q{n}", f"who won in {1990 + n}", ["Ada Berg", "Berg"], "Berg won", True, 0.4)
    for n in range(3)
]


def screen(path: Path) -> LabelScreen:
    return LabelScreen(ITEMS, LabelFile.read(path, ITEMS), lambda _: 0.25, lambda: WHEN)


def shown(pilot: Pilot[None], part: str) -> str:
    return str(pilot.app.query_one(f"#{part}", Static).content)


def kept(path: Path) -> list[tuple[str, bool | None]]:
    found = LabelFile.read(path, ITEMS).labels.values()
    return [(label.item_id, label.relevant) for label in found]


async def test_answers_are_kept_one_by_one(tmp_path):
    path = tmp_path / "labels.jsonl"
    async with screen(path).run_test(size=(80, 8)) as pilot:
        assert shown(pilot, "query") == "who won in 1990"
        texts = pilot.app.query_one(VerticalScroll)
        texts.scroll_end(animate=False, immediate=True)
        assert texts.scroll_y > 0
        await pilot.press("y")
        assert (kept(path), texts.scroll_y) == ([("i0", True)], 0)
        await pilot.press("n", "u")
        assert kept(path)[1:] == [("i1", False), ("i2", None)]
        assert "3 of 3 labelled, 1 unsure" in shown(pilot, "count")
        assert "All items have a label" in shown(pilot, "query")
        await pilot.press("y")
        assert len(kept(path)) == 3


async def test_a_label_that_can_not_be_kept_is_told_and_its_item_stays(tmp_path):
    path = tmp_path / "labels.jsonl"
    async with screen(path).run_test() as pilot:
        await pilot.press("y")
        path.unlink()
        path.mkdir()
        await pilot.press("y", "z")
        assert shown(pilot, "query") == "who won in 1991"
        assert "1 of 3 labelled" in shown(pilot, "count")
        path.rmdir()
        await pilot.press("y")
        assert kept(path) == [("i1", True)]
