"""Arrays by the type of their elements."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IntArray = NDArray[np.int64]
UnsignedArray = NDArray[np.uint64]
ByteArray = NDArray[np.uint8]
