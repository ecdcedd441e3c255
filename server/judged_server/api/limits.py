"""The sizes a request must keep, and the checks that say which field breaks which.

Which messages are checked is up to `convert`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from judged_server import errors

MAX_ID_BYTES = 1024
"""The most bytes of UTF-8 in the id of a query, a document or an answer, as in metadata."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Sizes that GetServerInfo tells and `convert` enforces."""

    max_contexts: int
    max_text_bytes: int
    max_groups: int
    max_embedding_dimensions: int
    max_message_bytes: int
    max_evaluated_contexts: int

    @property
    def surely_fits(self) -> int:
        """The characters a text may have to be within max_text_bytes without being encoded."""
        return self.max_text_bytes // 4  # a character takes at most four bytes

    def check_texts(self, texts: Sequence[str], field: str, first: int = 0) -> None:
        """Refuse a text above max_text_bytes of UTF-8.

        `field` is the path of the list, `first` the place of the first text in it.
        """
        if texts and max(map(len, texts)) > self.surely_fits:
            for index, text in enumerate(texts, first):
                self.check_text(text, f"{field}[{index}]")

    def check_text(self, text: str, field: str, most: int = 0) -> None:
        """Refuse one text above max_text_bytes of UTF-8, or `most`."""
        most = most or self.max_text_bytes
        if len(text) > most // 4 and (size := len(text.encode())) > most:
            raise errors.LimitExceeded(field, "bytes of UTF-8", most, size)

    def check_id(self, name: str, field: str) -> None:
        """Refuse an id above MAX_ID_BYTES."""
        self.check_text(name, field, MAX_ID_BYTES)

    def check_ids(self, ids: Sequence[str], field: str, first: int = 0) -> None:
        """Refuse ids above MAX_ID_BYTES; `first` is the place of the first one in `field`."""
        if ids and max(map(len, ids)) > MAX_ID_BYTES // 4:
            for index, name in enumerate(ids, first):
                self.check_id(name, f"{field}[{index}]")

    def check_groups(self, count: int, field: str, what: str = "group") -> None:
        """Refuse more groups, or other items, than one message may hold, and none at all."""
        if count == 0:
            raise errors.InvalidField(field, f"must hold at least one {what}")
        if count > self.max_groups:
            raise errors.LimitExceeded(field, f"{what}s", self.max_groups, count)

    def check_contexts(self, count: int, field: str) -> None:
        """Refuse more contexts than one request may ask for."""
        if count > self.max_contexts:
            raise errors.LimitExceeded(field, "contexts", self.max_contexts, count)

    def check_evaluated(self, count: int, field: str) -> None:
        """Refuse more groups and contexts than one StreamEvaluate may have."""
        if count > self.max_evaluated_contexts:
            what = "groups and contexts"
            raise errors.LimitExceeded(field, what, self.max_evaluated_contexts, count)
