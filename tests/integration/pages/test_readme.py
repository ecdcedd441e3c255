from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_script_of_a_newcomer_is_short_and_prints_what_the_readme_says(
    server_address: str, tmp_path: Path
):
    section = README.partition("## From your retriever to numbers")[2]
    code, output = re.search(r"```python\n(.*?)```\s+```\n(.*?)```", section, re.DOTALL).groups()
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    here = code.replace("127.0.0.1:8470", server_address).replace(
        "open(", f"open({str(ROOT)!r} '/' "
    )
    here = here.replace('load("', f'load("{ROOT}/')
    command = [sys.executable, "-c", here]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert printed.stdout == output
    with (tmp_path / "queries.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 90
    assert set(rows[0]) >= {"query_id", "query", "recall@5", "ndcg@10"}


def test_the_readme_example_prints_what_the_readme_says(server_address: str):
    code, output = re.search(r"```python\n(.*?)```\s+```\n(.*?)```", README, re.DOTALL).groups()
    assert '"127.0.0.1:8470"' in code
    here = code.replace("127.0.0.1:8470", server_address)
    printed = subprocess.run(
        [sys.executable, "-c", here], capture_output=True, text=True, check=True
    )
    assert printed.stdout == output


def test_a_report_takes_twelve_lines_at_most(server_address: str, tmp_path: Path):
    code = re.search(r"```python\n((?:(?!```).)*to_html.*?)```", README, re.DOTALL)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    here = code.replace("127.0.0.1:8470", server_address)
    subprocess.run([sys.executable, "-c", here], cwd=tmp_path, check=True)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "mrr@10" in page
    assert "0.5000" in page
