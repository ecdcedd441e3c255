"""The fake provider, and one that fails, through a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import Client, Flag, Judge, QueryGroup, Status, Verdicts

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Answer, Failure
from tests.integration.cli_process import fill, run_in
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server

PAGE = (Path(__file__).parents[3] / "docs" / "providers.md").read_text()
FAKE = PAGE[PAGE.index("## Fake\n") :]
TOML, LINES = (re.search(rf"```{kind}\n(.*?)```", FAKE, re.DOTALL)[1] for kind in ("toml", "jsonl"))
KEY = "sk-canary-991c"


@pytest.fixture(scope="module")
def fake_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("fake")
    (folder / "llm.toml").write_text(TOML)
    (folder / "replies.jsonl").write_text(LINES)
    with running_server("--llm-config", str(folder / "llm.toml")) as ready:
        yield ready


class TestTheFakeOfTheDocs:
    def test_prints_what_the_page_says(self, fake_server: ServerProcess, capsys):
        [program] = re.findall(r"```python\n(.*?)```", FAKE, re.DOTALL)
        [printed] = re.findall(r"```\n(OK .*?)```", FAKE, re.DOTALL)
        exec(program.replace("127.0.0.1:8470", fake_server.address), {})  # noqa: S102 - a page of ours
        assert capsys.readouterr().out == printed


def test_a_provider_that_fails_shows_no_key(tmp_path: Path):
    with (
        provider_on_a_thread(lambda _: Failure(503, f"{KEY} is overloaded")) as provider,
        running_server(
            "--llm-config",
            llm_config(tmp_path, provider, {"m": ""}, provider_lines='key_env = "THE_KEY"'),
            env={"THE_KEY": KEY},
        ) as server,
        Client(server.address) as client,
    ):
        [found] = client.judge([QueryGroup("q", ["e"], ["r"])], Judge("llm"), timeout=3)
        assert found.error is not None
        assert provider.requests > 0
        assert KEY not in found.error.message + server.log_text()


@pytest.fixture(scope="module")
def failing_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server of a model whose provider fails, one whose provider hangs, and a fallback."""
    folder = tmp_path_factory.mktemp("fallback")
    (folder / "replies.jsonl").write_text(
        '{"reply": {"reasoning": "by the spare", "verdict": "yes"}}\n'
    )
    with (
        provider_on_a_thread(lambda _: Failure(503, f"{KEY} is overloaded")) as failing,
        provider_on_a_thread(lambda _: Answer("late", delay_s=600.0)) as hanging,
    ):
        tables = [
            f'[[providers]]\nname = "hanging"\nbase_url = "{hanging.base_url}"',
            f'[[providers]]\nname = "failing"\nbase_url = "{failing.base_url}"',
            'key_env = "THE_KEY"',
            '[[providers]]\nname = "file"\ndialect = "fake"\nreplies = "replies.jsonl"',
        ]
        for name, provider, rest in (
            ("judge", "failing", f'fallback = ["spare"]\n{priced(1000.0, 1000.0)}'),
            ("patient", "hanging", 'fallback = ["spare"]'),
            ("alone", "failing", ""),
            ("spare", "file", priced(1.0, 2.0)),
        ):
            model = f'name = "{name}"\nprovider = "{provider}"\nmodel = "scripted-1"'
            tables.append(f"[[models]]\n{model}\n{rest}")
        (folder / "llm.toml").write_text("\n".join(tables))
        config = str(folder / "llm.toml")
        with running_server("--llm-config", config, env={"THE_KEY": KEY}) as ready:
            yield ready


class TestFallbacks:
    def ask(self, server: ServerProcess, model: str, seconds: float = 60.0) -> Verdicts:
        judge = Judge("llm", parameters={"model": model})
        groups = [QueryGroup("q", ["e"], ["text"])]
        with Client(server.address) as client:
            return client.judge(groups, judge, include_details=True, timeout=seconds)

    def test_answer_and_say_so_at_their_own_price(self, failing_server: ServerProcess):
        found = self.ask(failing_server, "judge")
        detail, usage = found[0].detail, found.usage
        assert detail is not None
        assert usage is not None
        assert (found.relevant, detail.rationale) == ([True], "by the spare")
        assert [sample.fallback for sample in detail.samples] == ["spare"]
        assert found.flags == [Flag.FALLBACK]
        assert usage.calls == 1
        assert usage.cost == pytest.approx((usage.input_tokens + 2 * usage.output_tokens) / 1e6)
        assert "llm fallback" in failing_server.log_text()
        assert KEY not in failing_server.log_text()

    def test_answer_in_time_for_one_that_hangs(self, failing_server: ServerProcess):
        assert self.ask(failing_server, "patient", 8).relevant == [True]

    def test_are_asked_only_where_they_are_configured(self, failing_server: ServerProcess):
        [verdict] = self.ask(failing_server, "alone", 3.0)
        assert verdict.status is Status.ERROR

    def test_change_the_fingerprint(self, failing_server: ServerProcess):
        prints = {self.ask(failing_server, model).judge.fingerprint for model in ("judge", "spare")}
        assert len(prints) == 2

    @pytest.mark.parametrize(
        "command", ["judge contexts.jsonl", "evaluate dataset.json --results results.jsonl -m mrr"]
    )
    def test_are_told_on_the_command_line(
        self, failing_server: ServerProcess, tmp_path: Path, command: str
    ):
        fill(tmp_path)
        to = ["--target", failing_server.address, "--judge", "llm", "--strict"]
        for model, status in (("judge", 1), ("spare", 0)):
            done = run_in(tmp_path, *command.split(), *to, "--judge-model", model)
            assert done.returncode == status, done.stderr
            assert ("by a fallback" in done.stderr) == bool(status)
