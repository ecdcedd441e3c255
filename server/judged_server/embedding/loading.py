"""From checked files to an embedder that runs.

Owns the order of loading, a first run that proves the graph fits its manifest, and how many threads
there are to use. Leaves hashes to `store`.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from judged_server.embedding.batches import pad
from judged_server.embedding.engine import OnnxEmbedder
from judged_server.embedding.policy import TRUNCATE
from judged_server.embedding.pooling import finite_rows
from judged_server.embedding.session import EncoderSession, UnusableGraphError
from judged_server.embedding.store import ModelFiles, reinstall
from judged_server.embedding.tokenizer import WindowTokenizer
from judged_server.errors import ModelDamaged

_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")
_PROBES = ("a ", "The first text of a model is this one. ")


def load_embedder(files: ModelFiles, threads: int = 0) -> OnnxEmbedder:
    """Return the embedder of files that were checked; `threads` 0 is one for each available core.

    Blocks for about 0.2 s. Raises ModelDamaged when the files don't work as the manifest says.
    """
    manifest = files.manifest
    what_to_do = reinstall(manifest.name)
    try:
        tokenizer = WindowTokenizer(files.tokenizer.read_bytes(), manifest.max_tokens)
    except (OSError, ValueError) as error:
        raise ModelDamaged(str(files.tokenizer), str(error), what_to_do) from error
    try:
        session = EncoderSession(str(files.graph), manifest.pooling)
        dimensions = probe(session, tokenizer)
    except UnusableGraphError as error:
        raise ModelDamaged(str(files.graph), str(error), what_to_do) from error
    if dimensions != manifest.dimensions:
        problem = f"its vectors have {dimensions} dimensions, expected {manifest.dimensions}"
        raise ModelDamaged(str(files.graph), problem, what_to_do)
    return OnnxEmbedder(manifest.card(), tokenizer, session, threads or available_cores())


def probe(session: EncoderSession, tokenizer: WindowTokenizer, *, full_window: bool = False) -> int:
    """Return the dimensions of a model by running it, on texts as long as its window if told so.

    Raises UnusableGraphError when it can't run.
    """
    repeats = tokenizer.max_tokens if full_window else 1
    texts = tokenizer.encode([probe * repeats for probe in _PROBES], TRUNCATE)
    if any(text.fault for text in texts):
        raise UnusableGraphError("its tokenizer fails on plain text")
    token_ids, mask = pad([text.windows[0] for text in texts], tokenizer.pad_id)
    try:
        vectors = session.run(token_ids, mask)
    except UnusableGraphError:
        raise
    except Exception as error:
        problem = (str(error).splitlines() or [""])[0][:300]
        raise UnusableGraphError(f"a first run fails ({problem})") from error
    if not finite_rows(vectors).all() or not np.any(vectors):
        raise UnusableGraphError("a first run gives no usable vectors")
    return int(vectors.shape[1])


def available_cores(cpu_max: Path = _CPU_MAX) -> int:
    """Return how many cores this process may use: its affinity, less where a cgroup grants less."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    try:
        quota, period = cpu_max.read_text().split()
        granted = int(quota) / int(period)
    except (OSError, ValueError):  # no cgroup v2, or no quota: the file says "max"
        return cores
    return max(1, min(cores, round(granted)))
