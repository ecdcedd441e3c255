"""The judges of recent requests, by the bytes of the spec that asked for them.

Owns that memory and its bound. Reading a spec takes longer than judging a small request, and most
requests ask for what the last one asked for. What a spec means is up to `engine.catalog`.
"""

from __future__ import annotations

from collections.abc import Sequence

from judged.v1 import types_pb2

from judged_server.api.convert.judging import read_spec
from judged_server.domain import QueryGroup
from judged_server.judges.catalog import AnyJudge
from judged_server.usecases.judge_batch import Engine

MOST_KNOWN = 256
MOST_BYTES = 1024
"""A longer spec is read anew each time."""


class KnownJudges:
    """The judges of an engine. For the event loop's thread."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[bytes, AnyJudge] = {}

    def choose(self, message: types_pb2.JudgeSpec, groups: Sequence[QueryGroup]) -> AnyJudge:
        """Return the judge for a spec and what the groups bring; raises as the engine does."""
        key = message.SerializeToString()
        judge = self._known.get(key)
        # What a spec leaves open is settled otherwise where groups bring vectors.
        with_vectors = [group for group in groups if group.embeddings is not None]
        if judge is None or with_vectors:
            judge = self._engine.choose(read_spec(message), groups)
            if not with_vectors and len(key) <= MOST_BYTES:
                if len(self._known) >= MOST_KNOWN:
                    self._known.clear()
                self._known[key] = judge
        return judge
