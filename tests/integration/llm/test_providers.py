"""The fake provider, and one that fails, through a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import Client, Judge, QueryGroup

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Failure
from tests.integration.llm_config import llm_config
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
