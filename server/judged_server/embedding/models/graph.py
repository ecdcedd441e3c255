"""Taking a foreign model into the store: its graph is looked into, copied and tried.

Imported only when a model is added, since it needs onnx. What is looked at is structure alone.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import TensorProto

from judged_server.embedding.models.folder import ModelFolder, ModelOptions
from judged_server.embedding.models.loading import probe
from judged_server.embedding.models.store import (
    GRAPH_FILE,
    MANIFEST_FILE,
    TOKENIZER_FILE,
    Manifest,
    ModelSourceError,
    Precision,
    StoredFile,
    is_inside,
)
from judged_server.embedding.runtime.backend import UnusableGraphError
from judged_server.embedding.runtime.onnx_session import OnnxSession
from judged_server.embedding.tokenizer import WindowTokenizer

_PRECISIONS: dict[int, Precision] = {
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
}


def stage_folder(
    name: str, folder: Path, staging: Path, options: ModelOptions | None, origin: str
) -> Manifest:
    """Return the manifest of a model copied into `staging`; `origin` says where it is from.

    Raises ModelSourceError.
    """
    source = ModelFolder.read(folder, options)
    graph = read_graph(source.graph)
    weights = external_files(graph, source.graph.parent)
    if reserved := {GRAPH_FILE, TOKENIZER_FILE, MANIFEST_FILE} & set(weights):
        raise ModelSourceError(f"{source.graph} keeps weights in {sorted(reserved)}")
    refuse_neighbour_effects(graph)
    precision = weight_precision(graph)
    shutil.copyfile(source.graph, staging / GRAPH_FILE)
    shutil.copyfile(source.tokenizer, staging / TOKENIZER_FILE)
    for path in weights:
        (staging / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.graph.parent / path, staging / path)
    return Manifest(
        name=name,
        dimensions=_try(source, staging),
        max_tokens=source.max_tokens,
        pooling=source.pooling,
        normalize=source.normalize,
        precision=precision,
        source=origin,
        licence="",
        files=tuple(
            StoredFile.of(staging, path) for path in (GRAPH_FILE, TOKENIZER_FILE, *weights)
        ),
        prefix=source.prefix,
    )


def _try(source: ModelFolder, staging: Path) -> int:
    """Return the dimensions of the copy after a run with short texts and a run at full length."""
    try:
        raw = (staging / TOKENIZER_FILE).read_bytes()
        tokenizer = WindowTokenizer(raw, source.max_tokens, source.prefix)
    except ValueError as error:
        raise ModelSourceError(f"{source.tokenizer}: {error}") from error
    try:
        session = OnnxSession(str(staging / GRAPH_FILE), source.pooling)
        probe(session, tokenizer)
        return probe(session, tokenizer, full_window=True)
    except UnusableGraphError as error:
        raise ModelSourceError(f"{source.graph}: {error}") from error


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


def weight_precision(model: onnx.ModelProto) -> Precision:
    """Return fp32, fp16 or int8: the type that most of the weights have."""
    sizes: Counter[Precision] = Counter()
    for tensor in _tensors(model.graph):
        if tensor.data_type in _PRECISIONS:
            sizes[_PRECISIONS[tensor.data_type]] += math.prod(tensor.dims)
    if not sizes:
        raise ModelSourceError("the graph has no weights in float32, float16 or int8")
    return sizes.most_common(1)[0][0]


def refuse_neighbour_effects(model: onnx.ModelProto) -> None:
    """Refuse activations quantised per batch: there a text's vector depends on its neighbours."""
    for graph in _graphs(model.graph):
        if any(node.op_type.startswith("DynamicQuantize") for node in graph.node):
            raise ModelSourceError(
                "the graph quantises activations batch by batch (DynamicQuantizeLinear), so that a "
                "text's score would depend on the texts beside it; use its fp32 or fp16 graph"
            )


def _outside(location: str) -> ModelSourceError:
    return ModelSourceError(
        f"the graph keeps weights in {location[:200]!r}, outside its own folder; "
        "refused (if that is a link, copy the folder with links resolved: cp -rL)"
    )


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those in its branches and loops."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _graphs(inner)


def _tensors(whole: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    for graph in _graphs(whole):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)
