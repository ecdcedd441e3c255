"""What is counted and timed while calls are worked.

`active` is None unless somebody asked for it at the start (`use`), and those who work then do
nothing more than look at it.
"""

from __future__ import annotations

from typing import Literal

Stage = Literal["queue", "tokenize", "infer", "provider", "store"]
"""Where a call's time goes: waiting for an embedding model, reading texts, running the model,
waiting for a language model, reading stored replies."""


class Recorder:
    """Hears what happens, on any thread, and does nothing with it.

    Those that do something override what they want. They must be quick, and raise nothing.
    """

    def call(self, method: str, code: str, tenant: str, seconds: float) -> None:
        """Note a call that has ended."""

    def refusal(self, reason: str) -> None:
        """Note a call that failed with a reason of the contract."""

    def stage(self, stage: Stage, seconds: float) -> None:
        """Note what a step of the work took."""

    def lookups(self, cache: Literal["replies", "vectors"], hits: int, misses: int) -> None:
        """Note how often something was found in a cache, and how often not."""

    def question(
        self, model: str, tenant: str, input_tokens: int, output_tokens: int, cost: float | None
    ) -> None:
        """Note what a question to a language model took; `cost` is None without a price."""


active: Recorder | None = None


def use(recorder: Recorder) -> None:
    """Let a recorder hear all from now on."""
    global active  # noqa: PLW0603 - one a process, as the log is
    active = recorder
