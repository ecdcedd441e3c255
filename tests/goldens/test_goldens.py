"""The product does what it did when it was recorded, but for what is meant."""

from __future__ import annotations

import pytest

from tests.goldens.recording import ASKED, FOLDER, compare


@pytest.mark.timeout(900)  # it asks everything
@pytest.mark.skipif(not (FOLDER / ASKED).exists(), reason="not run: nothing is recorded")
def test_nothing_differs_that_nobody_meant() -> None:
    unmeant, _ = compare()
    assert not unmeant, "\n".join(unmeant)
