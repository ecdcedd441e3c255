"""The guarantee of a cascade: printed on data like its labels, withdrawn on others."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from judged import Client, Judge, QueryGroup
from judged.values import load_cascade, save_cascade

from tests.integration.cli_process import run_in

DATA = Path(__file__).parents[3] / "benchmarks" / "equivalence" / "data"
N = 1200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, server_address: str) -> Path:
    """A folder with a cascade made of some queries of EVOUNA-NQ, and the others, shuffled."""
    made = tmp_path_factory.mktemp("cascade")
    lines = (DATA / "evouna_nq.jsonl").read_text().splitlines(keepends=True)
    (made / "labels.jsonl").write_text("".join(lines[:N]))
    rest = lines[N : 2 * N]
    random.Random(1).shuffle(rest)
    (made / "rest.jsonl").write_text("".join(rest))
    (made / "few.jsonl").write_text("".join(lines[N : N + 50]))
    frontier = run_in(
        made,
        "frontier",
        "labels.jsonl",
        "--label-field",
        "label",
        "--max-error",
        "0.2",
        "--stage",
        "token_overlap/unicode:price=1",
        "-o",
        "my.cascade.json",
        JUDGED_TARGET=server_address,
    )
    assert frontier.returncode == 0, frontier.stderr
    assert "of data like the labels at most 0.2 of what it settles" in frontier.stdout
    cascade = load_cascade(made / "my.cascade.json")
    assert [part.name for part in cascade.guarantee.data] == ["flags", "score", "length"]
    old = replace(cascade, guarantee=replace(cascade.guarantee, data=(), labels_needed=0))
    save_cascade(old, made / "old.cascade.json")
    return made


def judged(folder: Path, address: str, data: str, cascade: str = "my", *more: str) -> Any:
    return run_in(
        folder,
        "judge",
        data,
        "--cascade",
        f"{cascade}.cascade.json",
        *more,
        JUDGED_TARGET=address,
    )


def test_it_stands_on_other_queries_of_the_same_data(folder: Path, server_address: str) -> None:
    for more in (("--output", "o.jsonl"), ("--json", "d.json")):  # block by block, and whole
        done = judged(folder, server_address, "rest.jsonl", "my", *more)
        assert done.returncode == 0, done.stderr
        assert "guarantee: of data like the labels at most 0.2" in done.stderr
    cascade = json.loads((folder / "d.json").read_text())["usage"]["cascade"]
    assert cascade["guarantee"]["max_error"] == 0.2
    assert cascade["shift"] == {"unlike": [], "not_checked": ""}
    assert "counts" not in cascade


@pytest.mark.parametrize("data", ["nq301_human", "evouna_tq"])
def test_it_is_withdrawn_on_other_data(folder: Path, server_address: str, data: str) -> None:
    path = str(DATA / f"{data}.jsonl")
    done = judged(folder, server_address, path, "my", "--json", "d.json")
    assert done.returncode == 0, done.stderr
    assert "guarantee: of data" not in done.stderr
    assert "no guarantee: " in done.stderr
    assert "are not those of the labels" in done.stderr
    document = json.loads((folder / "d.json").read_text())
    assert document["usage"]["cascade"]["guarantee"] is None
    assert document["usage"]["cascade"]["shift"]["unlike"]
    needed = load_cascade(folder / "my.cascade.json").guarantee
    assert f"label about {needed.labels_needed:,} items" in "\n".join(document["warnings"])
    assert 100 < needed.labels_needed <= N
    strict = judged(folder, server_address, path, "my", "--output", "o.jsonl", "--strict")
    assert strict.returncode == 1


def test_what_is_not_checked_is_said(folder: Path, server_address: str) -> None:
    few = judged(folder, server_address, "few.jsonl", "my", "--output", "o.jsonl")
    assert "; not checked: too few queries" in few.stderr
    old = judged(folder, server_address, str(DATA / "nq301_human.jsonl"), "old", "--output", "o")
    assert "; not checked: the cascade was made before this; make it again" in old.stderr


def test_the_library_withdraws_it_too(folder: Path, client: Client) -> None:
    cascade = load_cascade(folder / "my.cascade.json")
    groups = [
        QueryGroup(f"question {n}", ["a short answer"], ["something else " * n, "short"])
        for n in range(1, 61)
    ]
    usage = client.judge(groups, cascade).usage
    assert "length" in usage.cascade.shift.unlike
    assert usage.reported.cascade.guarantee is None
    bare = Judge("cascade", members=cascade.members)
    found = client.judge(groups, bare).usage
    assert (found.cascade.shift, list(found.cascade.counts)) == (None, [])
