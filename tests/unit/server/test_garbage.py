"""The collector as a server wants it: seldom, over little, and still at work."""

import gc
import weakref

import pytest
from judged_server import garbage


@pytest.fixture
def _as_it_was():
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


class Knot:
    def __init__(self):
        self.itself = self


@pytest.mark.usefixtures("_as_it_was")
def test_what_is_there_is_left_out_and_new_cycles_are_collected():
    garbage.settle()
    assert gc.get_freeze_count() > 1000
    assert gc.get_threshold() == garbage.THRESHOLDS
    knot = weakref.ref(Knot())
    keep: list[list[object]] = []
    for _ in range(garbage.THRESHOLDS[0] + 1000):
        keep.append([])
    assert knot() is None
