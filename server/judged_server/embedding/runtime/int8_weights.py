"""An fp32 graph with the weights of its linear layers in int8, as OpenVINO multiplies them.

Imported only when int8_by_group was asked for.
"""

from __future__ import annotations

import numpy as np
import openvino
from openvino import opset13

from judged_server.embedding.runtime.backend import UnusableGraphError

GROUP_SIZE = 128
"""Activations that share a scale, along a row. A row has scales of its own, so that a text's vector
does not depend on its batch."""

_LARGEST = 127


def compress_weights(graph: openvino.Model) -> None:
    """Put int8 weights in the place of the fp32 ones of each linear layer.

    Symmetric: a scale for each output of a layer maps the largest of its weights to 127. OpenVINO
    multiplies such weights with activations that it quantises as it goes, in groups. Raises
    UnusableGraphError for a graph without such a layer.
    """
    found = False
    for node in graph.get_ordered_ops():
        if node.get_type_name() != "MatMul":
            continue
        constant = node.input_value(1).get_node()
        if constant.get_type_name() != "Constant" or len(constant.get_output_shape(0)) != 2:
            continue
        weights = constant.get_data().astype(np.float32)
        inputs_axis = 1 if node.get_attributes()["transpose_b"] else 0
        largest = np.abs(weights).max(axis=inputs_axis, keepdims=True)
        scale = np.where(largest > 0, largest, 1).astype(np.float32) / np.float32(_LARGEST)
        rounded = np.rint(weights / scale).astype(np.int8)
        widened = opset13.convert(opset13.constant(rounded), "f32")
        restored = opset13.multiply(widened, opset13.constant(scale))
        node.input(1).replace_source_output(restored.output(0))
        found = True
    if not found:
        raise UnusableGraphError(
            "it has no linear layer with weights of its own, which int8_by_group is for; set "
            "embedding_precision to bf16"
        )
