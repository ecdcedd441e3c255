from __future__ import annotations

from collections.abc import Callable

import pytest
from judged._batching import rankings


@pytest.fixture
def cut_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Lets clients of this process cut rankings into parts of so many bytes, from then on."""
    return lambda part_bytes: monkeypatch.setattr(rankings, "PART_BYTES", part_bytes)
