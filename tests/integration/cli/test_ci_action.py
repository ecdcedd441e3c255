"""The steps of the GitHub Action and of GitLab's recipe, run in repositories made for the test."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.integration.cli_process import run_in
from tests.integration.server_process import running_server

ROOT = Path(__file__).resolve().parents[3]
ACTION = yaml.safe_load((ROOT / "deploy/github-action/action.yml").read_text())
RECIPE = yaml.safe_load((ROOT / "deploy/gitlab/judged.yml").read_text())
METRICS = ("recall@5", "mrr", "ndcg@5")
EVALUATE = "judged evaluate dataset.json --results results.jsonl --json result.json" + "".join(
    f" -m {metric}" for metric in METRICS
)
N = 60


@pytest.fixture(scope="module")
def server():
    with running_server() as started:
        yield started


class Repository:
    """A clone with a remote, and the steps of the Action run in it."""

    def __init__(self, folder: Path, target: str) -> None:
        self.at = folder / "clone"
        self._folder = folder
        bin_folder = str(Path(sys.executable).parent)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("JUDGED_", "GIT_"))}
        self.environment = kept | {
            "PATH": f"{bin_folder}:{os.environ['PATH']}",
            "JUDGED_TARGET": target,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_AUTHOR_NAME": "a",
            "GIT_AUTHOR_EMAIL": "a@example.com",
            "GIT_COMMITTER_NAME": "a",
            "GIT_COMMITTER_EMAIL": "a@example.com",
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "GITHUB_OUTPUT": str(folder / "output"),
        }

    def begin(self) -> None:
        """Make the remote, the clone and the first commit."""
        folder = self._folder
        self.run("git", "init", "-q", "--bare", str(folder / "remote"), cwd=folder)
        self.run("git", "clone", "-q", str(folder / "remote"), str(self.at), cwd=folder)
        self.run("git", "checkout", "-q", "-b", "main")
        queries = [
            {"query_id": f"q{n}", "query_text": f"query {n}", "expected_doc_ids": [f"d{n}"]}
            for n in range(N)
        ]
        (self.at / "dataset.json").write_text(json.dumps({"queries": queries}, indent=1))
        self.retrieve(lambda n: n % 3)
        self.run("git", "add", ".")
        self.run("git", "commit", "-q", "-m", "first")
        self.run("git", "push", "-q", "origin", "main")

    def run(self, *command: str, cwd: Path | None = None, **environment: str) -> str:
        done = subprocess.run(
            command,
            cwd=cwd or self.at,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def retrieve(self, rank_of) -> None:
        """Write results: the relevant document of query n at a rank, from 0; -1 for nowhere."""
        lines = []
        for n in range(N):
            ids = [f"other{n}-{rank}" for rank in range(5)]
            if (rank := rank_of(n)) >= 0:
                ids[rank] = f"d{n}"
            results = [{"doc_id": doc_id} for doc_id in ids]
            lines.append(json.dumps({"query_id": f"q{n}", "results": results}) + "\n")
        (self.at / "results.jsonl").write_text("".join(lines))

    def action(self, event: str, **inputs: str) -> tuple[int, str]:
        """Run the steps as the event would; return the last status and all that was printed."""
        given = {name: about.get("default", "") for name, about in ACTION["inputs"].items()}
        given |= {
            "evaluate": EVALUATE,
            "install": "",
            "comment": "false",
        }
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        for name in ("summary.md", "output"):
            (self._folder / name).write_text("")
        outputs: dict[str, str] = {}
        printed = ""
        for step in ACTION["runs"]["steps"]:
            if not holds(step.get("if", "true"), given, event):
                continue
            environment = {
                name: filled(str(value), given, outputs) for name, value in step["env"].items()
            }
            # The flags that a runner gives to `shell: bash`.
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.at,
                env=self.environment | environment,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            printed += done.stdout + done.stderr
            if done.returncode:
                return done.returncode, printed
            said = (self._folder / "output").read_text().splitlines()
            outputs = dict(line.split("=", 1) for line in said)
        return 0, printed

    @property
    def comment(self) -> str:
        return (self.at / "judged-comment.md").read_text()


def holds(condition: str, inputs: dict[str, str], event: str) -> bool:
    """Return what a runner makes of an `if`: comparisons joined by &&."""
    for part in condition.split(" && "):
        if part == "true":
            continue
        left, sign, right = part.split()
        name = left.partition(".")[2]
        value = {"event_name": event, "ref_name": "main"}.get(name)
        value = inputs[name] if value is None else value
        other = inputs[right.partition(".")[2]] if right.startswith("inputs.") else right.strip("'")
        if (value == other) is not (sign == "=="):
            return False
    return True


def filled(text: str, inputs: dict[str, str], outputs: dict[str, str]) -> str:
    """Return a text with its expressions replaced by what they name."""

    def value(expression: re.Match[str]) -> str:
        name = expression[1].strip()
        if name.startswith("inputs."):
            return inputs[name.partition(".")[2]]
        assert name == "steps.compare.outputs.status", name
        return outputs["status"]

    return re.sub(r"\$\{\{(.*?)\}\}", value, text)


@pytest.fixture(scope="module")
def saved(tmp_path_factory, server):
    """A repository whose main has a baseline."""
    made = Repository(tmp_path_factory.mktemp("saved"), server.address)
    made.begin()
    status, printed = made.action("push")
    assert status == 0, printed
    assert "kept result.json as the baseline" in printed
    return made


@pytest.fixture
def repository(tmp_path, saved, server):
    """A copy of it, on a branch."""
    shutil.copytree(saved.at.parent, tmp_path, dirs_exist_ok=True)
    copy = Repository(tmp_path, server.address)
    copy.run("git", "remote", "set-url", "origin", str(tmp_path / "remote"))
    copy.run("git", "checkout", "-q", "-b", "branch")
    return copy


def test_a_regression_is_red_and_says_where(repository):
    repository.retrieve(lambda n: 4 if n < 30 else n % 3)
    status, printed = repository.action("pull_request")
    assert status == 1, printed
    assert repository.comment.startswith(
        "<!-- judged ci -->\n### Retrieval: 2 worse, 0 better of 3 metrics"
    )
    assert "| `mrr` |" in repository.comment
    assert "no clear difference" in repository.comment  # recall@5 is as it was
    assert "of main, 0 days old" in repository.comment
    lost = re.findall(r"- \*\*q(\d+)\*\* .*: `(?:mrr|ndcg@5)` ", repository.comment)
    assert len(lost) == 10
    assert all(int(number) < 30 for number in lost)
    assert (repository.at / "judged-report.html").stat().st_size > 10_000
    assert repository.comment in (repository.at.parent / "summary.md").read_text()


def test_without_a_baseline_nothing_is_compared(tmp_path, server):
    repository = Repository(tmp_path, server.address)
    repository.begin()
    status, printed = repository.action("pull_request")
    assert status == 0, printed
    assert "There is no baseline of main yet" in repository.comment


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "judged: before.json: there is no such file"),
        ("[1]", "judged: before.json: "),
        ("{", "judged: before.json: is not JSON"),
        ("{}", "judged: before.json: is no document of"),
    ],
)
def test_a_baseline_that_is_a_file_is_named_as_one(repository, content, said):
    repository.retrieve(lambda n: 0)
    if content is not None:
        (repository.at / "before.json").write_text(content)
    done = run_in(repository.at, "ci", "result.json", "--baseline", "before.json")
    assert done.returncode == 2
    assert done.stderr.startswith(said), done.stderr


def test_a_comparison_with_a_file_names_the_file(repository):
    result = repository.at / "result.json"
    (repository.at / "before.json").write_bytes(result.read_bytes())
    command = shlex.split("ci result.json --baseline before.json --json ci.json")
    done = run_in(repository.at, *command)
    assert done.returncode == 0, done.stderr
    assert "Baseline: the file before.json, 0 days old" in done.stdout
    baseline = json.loads((repository.at / "ci.json").read_text())["baseline"]
    assert (baseline["commit"], baseline["file"]) == (None, "before.json")

    document = json.loads(result.read_bytes())
    document["queries"][3] |= {"failure": "down", "retrieved": []}
    del document["per_query"][document["queries"][3]["query_id"]]
    result.write_text(json.dumps(document))
    done = run_in(repository.at, *command)
    assert done.returncode == 1
    assert "the retriever failed on 1 query with a value in main, the first 'q3'" in done.stderr


def test_what_was_measured_in_another_way_is_not_compared(repository):
    evaluate = EVALUATE.replace(" -m ndcg@5", " --matching any")
    status, printed = repository.action("pull_request", evaluate=evaluate)
    assert status == 2, printed
    assert "--allow-other-signature" in printed
    assert not (repository.at / "judged-comment.md").exists()


def test_a_branch_of_other_things_is_left_alone(repository):
    done = run_in(repository.at, "ci", "result.json", "--save", "--branch", "main")
    assert done.returncode == 2
    assert "--branch main: was not written by judged ci --save" in done.stderr


def test_gitlabs_job_writes_what_its_artifacts_name(repository):
    repository.retrieve(lambda n: 4)
    job = RECIPE["judged-compare"]
    variables = RECIPE["variables"] | {"JUDGED_EVALUATE": EVALUATE, "CI_DEFAULT_BRANCH": "main"}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(job["script"])],
        cwd=repository.at,
        env=repository.environment | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    for name in job["artifacts"]["paths"]:
        assert (repository.at / name).is_file()
