"""The cache: memory first, then the file, which fills the memory."""

import numpy as np
from judged_server.embedding.vector_cache import VectorCaches, VectorRows

KEYS = [bytes([number]) * 32 for number in range(6)]


def _put(cache, numbers):
    cache.put(
        [KEYS[number] for number in numbers],
        VectorRows(
            np.arange(len(numbers)),
            np.array([[number, 1] for number in numbers], np.float32),
            np.ones(len(numbers), np.int64),
            np.array(numbers, np.uint8),
        ),
    )


async def _found(cache, numbers):
    parts = await cache.get([KEYS[number] for number in numbers])
    return {
        numbers[text]: (vector[0], flags)
        for part in parts
        for text, vector, flags in zip(
            part.texts.tolist(), part.vectors.tolist(), part.flags.tolist(), strict=True
        )
    }


async def test_memory_alone_forgets_at_the_end():
    caches = VectorCaches(1 << 16)
    cache = caches.of(2)
    _put(cache, [1, 3])
    assert await _found(cache, [0, 1, 2, 3]) == {1: (1, 1), 3: (3, 3)}
    assert await _found(VectorCaches(1 << 16).of(2), [1]) == {}
    caches.close()


async def test_the_file_outlives_the_process_and_fills_the_memory(tmp_path):
    caches = VectorCaches(1 << 16, tmp_path, 16 << 20)
    _put(caches.of(2), [1, 3, 5])
    caches.close()
    again = VectorCaches(1 << 16, tmp_path, 16 << 20)
    cache = again.of(2)
    _put(cache, [0])
    expected = {0: (0, 0), 1: (1, 1), 3: (3, 3), 5: (5, 5)}
    assert await _found(cache, [5, 4, 0, 3, 1]) == expected
    again.close()
    assert await _found(cache, [1, 3, 5, 0, 2]) == expected


async def test_off_keeps_nothing():
    cache = VectorCaches().of(2)
    _put(cache, [1])
    assert await _found(cache, [1]) == {}
