"""The plugin for pytest, in a project of its own that knows nothing of this one."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from judged.evaluation import Dataset

from tests.integration.cli_process import fill
from tests.integration.llm_config import fake_llm_config

TESTS = """
from pathlib import Path

import pytest

from judged.testing import assert_metric


@pytest.fixture
def found(judged_evaluate, judged_client, worker_id):
    with Path(f"{worker_id}.targets").open("a") as file:
        file.write(judged_client.target + "\\n")
    return judged_evaluate("results.jsonl", "dataset.json", ["recall@5", "mrr"])


@pytest.mark.parametrize("n", range(6))
def test_holds(found, n):
    assert_metric(found, "recall@5", min_score=0.75)


def test_falls_short(found):
    assert_metric(found, "mrr", min_score=0.9)


def test_another_name(found):
    assert_metric(found, "ndcg@5", min_score=0.1)


def test_of_nothing():
    pass
"""
SCORES_ANSWERS = """
import pytest

from judged import AnswerItem
from judged.evaluation import Question, evaluate_answers
from judged.testing import assert_metric, assert_rubric

QUESTION = "When did Python appear?"
SAID = {"right": "In 1991.", "wrong": "In 1989.", "unread": "overload", "empty": ""}
ITEMS = [AnswerItem(name, QUESTION, text, references=["1991"]) for name, text in SAID.items()]


@pytest.fixture
def scored(judged_client):
    return judged_client.score_answers(ITEMS, ["answer_match"])


def test_holds(scored):
    assert_rubric(scored, "answer_match", min_score=1 / 3)


def test_falls_short(scored):
    assert_rubric(scored, "answer_match", min_score=0.5)


def test_another_rubric(scored):
    assert_rubric(scored, "faithfulness", min_score=0.5)


def test_of_scores(scored):
    assert_metric(scored, "answer_match", min_score=0.5)


def test_the_system(judged_client):
    def system(query):
        if query != QUESTION:
            raise LookupError("nothing found")
        return "In 1991."

    questions = [Question("known", QUESTION, ["1991"]), Question("other", "When?", ["1989"])]
    found = evaluate_answers(questions, system, ["answer_match"], client=judged_client)
    assert_rubric(found, "answer_match", min_score=0.5)
    assert_rubric(found, "answer_match", min_score=0.6)
"""
SCORES = [
    {"contains": "overload", "error": "RATE_LIMITED"},
    {"contains": {"answer": "1991"}, "reply": {"reasoning": "It is right.", "verdict": "yes"}},
    {"reply": {"reasoning": "It is another year.", "verdict": "no"}},
]


def pytest_in(
    folder: Path, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JUDGED_")}
    # Named here, so that it is the plugin of this checkout and not one that is installed.
    clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    plugins = ("-p", "judged.pytest_plugin", "-p", "xdist")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def table_of(output: str, start: str) -> list[str]:
    lines = output[output.index("== judged ==") :].splitlines()
    return [line for line in lines if line.startswith(start)]


@pytest.fixture
def project(tmp_path):
    fill(tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return tmp_path


def test_workers_have_one_table_and_one_junit_file(project):
    (project / "test_retriever.py").write_text(TESTS)
    done = pytest_in(project, "-n", "2", "--dist", "each", "--junitxml=junit.xml")
    assert done.returncode == 1
    assert "14 passed, 4 failed" in done.stdout or "4 failed, 14 passed" in done.stdout, done.stdout

    targets = {path.stem: set(path.read_text().split()) for path in project.glob("*.targets")}
    assert set(targets) == {"gw0", "gw1"}
    for address in targets["gw0"] | targets["gw1"]:
        assert not Path(address.removeprefix("unix:")).exists(), "the server outlived the session"

    assert done.stdout.count("== judged ==") == 1
    table = table_of(done.stdout, "test_retriever.py::")
    assert len(table) == 2 * 8 * 2  # each worker ran all tests, eight of them with two metrics
    held = [line.split()[1:3] for line in table if "reaches 0.75" in line]
    assert held == [["recall@5", "0.7500,"]] * 12
    assert ["is below 0.9" in line for line in table].count(True) == 2

    root = ET.fromstring((project / "junit.xml").read_text())  # noqa: S314 - written by pytest
    properties = [(p.get("name"), p.get("value")) for p in root.iter("property")]
    assert len([p for p in properties if p[0] == "judged:mrr"]) == 16
    assert all(value.startswith("0.7500, ") for _, value in properties)
    failures = sorted(failure.get("message") for failure in root.iter("failure"))
    assert "mrr is 0.7500" in failures[0]
    assert "0.1500 below min_score=0.9" in failures[0]
    assert "the result has no ndcg@5; it has recall@5, mrr" in failures[-1]


def test_without_an_evaluation_there_is_no_server_and_no_table(project):
    # With a conftest that is not for all tests pytest keeps plugins in sets.
    for folder in ("one", "two"):
        (project / folder).mkdir()
        (project / folder / "conftest.py").write_text("")
        (project / folder / f"test_{folder}.py").write_text("def test_plain(): pass\n")
    done = pytest_in(project, "--judged-target", "127.0.0.1:9")
    assert done.returncode == 0
    assert "judged ==" not in done.stdout


def test_a_name_that_is_wrong_is_told_at_the_line_of_the_test(project):
    (project / "test_names.py").write_text(
        "def test_metric(judged_evaluate):\n"
        "    judged_evaluate('results.jsonl', 'dataset.json', ['ndgc@10'], 'exact')\n"
        "def test_file(judged_evaluate):\n"
        "    judged_evaluate('results.jsonl', 'datset.json', ['mrr'], 'exact')\n"
        "def test_table(judged_evaluate):\n"
        "    judged_evaluate('results.jsonl', 'dataset.jsonl', ['mrr'], 'exact')\n"
    )
    Dataset.load(project / "dataset.json").save(project / "dataset.jsonl")
    done = pytest_in(project)
    assert done.returncode == 1
    assert "1 passed" in done.stdout
    assert "no metric is called 'ndgc'; did you mean ndcg?" in done.stdout
    assert "datset.json: there is no such file" in done.stdout
    assert "test_names.py:2: InvalidArgument" in done.stdout
    assert "test_names.py:4: FileError" in done.stdout
    assert "_transport" not in done.stdout
    assert "grpc" not in done.stdout


def test_answers_are_held_to_a_rubric_with_what_is_missing_at_its_worst(project):
    (project / "test_scores.py").write_text(SCORES_ANSWERS)
    config = fake_llm_config(project, {"judge": SCORES})
    settings = {"JUDGED_LLM_CONFIG": config, "JUDGED_LLM_CACHE": "off"}
    done = pytest_in(project, "-p", "no:randomly", **settings)
    assert "4 failed, 1 passed" in done.stdout, done.stdout
    short = "answer_match is 0.3333 over 3 answers, 1 of them missing and counted as 0, 0.1667 "
    assert f"{short}below min_score=0.5" in done.stdout
    assert "  0.0000  wrong  It is another year." in done.stdout
    assert "error  unread" in done.stdout
    assert "rubric: nothing was scored by faithfulness, but by answer_match" in done.stdout
    assert "'ScoredAnswers' object has no attribute 'table'" in done.stdout
    assert "answer_match is 0.5000 over 2 answers, 1 of them missing" in done.stdout
    assert "failed  other  LookupError: nothing found" in done.stdout
    table = table_of(done.stdout, "test_scores.py::")
    assert [line.split()[0].partition("::")[2] for line in table] == [
        "test_falls_short",
        "test_holds",
        "test_the_system",
        "test_the_system",
    ]
    assert table[1].split()[1:] == ["answer_match", "0.5000,", "n", "2,", "reaches", "0.333333"]
