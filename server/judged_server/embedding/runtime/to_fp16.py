"""An fp32 graph computed in fp16: weights, activations and output.

Token ids and masks stay whole numbers. Imported only when fp16 was asked for, since it needs onnx.
"""

from __future__ import annotations

import onnx
from onnxruntime.transformers.float16 import convert_float_to_float16

from judged_server.embedding.runtime.backend import UnusableGraphError
from judged_server.embedding.runtime.onnx_session import first_line


def to_fp16(path: str) -> bytes:
    """Return the graph in fp16. Raises UnusableGraphError, saying why.

    The lowest float, which stands for padding in a mask, becomes the lowest of fp16: under softmax
    both give zero.
    """
    try:
        raw: bytes = convert_float_to_float16(onnx.load(path)).SerializeToString()
    except Exception as error:  # whatever a converter throws: a graph of 2 GiB is one reason
        problem = f"it can't be converted to fp16 ({first_line(error)})"
        raise UnusableGraphError(f"{problem}; set embedding_precision to fp32") from error
    return raw
