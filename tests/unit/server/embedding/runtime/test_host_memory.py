"""Host arrays stay and grow; page-locked memory comes from the CUDA runtime and goes back to it."""

import ctypes
import gc

import numpy as np
import pytest
from judged_server.embedding.runtime.host_memory import (
    HostArrays,
    PageLocked,
    ordinary,
    page_locked,
)


class CudaRuntime:
    """cudaHostAlloc and cudaFreeHost over ordinary memory."""

    def __init__(self, status=0):
        self.held = {}
        self.status = status

    def cudaHostAlloc(self, address, size, flags):
        if not self.status:
            block = ctypes.create_string_buffer(size.value)
            address._obj.value = ctypes.addressof(block)
            self.held[address._obj.value] = block
        return self.status

    def cudaFreeHost(self, address):
        del self.held[address.value]


def test_an_array_uses_the_memory_of_the_one_before():
    asked = []

    def noted(size):
        asked.append(size)
        return ordinary(size)

    arrays = HostArrays(noted)
    first = arrays.array("ids", (4, 100), np.int64)
    second = arrays.array("ids", (2, 7), np.int64)
    assert second.shape == (2, 7)
    assert second.dtype == np.int64
    assert np.shares_memory(first, second)
    other = arrays.array("states", (2, 7, 3), np.float16)
    assert not np.shares_memory(first, other)
    assert len(asked) == 2
    arrays.array("ids", (1_000, 1_000), np.int64)
    assert asked[2:] == [2 * 8_000_000]


def test_page_locked_memory_goes_back_with_its_last_array():
    runtime = CudaRuntime()
    array = PageLocked(runtime)(1_000)
    assert array.shape == (1_000,)
    array[:] = 7
    part = array[10:20].view(np.uint16)
    del array
    gc.collect()
    assert len(runtime.held) == 1
    assert part[0] == 7 * 257
    del part
    gc.collect()
    assert not runtime.held


def test_no_page_locked_memory_is_want_of_memory():
    with pytest.raises(MemoryError, match=r"cudaHostAlloc of 10 bytes: out of memory.*status 2"):
        PageLocked(CudaRuntime(status=2))(10)


def test_without_a_cuda_runtime_in_the_process_there_is_none():
    assert page_locked(("libcudart.so.0", "libc.so.6")) is None
