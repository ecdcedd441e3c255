"""What happens to a text that a model can't take whole, and the reasons for a text without vector.

Imports nothing, so that a judge does not pull in the runtime with them.
"""

from __future__ import annotations

TRUNCATE = "truncate"
"""Embed the first window and flag the text TRUNCATED."""
REJECT = "reject"
"""Give the text a fault, TEXT_TOO_LONG."""
WINDOW_MAX = "window_max"
"""Embed every window and flag the text WINDOWED; the best cosine of two texts' windows counts."""

LONG_TEXT_POLICIES = (TRUNCATE, REJECT, WINDOW_MAX)

TEXT_TOO_LONG = "TEXT_TOO_LONG"
EMBEDDING_FAILED = "EMBEDDING_FAILED"
OVERLOADED = "OVERLOADED"
"""Memory did not suffice; the text may be sent again."""
