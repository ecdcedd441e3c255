"""Host memory that a GPU copies from and to: arrays that stay between batches."""

from __future__ import annotations

import ctypes
import math
import os
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

Allocate = Callable[[int], NDArray[np.uint8]]
"""Memory of so many bytes, aligned for any number; it lives as long as the array."""

RUNTIMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0")
_LEAST_BYTES = 1 << 16


class HostArrays:
    """Arrays by name, each a part of memory that is used again; of one thread."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._memory: dict[str, NDArray[np.uint8]] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Return an array of any content; the next call with its name may overwrite it."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = self._memory.get(name)
        if memory is None or len(memory) < size:
            # Twice what is needed at once: shapes vary, and page-locking takes milliseconds.
            memory = self._allocate(max(_LEAST_BYTES, 2 * size))
            self._memory[name] = memory
        return memory[:size].view(dtype).reshape(shape)


def ordinary(size: int) -> NDArray[np.uint8]:
    """Return memory as NumPy allocates it."""
    return np.empty(size, np.uint8)


class PageLocked:
    """Allocates memory that stays in place, by cudaHostAlloc."""

    def __init__(self, runtime: Any) -> None:  # noqa: ANN401 - a ctypes library
        self._alloc = runtime.cudaHostAlloc
        self._free = runtime.cudaFreeHost

    def __call__(self, size: int) -> NDArray[np.uint8]:
        """Return memory; raises MemoryError."""
        address = ctypes.c_void_p()
        status = self._alloc(ctypes.byref(address), ctypes.c_size_t(size), ctypes.c_uint(0))
        if status or address.value is None:
            raise MemoryError(f"cudaHostAlloc of {size} bytes: out of memory? (status {status})")
        block = (ctypes.c_uint8 * size).from_address(address.value)
        # At the end of the process the driver frees it by itself.
        weakref.finalize(block, self._free, ctypes.c_void_p(address.value)).atexit = False
        memory: NDArray[np.uint8] = np.ctypeslib.as_array(block)
        return memory


def page_locked(names: Iterable[str] = RUNTIMES) -> PageLocked | None:
    """Return an allocator of the CUDA runtime that is in this process; None when there is none."""
    for name in names:
        try:
            return PageLocked(ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_LAZY))
        except (OSError, AttributeError):  # not loaded, or no such library on this system
            continue
    return None
