"""Taking a foreign model into the store: read, copy, inspect, try.

Imported only when a model is added, since it needs onnx.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from judged_server.embedding.models.describe import (
    external_files,
    read_graph,
    refuse_neighbour_effects,
    weight_precision,
)
from judged_server.embedding.models.loading import probe
from judged_server.embedding.models.manifest import (
    GRAPH_FILE,
    MANIFEST_FILE,
    TOKENIZER_FILE,
    Manifest,
    StoredFile,
)
from judged_server.embedding.models.model_dir import ModelFolder, ModelOptions
from judged_server.embedding.models.sources import ModelSourceError
from judged_server.embedding.runtime.backend import UnusableGraphError
from judged_server.embedding.runtime.onnx_session import EncoderSession
from judged_server.embedding.tokenizer import WindowTokenizer


def stage_folder(
    name: str, folder: Path, staging: Path, options: ModelOptions, origin: str
) -> Manifest:
    """Return the manifest of a model copied into `staging`; `origin` says where it is from.

    Raises ModelSourceError.
    """
    source = ModelFolder.read(folder, options)
    graph = read_graph(source.graph)
    weights = external_files(graph, source.graph.parent)
    reserved = {GRAPH_FILE, TOKENIZER_FILE, MANIFEST_FILE}
    if reserved & set(weights):
        raise ModelSourceError(f"{source.graph} keeps weights in {sorted(reserved & set(weights))}")
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
        session = EncoderSession(str(staging / GRAPH_FILE), source.pooling)
        probe(session, tokenizer)
        return probe(session, tokenizer, full_window=True)
    except UnusableGraphError as error:
        raise ModelSourceError(f"{source.graph}: {error}") from error
