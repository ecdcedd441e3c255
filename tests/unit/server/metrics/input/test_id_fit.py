"""Ids that are spelt otherwise where they were judged than where they were retrieved."""

import unicodedata

import pytest
from judged.values.agreement import IdFit
from judged_server.metrics.compute import SettledOptions, compute_trec
from judged_server.metrics.input.id_fit import add_fits, fit_warning
from judged_server.metrics.measures import parse_metrics

from tests.trec import Topic, qrels_of, run_of

MEASURES = parse_metrics(["recall"])
NFD = unicodedata.normalize("NFD", "Café_régional.md")
SPELLINGS = {
    "a path before it": ("doc0.md", "/data/docs/doc0.md", "in a path before the name"),
    "a Windows path": ("a/doc0.md", r"C:\docs\a\doc0.md", "in a path before the name"),
    "an ending": ("doc0", "doc0.txt", "in a file's ending"),
    "case": ("doc-1", "DOC-1", "in upper and lower case"),
    "a float": ("7.0", "7", "in how a number is written"),
    "zeros in front": ("7", "0007", "in how a number is written"),
    "a spreadsheet": ("1234567890123", "1.23457E+12", "in digits that were rounded"),
    "all digits": ("1234567890123", "1.234567890123e+12", "in how a number is written"),
    "a slash": ("https://a.b/c", "https://a.b/c/", "in a slash at the end"),
    "a scheme": ("https://a.b/c", "http://www.a.b/c", "in http://, https:// or www."),
    "escapes": ("Café", "Caf%C3%A9", "in per cent encoding"),
    "NFC and NFD": ("Café_régional.md", NFD, "in Unicode normal form (NFC or NFD)"),
    "a space": ("d1", "d1 ", "in white space or characters that don't show"),
    "a byte order mark": ("d1", "\ufeffd1", "in white space or characters that don't show"),
    "width": ("\uff21\uff22", "AB", "in compatible letters (NFKC)"),
    "punctuation": ("doc_1", "doc-1", "in punctuation"),
    "several": ("Doc 0", "/x/doc-0.MD", "in upper and lower case"),
    "a piece": ("doc1", "doc1#chunk-3", "in what stands before or after it"),
    "a prefix": ("doc1", "kb:doc1", "in what stands before or after it"),
    "nothing of it": ("doc1", "9f86d081", ""),
}


def fit_of(qrels: dict[str, dict[str, int]], run: dict[str, list[str]]) -> IdFit:
    topics = [Topic(q, list(of), list(of.values())) for q, of in qrels.items()]
    ranked = [Topic(q, found) for q, found in run.items()]
    table = compute_trec(MEASURES, qrels_of(topics), run_of(ranked), SettledOptions())
    return table.id_fit


@pytest.mark.parametrize(("expected", "retrieved", "how"), SPELLINGS.values(), ids=SPELLINGS)
@pytest.mark.parametrize("turned", [False, True])
def test_nothing_found_names_the_nearest_pair_and_what_differs(expected, retrieved, how, turned):
    if turned:
        expected, retrieved = retrieved, expected
    fit = fit_of({"1": {expected: 1, "other": 0}}, {"1": ["another", retrieved, "third"]})
    assert (fit.expected, fit.found, fit.retrieved) == (2, 0, 3)
    assert how in fit.difference
    said = fit_warning(fit)
    assert said.startswith("none of the 3 document ids that were retrieved is among the 2 that are")
    assert said.endswith("are they ids of the same kind, and the results of these queries?")
    assert bool(how) == ("which differ" in said)
    if how:
        assert f"{retrieved!a} and {expected!a}" in said


def test_where_no_spelling_fits_the_nearest_is_named():
    found = ["en-4711-a", "passage_0417_b", "x"]
    said = fit_warning(fit_of({"1": {"passage-0471-a": 1}}, {"1": found}))
    assert "for example 'passage_0417_b' and 'passage-0471-a'; are they" in said


def test_the_ids_of_fever_of_which_19_of_24_are_spelt_otherwise():
    """24 ids have letters outside ASCII, in NFD; the run has 19 of them in NFC."""
    named = [f"Zoë_{i}" for i in range(19)] + ["É", "Ñ", "Å", "Ç", "Ü"]
    decomposed = [unicodedata.normalize("NFD", name) for name in named]
    qrels = {str(i): {name: 1} for i, name in enumerate(decomposed)}
    qrels |= {f"p{i}": {f"plain{i}": 1} for i in range(300)}
    run = {str(i): [f"x{i}", name if i < 19 else decomposed[i]] for i, name in enumerate(named)}
    run |= {f"p{i}": [f"plain{i}" if i % 3 else f"q{i}", "y"] for i in range(300)}
    fit = fit_of(qrels, run)
    assert (fit.alike, fit.same, fit.compared) == (19, 19, 19 + 100)
    assert "19 of 119 expected document ids that were not retrieved were retrieved in another" in (
        fit_warning(fit)
    )


def test_rare_ids_are_looked_for_however_large_the_run_is():
    qrels = {str(i): {f"d{i}": 1, f"missed{i}": 1} for i in range(400)}
    run = {str(i): [f"d{i}", *(f"x{j}" for j in range(50))] for i in range(400)}
    qrels["last"] = {unicodedata.normalize("NFD", "Zoë"): 1}
    run["last"] = ["Zoë"]
    assert "Unicode normal form" in fit_warning(fit_of(qrels, run))


@pytest.mark.parametrize(
    ("ids", "alike"),
    [
        (lambda i: f"doc{i}.md", 8),  # most of the ids have an ending in the run
        (lambda i: f"/data/doc{i}", 8),
        (lambda i: f"Doc{i}", 8),
        (lambda i: f"doc{i}/", 8),
    ],
)
def test_ids_some_of_which_fit(ids, alike):
    qrels = {str(i): {f"doc{i}": 1} for i in range(10)}
    run = {str(i): [f"doc{i}" if i < 2 else ids(i), "x"] for i in range(10)}
    fit = fit_of(qrels, run)
    assert (fit.found, fit.alike, fit.compared) == (2, alike, 8)
    assert fit_warning(fit).startswith("8 of 8 expected document ids that were not retrieved")


@pytest.mark.parametrize(
    ("qrels", "run"),
    [
        # A retriever that finds one document of twenty.
        ({str(i): {f"d{i}": 1} for i in range(20)}, {str(i): [f"d{i * i}"] for i in range(20)}),
        # Titles that differ by case are two pages.
        (
            {"1": {"Apple": 1, "a": 1, "b": 1, "c": 1}, "2": {"x": 1}},
            {"1": ["apple", "a"], "2": ["x"]},
        ),
        # Files of several folders have one name.
        (
            {"1": {"a/index.md": 1, "b/index.md": 1}, "2": {"c/index.md": 1}},
            {"1": ["c/index.md", "b/index.md"], "2": ["d/index.md", "e/index.md"]},
        ),
        # Long numbers that begin alike.
        (
            {"1": {"1234567890123": 1, "1234567890124": 1, "5": 1}},
            {"1": ["1234567890125", "1234567890126", "5"]},
        ),
        # What was retrieved in another spelling is expected itself.
        ({"1": {"c": 1, "C": 1, "d": 1, "D": 1}}, {"1": ["c", "d"]}),
        # Only what is not relevant was found.
        ({"1": {"d1": 1, "d2": 0}}, {"1": ["d2", "d3"]}),
        ({"1": {"d1": 1}}, {"1": []}),
        ({"1": {"d1": 1}}, {"1": ["d1"]}),
    ],
)
def test_a_retriever_that_is_bad_is_no_question_of_spelling(qrels, run):
    assert fit_warning(fit_of(qrels, run)) == ""


def test_results_of_other_queries():
    said = fit_warning(fit_of({"1": {"a": 1}, "2": {"b": 1}}, {"1": ["b"], "2": ["a"]}))
    assert "though 'a' was retrieved for another query; are they" in said


def test_sums_of_parts_stay_within_64_bits():
    large = IdFit(*[2**64 - 1] * 6)
    assert add_fits([large, large]).expected < 2**64
