"""Loads the checked files of a model into an embedder."""

from __future__ import annotations

import numpy as np

from judged_server.embedding.base import TRUNCATE
from judged_server.embedding.batching import ReportUnhealthy
from judged_server.embedding.embedder import ModelEmbedder
from judged_server.embedding.models.store import ModelFiles
from judged_server.embedding.runtime.backend import (
    CUDA,
    OPENVINO,
    PROVIDERS,
    RuntimeConfig,
)
from judged_server.embedding.runtime.session import (
    GPU_WORKERS,
    OnnxSession,
    Session,
    UnusableGraphError,
    finite_rows,
    first_line,
    pad,
)
from judged_server.embedding.tokenizer import WindowTokenizer
from judged_server.embedding.vector_cache import VectorCache
from judged_server.process import available_cores

_REFERENCE = RuntimeConfig()
_PROBES = ("a ", "The first text of a model is this one. ")


def load_embedder(
    files: ModelFiles,
    running: RuntimeConfig = _REFERENCE,
    cache: VectorCache | None = None,
    report_unhealthy: ReportUnhealthy = lambda _: None,
) -> ModelEmbedder:
    """Return the embedder of checked files, run as `running` says.

    Without a cache it caches nothing. Blocks for about 0.2 s, for one or two with OpenVINO. Raises
    ModelDamaged if the files don't work as the manifest says or can't run on the backend, and
    SettingsError if its device can't be used.
    """
    manifest = files.manifest
    try:
        raw = files.tokenizer.read_bytes()
        tokenizer = WindowTokenizer(raw, manifest.max_tokens, manifest.prefix)
    except (OSError, ValueError) as error:
        raise files.damaged(files.tokenizer, str(error)) from error
    try:
        session = open_session(files, running)
        # OpenVINO adds padding to a window, for which a graph may lack positions.
        dimensions = probe(session, tokenizer, full_window=running.backend.name == OPENVINO)
    except UnusableGraphError as error:
        other = ": set embedding_backend to onnxruntime for it"
        problem = f"{error}{other * (running.backend.name == OPENVINO)}"
        raise files.damaged(files.graph, problem) from error
    if dimensions != manifest.dimensions:
        problem = f"its vectors have {dimensions} dimensions, expected {manifest.dimensions}"
        raise files.damaged(files.graph, problem)
    return ModelEmbedder(
        running.backend.card(manifest),
        tokenizer,
        session,
        cache or VectorCache(dimensions),
        report_unhealthy=report_unhealthy,
        max_delay_s=running.max_delay_s,
    )


def open_session(files: ModelFiles, running: RuntimeConfig) -> Session:
    """Return the session that runs the model. Raises UnusableGraphError and SettingsError."""
    path, manifest, backend = str(files.graph), files.manifest, running.backend
    workers = running.threads or (GPU_WORKERS if backend.name == CUDA else available_cores())
    if backend.name == OPENVINO:
        # Imported here: it is an extra, and takes half a second.
        from judged_server.embedding.runtime.openvino_session import OpenVinoSession  # noqa: PLC0415

        precision = backend.precision_of(manifest.precision)
        return OpenVinoSession(path, manifest.pooling, precision, workers)
    return OnnxSession(path, manifest.pooling, workers, PROVIDERS[backend.name])


def probe(session: Session, tokenizer: WindowTokenizer, *, full_window: bool = False) -> int:
    """Return the dimensions of a model by running it, on texts of its whole window if asked to.

    Raises UnusableGraphError if it can't run.
    """
    repeats = tokenizer.max_tokens if full_window else 1
    texts = tokenizer.encode([probe * repeats for probe in _PROBES], TRUNCATE)
    if any(text.fault for text in texts):
        raise UnusableGraphError("its tokenizer fails on plain text")
    token_ids, mask = pad([text.windows[0] for text in texts])
    try:
        vectors = session.run(token_ids, mask)
    except UnusableGraphError:
        raise
    except Exception as error:
        raise UnusableGraphError(f"a first run fails ({first_line(error)})") from error
    if not finite_rows(vectors).all() or not np.any(vectors):
        raise UnusableGraphError("a first run gives no usable vectors")
    return int(vectors.shape[1])
