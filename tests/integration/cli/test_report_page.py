"""The report's page in a real browser: Chromium without a window, opened from a file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged.report import make_report, to_html
from playwright.sync_api import Browser, Page, sync_playwright

from tests.fakes.result_documents import HOSTILE, comparison, hostile_document, result_document
from tests.integration import node_programs

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
READY = "html[data-ready]"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("not run: no chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser, tmp_path):
    """Return what opens a report and checks that it asked nobody for anything."""
    pages: list[Page] = []
    asked: list[str] = []
    wrong: list[str] = []

    def opens(html: str, **options: object) -> Page:
        path = tmp_path / f"{len(pages)}.html"
        path.write_text(html, encoding="utf-8")
        page = browser.new_page(**options)
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.goto(path.as_uri())
        page.wait_for_selector(READY, state="attached")
        pages.append(page)
        return page

    yield opens
    documents = {page.url for page in pages}
    for page in pages:
        page.close()
    assert set(asked) <= documents
    assert wrong == []


def ids(page: Page) -> list[str]:
    return page.locator("#body th button").all_inner_texts()


def test_a_search_and_a_kind_narrow_the_table(opened):
    page = opened(to_html(make_report(result_document(300))))
    assert page.inner_text("#shown") == "300 queries"
    page.fill("#search", "Q0012")
    assert page.inner_text("#shown") == "10 of 300 queries"
    assert sorted(ids(page)) == [f"q0012{digit}" for digit in range(10)]
    page.fill("#search", "")
    page.select_option("#kind", label="nothing relevant retrieved")
    shown = int(page.inner_text("#shown").split()[0])
    page.select_option("#kind", "")
    page.get_by_role("button", name=f"Show all {shown} in the table").click()
    assert page.inner_text("#shown") == f"{shown} of 300 queries"
    page.fill("#search", "no such query")
    assert page.is_visible("#empty")


def test_of_3000_rows_the_first_500_are_drawn_and_a_search_finds_the_others(opened):
    page = opened(to_html(make_report(result_document(3000))))
    assert page.locator("#body tr").count() == 500
    assert "3,000 queries; the first 500 are shown" in page.inner_text("#shown")
    page.fill("#search", "q02999")
    assert ids(page) == ["q02999"]
    page.focus("#body th button")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.textContent").startswith("q02999")


def test_a_query_shows_its_texts_with_the_shared_words_marked(opened):
    document = result_document(1)
    query = document["queries"][0]
    query["expected"] = ["Straße und Brücke, which the town has, of 1991"]
    query["retrieved"][0]["text"] = "the straße, which has the bridge; of 1991"
    page = opened(to_html(make_report(document)))
    page.click("#body th button")
    marks = page.locator("#detail .side > div >> nth=1").locator("li >> nth=0").locator("mark")
    assert marks.all_inner_texts() == ["straße", "1991"]
    assert page.locator("#detail .results >> nth=1").locator("li").count() == 10


def test_hostile_texts_are_shown_and_not_run(opened):
    page = opened(to_html(make_report(hostile_document(), title=HOSTILE)))
    page.click("#body th button")
    shown = HOSTILE.replace("\0", "\u2400").replace("\x1b", "\u241b").replace("\ud800", "\ufffd")
    assert page.evaluate("window.owned") is None
    assert page.title() == shown
    for place in ("h1", "#detail .query", ".warnings li", "#detail .about bdi >> nth=0"):
        assert page.locator(place).first.inner_text() == shown
    assert page.locator("#detail .results .text").first.inner_text() == shown
    assert page.locator("b").count() == 0


def test_a_browser_without_scripts_shows_the_numbers(browser, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(to_html(make_report(result_document(20))), encoding="utf-8")
    page = browser.new_page(java_script_enabled=False)
    page.goto(path.as_uri())
    assert page.is_visible("th >> text=ndcg@10")
    assert page.is_visible("noscript p")
    page.close()


def long_names() -> dict[str, object]:
    """Return a document whose metrics, topics, ids and gates have names without a blank."""
    text = json.dumps(result_document(20))
    for name in ("topic", "python", "mrr", "q00001", "retrieval"):
        text = text.replace(name, f"{name}_with_more_characters_than_a_telephone_has_room_for" * 2)
    document: dict[str, object] = json.loads(text)
    document["name"] = "a-file-with-a-name-that-somebody-typed-without-a-single-blank.json"
    document["gates"] = [{"passed": False, "message": "--min-score" * 20}]
    return document


REPORTS = {
    "long names": lambda: make_report(long_names()),
    "many": lambda: make_report(result_document(100)),
    "none": lambda: make_report(result_document(0)),
    "all fail": lambda: make_report(result_document(20, fails=True)),
    "two": lambda: make_report(
        result_document(20, 2), result_document(20, 1), [comparison("mrr", -0.1, 0.001)]
    ),
}


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("kind", list(REPORTS))
def test_axe_finds_nothing_and_nothing_is_cut_off(browser, tmp_path, kind, width, scheme):
    node_programs.install()
    axe = (Path(node_programs.FOLDER) / "node_modules/axe-core/axe.min.js").read_text("utf-8")
    path = tmp_path / "report.html"
    path.write_text(to_html(REPORTS[kind]()), encoding="utf-8")
    viewport = {"width": width, "height": 800}
    # The page's policy lets no other script run, so it is put aside for the one that looks at it.
    page = browser.new_page(bypass_csp=True, viewport=viewport, color_scheme=scheme)
    page.goto(path.as_uri())
    page.wait_for_selector(READY, state="attached")
    if kind != "none":
        page.click("#body th button")
        page.evaluate("document.querySelectorAll('details').forEach((part) => part.open = true)")
    page.evaluate(axe)
    found = page.evaluate("axe.run().then((result) => result.violations)")
    assert [(rule["impact"], rule["id"], rule["nodes"][0]["html"]) for rule in found] == []
    wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wider) <= 0
    page.close()
