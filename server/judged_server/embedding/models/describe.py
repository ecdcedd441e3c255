"""A look into an ONNX graph before it is taken into the store.

Reads structure only, never runs anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import TensorProto

from judged_server.embedding.models.manifest import is_inside
from judged_server.embedding.models.sources import ModelSourceError

_PRECISIONS: dict[int, str] = {
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
}


def read_graph(path: Path) -> onnx.ModelProto:
    """Return the structure of a graph, its external weights unread."""
    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise ModelSourceError(f"{path} is not an ONNX graph") from error


def external_locations(model: onnx.ModelProto) -> tuple[str, ...]:
    """Return the paths of the files beside the graph that hold weights, there or not.

    A path that leads out, by `..` or from the root, is refused: loading it would read a file of the
    graph's choice.
    """
    found: set[str] = set()
    for tensor in _tensors(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
            found.add(locations[0] if len(locations) == 1 else "")
    for location in found:
        if not is_inside(location):
            raise _outside(location)
    return tuple(sorted(found))


def external_files(model: onnx.ModelProto, folder: Path) -> tuple[str, ...]:
    """Return `external_locations`, each a file inside `folder` for certain; a link may lead out."""
    locations = external_locations(model)
    for location in locations:
        if not (folder / location).resolve().is_relative_to(folder.resolve()):
            raise _outside(location)
        if not (folder / location).is_file():
            raise ModelSourceError(f"{folder / location} is missing: the graph's weights are there")
    return locations


def weight_precision(model: onnx.ModelProto) -> str:
    """Return fp32, fp16 or int8: the type that most of the weights have."""
    sizes: Counter[str] = Counter()
    for tensor in _tensors(model.graph):
        if tensor.data_type in _PRECISIONS:
            count = 1
            for size in tensor.dims:
                count *= size
            sizes[_PRECISIONS[tensor.data_type]] += count
    if not sizes:
        raise ModelSourceError("the graph has no weights in float32, float16 or int8")
    return sizes.most_common(1)[0][0]


def refuse_neighbour_effects(model: onnx.ModelProto) -> None:
    """Refuse activations quantised per batch: there a text's vector depends on its neighbours."""
    if any(node.op_type.startswith("DynamicQuantize") for node in _nodes(model.graph)):
        raise ModelSourceError(
            "the graph quantises activations batch by batch (DynamicQuantizeLinear), so that a "
            "text's score would depend on the texts beside it; use its fp32 or fp16 graph"
        )


def _outside(location: str) -> ModelSourceError:
    return ModelSourceError(
        f"the graph keeps weights in {location[:200]!r}, outside its own folder; "
        "refused (if that is a link, copy the folder with links resolved: cp -rL)"
    )


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _nodes(inner)


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from _tensors(inner)
