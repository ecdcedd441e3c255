"""The judge `cascade` through a real server: what one stage settles costs nothing at the next."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from judged import Calibrator, Client, Flag, Judge, QueryGroup
from judged.values import load_cascade, save_cascade

from tests.fakes.providers.scripted_provider import Asked, Said, ScriptedProvider
from tests.integration.cli_process import Commands, lines_of
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server

DATA = Path(__file__).parents[3] / "benchmarks" / "equivalence" / "data" / "nq301_human.jsonl"
_RETRIEVED = re.compile(r'name="retrieved_text">\n(.*)\n<')


def script(asked: Asked) -> Said:
    """The model says yes to texts of an even length."""
    text = json.loads(_RETRIEVED.findall(asked.user)[0])
    return {"reasoning": "by length", "verdict": "no" if len(text) % 2 else "yes"}


PROVIDED = ("large",)


@pytest.fixture
def cascade_server(provider: ScriptedProvider, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server for each test: what one asks of the model must cost nothing less for the next."""
    config = llm_config(tmp_path, provider, {"large": priced(1.0, 1.0)})
    with running_server("--llm-config", config) as ready:
        yield ready


@pytest.fixture
def judged(tmp_path: Path, cascade_server: ServerProcess) -> Commands:
    return Commands(tmp_path, cascade_server.address)


def test_the_least_certain_share_is_asked_about(judged: Commands, tmp_path: Path):
    judged.fine(
        "calibrate",
        str(DATA),
        *shlex.split(
            "--judge answer_equivalence --label-field label --max-share 0.2 "
            "--resamples 200 -o my.calibration.json"
        ),
    )
    stages = shlex.split(
        "--judge cascade --stage "
        "answer_equivalence:calibration=my.calibration.json --stage llm:model=large"
    )
    given = ("judge", str(DATA), *stages)
    judged.fine(*given, "--estimate", "--json", "estimate.json")
    estimated = judged.read("estimate.json")["estimate"]["calls"]

    judged.fine(*given, "--output", "o", "--json", "j.json")
    lines = lines_of((tmp_path / "o").read_text())
    asked = [line for line in lines if line["stage"] == 2]
    assert 0 < len(asked) <= 0.2 * 293
    assert all(line["stage"] == 1 for line in lines if line not in asked)
    for line in asked:
        assert line["relevant"] == (len(line["retrieved_text"]) % 2 == 0)
    usage = judged.read("j.json")["usage"]
    assert 0 < usage["calls"] <= estimated
    told = usage["cascade"]
    assert [stage["settled"] for stage in told["stages"]] == [293 - len(asked), len(asked)]
    assert told["stages"][1]["cost"] == usage["cost"]
    would_do = judged.read("estimate.json")["estimate"]["cascade"]
    assert [stage["asked"] for stage in would_do["stages"]] == [293, len(asked)]

    judged(*given, "--trace", "t.jsonl", "--output", "first")
    judged.fine("judge", str(DATA), "--judge", "none", "--trace", "t.jsonl", "--output", "r")
    again = lines_of((tmp_path / "r").read_text())
    assert [line["stage"] for line in again] == [line["stage"] for line in lines]

    poor = judged.fine(*given, "--judge-refresh", "--max-cost", "1e-9", "--output", "p")
    lines = lines_of((tmp_path / "p").read_text())
    assert {line["status"] for line in lines} == {"OK", "ABSTAINED"}
    assert "BUDGET" in poor.stderr
    judged.fine(
        *given,
        *shlex.split("--param unsettled=earlier --judge-refresh --max-cost 1e-9 --output k"),
    )
    lines = lines_of((tmp_path / "k").read_text())
    assert sum(line.get("flags") == ["UNSETTLED"] for line in lines) == len(asked)

    early = ("--stage", "token_overlap", "--stage", "llm:model=large")
    assert "--member or --stage[0].judge.calibration: must have accept or reject" in judged.refused(
        "judge", str(DATA), "--judge", "cascade", *early
    )


def test_a_client_of_python_reads_the_stages(cascade_server: ServerProcess):
    group = QueryGroup("", ["a b c d"], ["a b c d", "d a", "x"], query_id="q1")
    with Client(cascade_server.address) as client:
        bare = client.judge([group], "token_overlap")
        sure = Calibrator(bare.judge.scoring_key, 1.0, 0.0, accept=0.9, reject=0.1)
        first = Judge("token_overlap", calibration=sure)
        found = client.judge([group], Judge("cascade", members=[first, "exact"]))
        assert found.stage == [1, 2, 1]
        assert [verdict.stage for verdict in found] == [1, 2, 1]
        assert list(found.relevant) == [True, False, False]
        alone = Judge("cascade", members=[first], parameters={"unsettled": "earlier"})
        flagged = client.judge([group], alone)
        assert [bool(v.flags & Flag.UNSETTLED) for v in flagged] == [False, True, False]
        assert flagged[1].probability == 0.5
        panel = Judge("panel", "mean", members=["exact", "token_overlap"])
        mixed = client.judge([group], Judge("cascade", members=[first, panel]))
        assert mixed.stage == [1, 2, 1]
        evaluated = client.evaluate([group], ["hit_rate@1"], Judge("cascade", members=[first]))
        assert evaluated.table["hit_rate@1"].mean == 1.0
        assert [stage.settled for stage in evaluated.usage.cascade.stages] == [2]
        assert evaluated.usage.cascade.unsettled == 1
        (streamed,) = client.judge_stream([[group]], Judge("cascade", members=[first]))
        assert streamed.verdicts.usage == evaluated.usage


def test_a_cascade_proposed_from_labels(judged: Commands, tmp_path: Path):
    stages = ("--stage", "llm:model=large", "--stage", "answer_equivalence")
    given = ("frontier", str(DATA), "--label-field", "label", *stages)
    made = judged.fine(
        *given,
        *shlex.split("--max-share 0.3 -o my.cascade.json --json f.json"),
    )
    found = judged.read("f.json")
    point = found["frontier"][found["proposed"]]
    assert point["stages"][0]["stage"] == 1
    assert all(each["share"] <= 0.4 for each in point["stages"] if each["stage"] == 0)
    assert "of what it settles contradicts people, with a confidence of 0.95" in made.stdout

    judging = ("judge", str(DATA), "--cascade", "my.cascade.json")
    done = judged.fine(*judging, "--json", "j.json")
    assert "guarantee: of data like the labels at most" in done.stderr
    told = judged.read("j.json")["usage"]["cascade"]
    assert told["guarantee"] == point["guarantee"]
    lines = judged.read("j.json")["verdicts"]
    wrong = sum(line["relevant"] != line["label"] for line in lines)
    known = point["guarantee"]
    assert wrong >= known["n_wrong"]
    assert {line["stage"] for line in lines} <= {1, 2}
    both = judged(*judging, "--judge", "exact")
    assert "--cascade: the file names the judges" in both.stderr

    kept = load_cascade(tmp_path / "my.cascade.json")
    assert kept.guarantee is not None
    others = replace(kept.guarantee, stages_sha256="0" * 64)
    save_cascade(replace(kept, guarantee=others), tmp_path / "other.json")
    assert "--cascade: is of other stages" in judged.refused(
        "judge", str(DATA), "--cascade", "other.json"
    )

    said = judged.refused(*given, "--max-error", "0.01", "-o", "n.json")
    assert "no cascade is certified at an error of 0.01" in said
    assert "there is nothing to keep" in said
    typed = judged(*given, "--stage", "exact:price=x")
    assert "--stage exact:price=x: price must be a number" in typed.stderr
    for wrong, told in (
        ("llm:model=larg", "language model 'larg' can't be asked: this server knows"),
        ("llm:model=large,rubric=none", 'rubric=none: parameters["rubric"]: must be one of'),
    ):
        assert told in judged.refused(*given, "--stage", wrong)
