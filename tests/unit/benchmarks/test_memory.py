"""The figures of memory: what is sent is all different, and flat is 1."""

import os

import pytest

from benchmarks import memory


def test_every_text_is_sent_once_and_no_two_are_alike():
    batches = list(memory.calls(5_000, 3))
    texts = [text for batch in batches for text in batch]
    assert len(set(texts)) == len(texts) == 5_000
    assert min(map(len, batches)) >= 2
    lengths = sorted(len(text.split()) for text in texts)
    assert lengths[0] <= 3
    assert lengths[-1] > 200


@pytest.mark.parametrize("count", [100, 101, 1_999, 2_003])
def test_no_call_has_a_single_text(count):
    batches = list(memory.calls(count, 1))
    assert sum(map(len, batches)) == count
    assert min(map(len, batches)) >= 2


def test_flat_memory_has_no_growth():
    assert memory.growth([(at, 200.0) for at in range(7, 1_000, 13)]) == 1


def test_growth_is_of_the_last_tenth_over_that_from_the_middle():
    samples = [(at, 100.0 + at / 10) for at in range(1, 1_001)]
    assert memory.growth(samples) == pytest.approx(195 / 155, rel=1e-3)
    # One large call counts for all of its texts.
    assert memory.growth([(500, 100), (1_000, 300)]) == 1


def test_memory_is_that_of_a_process():
    resident, most = (memory.memory_mb(os.getpid(), field) for field in ("VmRSS", "VmHWM"))
    assert 0 < resident <= most
