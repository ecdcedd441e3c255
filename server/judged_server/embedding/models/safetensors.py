"""Reader of the safetensors format: eight bytes of length, a JSON header, then raw tensors."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_HEADER_BYTES = 100_000_000
DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}


def read_safetensors(raw: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors of a safetensors file by name, as views of `raw`.

    Raises ValueError when the header or a tensor's bounds make no sense.
    """
    header_bytes = int.from_bytes(raw[:8], "little")
    if not 2 <= header_bytes <= min(MAX_HEADER_BYTES, len(raw) - 8):
        raise ValueError(f"a header of {header_bytes} bytes in a file of {len(raw)}")
    header = json.loads(raw[8 : 8 + header_bytes])
    body = memoryview(raw)[8 + header_bytes :]
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype = np.dtype(DTYPES[entry["dtype"]])
        start, end = entry["data_offsets"]
        shape = tuple(entry["shape"])
        if not 0 <= start <= end <= len(body) or end - start != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"tensor {name}: bytes {start} to {end} do not hold shape {shape}")
        tensors[name] = np.frombuffer(body[start:end], dtype).reshape(shape)
    return tensors
