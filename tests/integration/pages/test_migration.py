"""What docs/migration.md shows of trec_eval and datapizza, run; tests/adapters has the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval

from tests.integration.cli_process import run_in

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "migration.md").read_text(encoding="utf-8")
QRELS = "1 0 a 1\n1 0 b 0\n2 0 a 1\n3 0 a 1\n"
RUN = "1 Q0 a 1 9 x\n1 Q0 b 2 8 x\n2 Q0 b 1 9 x\n2 Q0 a 2 8 x\n"


def test_metrics_of_qrels_are_those_of_trec_eval(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "run.txt").write_text(RUN)
    console = re.search(r"## trec_eval.*?```console\n(.*?)```", PAGE, re.DOTALL)[1]
    commands = re.findall(r"^\$ judged (.*)\n((?:(?!\$ ).*\n)*)", console, re.MULTILINE)
    assert len(commands) == 2
    for command, shown in commands:
        done = run_in(tmp_path, *command.split())
        assert done.stderr + done.stdout.lstrip("\n") == shown
    measured = pytrec_eval.RelevanceEvaluator(
        {"1": {"a": 1, "b": 0}, "2": {"a": 1}, "3": {"a": 1}}, {"ndcg_cut.10", "map"}
    ).evaluate({"1": {"a": 9.0, "b": 8.0}, "2": {"b": 9.0, "a": 8.0}})
    for name, key in (("ndcg@10", "ndcg_cut_10"), ("ap", "map")):
        total = sum(values[key] for values in measured.values())
        for (_, shown), n in zip(commands, (2, 3), strict=True):
            assert re.search(rf"^{name} +{total / n:.4f} +{n}$", shown, re.MULTILINE)


def test_qrels_and_runs_in_python_are_measured_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, server_address: str
) -> None:
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "run.txt").write_text(RUN)
    monkeypatch.chdir(tmp_path)
    section = PAGE[PAGE.index("## trec_eval") :]
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", section, re.DOTALL).groups()
    exec(code.replace("127.0.0.1:8470", server_address), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out == shown


def test_the_metrics_of_datapizza_by_their_formula(server_address: str) -> None:
    code = re.search(r"## datapizza\n\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
    names: dict[str, Any] = {}
    exec(code.replace("127.0.0.1:8470", server_address), names)  # noqa: S102 - our own page
    chunks, truth = names["chunks"]["q1"], set(names["dataset"].queries[0].expected_answers)
    found = names["found"]
    once = len(set(chunks[:5]) & truth)
    assert found["precision@5"].mean == pytest.approx(once / 5)
    assert found["recall_exact@5"].mean == pytest.approx(once / len(truth))
    assert found["precision_exact@5"].mean == pytest.approx(sum(c in truth for c in chunks) / 5)
    assert "`precision@5` is 0.4" in PAGE
    assert "and `precision_exact@5` 0.6; `recall_exact@5` is 0.6667" in " ".join(PAGE.split())
