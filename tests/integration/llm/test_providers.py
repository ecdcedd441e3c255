"""Dialects, the fake provider and fallbacks, through a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import Client, Flag, Judge, QueryGroup, Status

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Answer, Asked, Failure, Said, ScriptedProvider
from tests.integration.cli_process import fill, run_in
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


def script(asked: Asked) -> Said:
    """Fail for good, with what would leak if it were shown."""
    return Failure(503, f"{KEY} is overloaded")


@pytest.fixture(scope="module")
def hanging() -> Iterator[ScriptedProvider]:
    """A provider that takes requests and says nothing."""
    with provider_on_a_thread(lambda _: Answer("late", delay_s=600.0)) as running:
        yield running


@pytest.fixture(scope="module")
def failing_server(
    provider: ScriptedProvider, hanging: ScriptedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("fallback")
    (folder / "replies.jsonl").write_text(
        '{"contains": "broken", "reply": {"verdict": "maybe"}}\n'
        '{"reply": {"reasoning": "by the spare", "verdict": "yes"}}\n'
    )
    (folder / "llm.toml").write_text(
        f"""
        [[providers]]
        name = "failing"
        base_url = "{provider.base_url}"
        key_env = "THE_KEY"

        [[providers]]
        name = "hanging"
        base_url = "{hanging.base_url}"

        [[providers]]
        name = "file"
        dialect = "fake"
        replies = "replies.jsonl"

        [[models]]
        name = "judge"
        provider = "failing"
        model = "scripted-1"
        fallback = ["spare"]
        input_per_million = 1000.0
        output_per_million = 1000.0

        [[models]]
        name = "patient"
        provider = "hanging"
        model = "scripted-1"
        fallback = ["spare"]

        [[models]]
        name = "alone"
        provider = "failing"
        model = "scripted-1"

        [[models]]
        name = "first"
        provider = "file"
        model = "spare-1"
        fallback = ["judge"]

        [[models]]
        name = "spare"
        provider = "file"
        model = "spare-1"
        input_per_million = 1.0
        output_per_million = 2.0
        """
    )
    config = str(folder / "llm.toml")
    with running_server("--llm-config", config, env={"THE_KEY": KEY}) as ready:
        yield ready


class TestFallbacks:
    def ask(
        self, failing_server: ServerProcess, model: str, text: str = "text", seconds: float = 60.0
    ):
        with Client(failing_server.address) as client:
            return client.judge(
                [QueryGroup("q", ["e"], [text])],
                Judge("llm", parameters={"model": model}),
                include_details=True,
                timeout=seconds,
            )

    def test_answer_and_say_so_at_their_own_price(self, failing_server: ServerProcess):
        found = self.ask(failing_server, "judge")
        assert found.relevant == [True]
        detail, usage = found[0].detail, found.usage
        assert (detail.model, detail.rationale) == ("spare-1", "by the spare")
        assert [sample.fallback for sample in detail.samples] == ["spare"]
        assert found.flags == [Flag.FALLBACK]
        assert usage.calls == 1
        assert usage.attempts >= 1
        assert usage.cost == pytest.approx((usage.input_tokens + 2 * usage.output_tokens) / 1e6)

    @pytest.mark.parametrize(
        "command", ["judge contexts.jsonl", "evaluate dataset.json --results results.jsonl -m mrr"]
    )
    def test_are_told_without_details_too(
        self, failing_server: ServerProcess, tmp_path: Path, command: str
    ):
        fill(tmp_path)
        to = ["--target", failing_server.address, "--judge", "llm", "--json", "out.json"]
        for model, count in (("judge", 2), ("spare", 0)):
            done = run_in(tmp_path, *command.split(), *to, "--judge-model", model)
            assert done.returncode == 0, done.stderr
            assert ("by a fallback" in done.stderr) == (count > 0)
            told = re.findall(r'"flagged_fallback": *(\d+)', (tmp_path / "out.json").read_text())
            assert told == ([str(count)] if count else [])
        strict = run_in(tmp_path, *command.split(), *to, "--judge-model", "judge", "--strict")
        assert strict.returncode == 1

    def test_answer_in_time_for_one_that_hangs(
        self, failing_server: ServerProcess, hanging: ScriptedProvider
    ):
        with Client(failing_server.address) as client:
            judge = Judge("llm", parameters={"model": "patient"})
            found = client.judge([QueryGroup("q", ["e"], ["text"])], judge, timeout=8)
        assert hanging.requests >= 1
        assert found.relevant == [True]
        assert found.status == [Status.OK]

    def test_show_no_key(self, failing_server: ServerProcess):
        self.ask(failing_server, "judge")
        log = failing_server.log_text()
        assert "llm fallback" in log
        assert KEY not in log
