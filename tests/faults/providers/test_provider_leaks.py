"""Keys, prompts and replies are shown nowhere, whatever a provider does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from judged_server.llm.providers.dialects import DIALECTS

from tests.fakes.canaries import BODY_CANARY, KEY, TEXT, canaries
from tests.fakes.providers.faulty_http import (
    Behaviour,
    always,
    faulty_http,
    reply,
)
from tests.fakes.providers.scripted_dialects import KEY as SCRIPTED_KEY
from tests.fakes.providers.scripted_dialects import SHAPES
from tests.faults.providers.provider import (
    REQUEST,
    configured,
    fault_of,
    leaks,
    models_at,
    reset,
)

ECHO = f'{{"error":{{"code":"{KEY}","message":"{TEXT} {BODY_CANARY} {KEY}"}}}}'.encode()


LEAKY: dict[str, Behaviour] = {
    "400": always(reply(ECHO, "400 Bad")),
    "401": always(reply(ECHO, "401 Unauthorized")),
    "429": always(reply(ECHO, "429 Busy", f"Retry-After: {KEY}")),
    "500": always(reply(ECHO, "500 Oh")),
    "status line": always(reply(ECHO, f"500 {KEY} {TEXT}")),
    "not HTTP": always(f"HTTP/9 {KEY} {TEXT}\r\n\r\n".encode()),
    "bad header": always(f"HTTP/1.1 200 OK\r\n{KEY} {TEXT}\r\n\r\n".encode()),
    "bad length": always(f"HTTP/1.1 200 OK\r\nContent-Length: {KEY}\r\n\r\n".encode()),
    "bad chunk": always(
        f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{KEY}\r\n{TEXT}".encode()
    ),
    "redirect": always(reply(ECHO, "307 There", f"Location: http://{KEY}.test/")),
    "encoding": always(reply(ECHO, "200 OK", f"Content-Encoding: {KEY}")),
    "cut": always(reply(ECHO)[:-3]),
    "reset": reset,
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("case", LEAKY)
async def test_keys_and_texts_are_shown_nowhere(case, dialect, capfd, caplog):
    caplog.set_level(0)
    async with faulty_http(LEAKY[case]) as server:
        models = configured(server.url, dialect=dialect)
        for _ in range(3):
            assert not leaks(await fault_of(models.get("")))
        rendered = [
            repr(models),
            repr(vars(models)),
            repr(models.listed()),
            repr(models.get("").card),
        ]
        assert not canaries("".join(rendered))
        await models.close()
    assert not canaries("".join((*capfd.readouterr(), caplog.text)))
    header, value = SHAPES[dialect].key
    sent = f"{header}: {value.replace(SCRIPTED_KEY, KEY)}".encode()
    assert any(sent in request for request in server.requests), "the canary was sent"
    assert all(request.count(KEY.encode()) == 1 for request in server.requests)


@pytest.mark.parametrize("body", [ECHO, BODY_CANARY.encode(), f'["{KEY} {TEXT}"]'.encode()])
async def test_nor_are_they_in_what_is_said_of_unreadable_replies(body, capfd):
    async with faulty_http(always(reply(body))) as server, models_at(server.url) as model:
        done = await model.complete(REQUEST, 100.0)
        assert done.reply.unreadable.startswith("provider p: its reply is ")
        assert not canaries(repr(done))
    assert not canaries("".join(capfd.readouterr()))


def test_no_message_of_this_package_formats_an_exception():
    """Words of others may quote a key or a text; ours are made of our own."""
    root = Path(__file__).parents[3] / "server" / "judged_server" / "llm"
    transport = root / "transport"
    ours = [transport / "http.py", transport / "endpoint.py", root / "models.py"]
    for path in [*ours, *(root / "providers").glob("*.py")]:
        assert not re.search(r"\{(error|exc)[}!:]|str\((error|exc)\)", path.read_text()), path.name
