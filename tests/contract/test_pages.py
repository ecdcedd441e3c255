"""Every page is in the index, and every link leads to a page and a heading that are there."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]
FENCES = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
LINKS = re.compile(r"\]\(([^)\s]+)\)")


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _links(page: Path) -> list[tuple[Path, str]]:
    """Return the files and the anchors that a page links to, other sites left out."""
    found = (link.partition("#") for link in LINKS.findall(_text(page)) if "://" not in link)
    return [((page.parent / path).resolve() if path else page, at) for path, _, at in found]


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those it sets, and those GitHub makes of its headings."""
    text, seen = FENCES.sub("", _text(page)), Counter[str]()
    anchors = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return anchors


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for target, anchor in _links(page):
        assert target.exists(), f"no file {target}"
        assert not anchor or anchor in _anchors(target), f"no heading {target}#{anchor}"


def test_the_index_lists_every_page_once() -> None:
    listed = Counter(target for target, _ in _links(INDEX))
    pages = {page for page in DOCS.glob("**/*.md") if page != INDEX}
    assert set(listed) == pages
    assert {target.name for target, times in listed.items() if times > 1} == set()


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None,
    reason="not run: no systemd-analyze (apt-get install systemd)",
)
def test_the_unit_of_systemd_is_one(tmp_path: Path) -> None:
    unit = re.findall(r"^```ini\n(.*?)^```$", _text(DOCS / "teams.md"), re.DOTALL | re.MULTILINE)[0]
    path = tmp_path / "judged.service"
    path.write_text(unit.replace("/opt/judged/bin/judged-server", sys.executable), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False
    )
    assert "judged.service" not in done.stderr, done.stderr
