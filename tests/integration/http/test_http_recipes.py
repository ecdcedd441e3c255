"""The recipes of docs/http.md, as a reader types them, with the real curl against a real server."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.http_calls import http_address
from tests.integration.languages.test_languages import needs
from tests.integration.llm_config import fake_llm_config
from tests.integration.server_process import running_server

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "http.md").read_text(encoding="utf-8")
RECIPES = {
    heading: (recipe, shown)
    for heading, recipe, shown in re.findall(
        r"^##+ (\w+)\n(?:(?!^#).*\n)*?```sh\n(curl -s(?:.*\n)+?)```\n\n```json\n((?:.*\n)+?)```$",
        PAGE,
        re.MULTILINE,
    )
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    reply = {"reply": {"reasoning": "Both name Paris.", "verdict": "yes"}}
    config = fake_llm_config(tmp_path_factory.mktemp("http"), {"judge": [reply]})
    given = ("--llm-config", config, "--llm-cache", "memory")
    with running_server("--http-listen", "127.0.0.1:0", *given) as server:
        yield http_address(server)


def holds(shown: Any, got: Any) -> bool:
    """Say whether what the page shows is part of what came."""
    if isinstance(shown, dict):
        return all(name in got and holds(part, got[name]) for name, part in shown.items())
    if isinstance(shown, list):
        return len(shown) == len(got) and all(map(holds, shown, got))
    return bool(shown == got)


def values(text: str) -> list[Any]:
    """Return the JSON values that stand one after the other in a text."""
    found, decoder = [], json.JSONDecoder()
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        found.append(value)
        text = text[end:]
    return found


@pytest.mark.parametrize("heading", sorted(RECIPES))
def test_a_recipe_answers_what_the_page_shows(address: str, heading: str):
    needs("curl", packages="curl")
    recipe, shown = RECIPES[heading]
    done = subprocess.run(
        ["bash", "-euc", recipe.replace("127.0.0.1:8471", address)],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    events = re.findall(r"^data: (.*)$", done.stdout, re.MULTILINE)
    got = values("\n".join(events) or done.stdout)
    for wanted, found in zip(values(shown), got, strict=True):
        assert holds(wanted, found), found
    assert re.findall(r"^event: (\w+)$", done.stdout, re.MULTILINE) == [
        name for found in got[: len(events)] for name in found
    ]


def test_every_recipe_is_found():
    assert len(RECIPES) == PAGE.count("```json\n") > 1
