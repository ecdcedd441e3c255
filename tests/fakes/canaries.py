"""Words that stand for a key, a token, a text and a provider's reply, and may be shown nowhere.

Tests of faults put them where the real ones would be. Whatever a server of a test writes is
searched for them (`integration.server_process`, `faults.conftest`).
"""

from __future__ import annotations

KEY = "sk-canary-5f1d0c"
TOKEN = "canary-token-91ee"  # noqa: S105 - of nobody
TEXT = "canary text 8be2"
BODY_CANARY = "canary body 77ac"

CANARIES = (KEY, TOKEN, TEXT, BODY_CANARY)


def canaries(text: str) -> list[str]:
    """Return those that a text has."""
    return [canary for canary in CANARIES if canary in text]


def refuse_canaries(where: str, text: str) -> None:
    """Fail where a text has any, and show the lines that do."""
    shown = [line[:500] for line in text.splitlines() if canaries(line)]
    assert not shown, f"{where} shows what nobody may see: {shown[:5]}"
