"""The embedding models of one server: the default loaded at the start, others on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable

from judged_server.embedding.base import ModelCard
from judged_server.embedding.batching import ReportUnhealthy
from judged_server.embedding.embedder import LazyEmbedder, ModelEmbedder
from judged_server.embedding.models.loading import load_embedder
from judged_server.embedding.models.store import (
    DEFAULT_MODEL,
    Manifest,
    ModelFiles,
    ModelStore,
    not_installed,
)
from judged_server.embedding.runtime.backend import RuntimeConfig
from judged_server.embedding.vector_cache import VectorCache, VectorFile
from judged_server.errors import ModelNotInstalled

Load = Callable[[ModelFiles, RuntimeConfig, VectorCache, ReportUnhealthy], ModelEmbedder]
Health = Callable[[bool], None]
"""Told whether every loaded model runs, when that changes; on any thread."""

_REFERENCE = RuntimeConfig()


class StoredEmbedders:
    """Embedders of the models in a store; implements base.Embedders."""

    def __init__(
        self,
        store: ModelStore,
        default: str = DEFAULT_MODEL,
        running: RuntimeConfig = _REFERENCE,
        load: Load = load_embedder,
        memory_bytes: int = 0,
        file: VectorFile | None = None,
        health: Health = lambda _: None,
    ) -> None:
        """Keep vectors in `memory_bytes` a model, and in a file that is closed with the models."""
        self._store = store
        self.default = default
        self._running = running
        self._load = load
        self._memory_bytes = memory_bytes
        self._file = file
        self._health = health
        self._unhealthy: set[str] = set()
        self._lock = threading.Lock()
        self._models: dict[str, LazyEmbedder] = {}

    def unknown(self, name: str) -> ModelNotInstalled:
        """Return the error of a model that is not there."""
        return not_installed(name)

    def load_default(self) -> None:
        """Check and load the default model; blocks. Raises ModelNotInstalled or ModelDamaged."""
        self.get("").load()

    def get(self, name: str) -> LazyEmbedder:
        """Return a model by name, "" for the default. Reads its manifest at most.

        Raises ModelNotInstalled or ModelDamaged.
        """
        name = name or self.default
        if name not in self._models:
            manifest = self._store.manifest(name)
            self._models[name] = LazyEmbedder(
                self._running.backend.card(manifest), lambda: self._load_now(name)
            )
        return self._models[name]

    def cards(self) -> tuple[ModelCard, ...]:
        """Return the models on offer, the default first, then by name.

        Those are the stored models with a good manifest, loaded or not; their other files are
        checked when they are loaded. Reads every manifest.
        """
        stored = [each for each in self._store.list().values() if isinstance(each, Manifest)]
        stored.sort(key=lambda manifest: (manifest.name != self.default, manifest.name))
        loaded = {name: model.card for name, model in self._models.items() if model.loaded}
        card = self._running.backend.card
        return tuple(loaded.get(manifest.name) or card(manifest) for manifest in stored)

    def queued_tokens(self) -> dict[str, float]:
        """Return the tokens that wait for each loaded model, by estimate."""
        return {name: model.queued_tokens for name, model in self._models.items()}

    def close(self) -> None:
        """Close every model. Later work on them raises RuntimeError."""
        for model in self._models.values():
            model.close()
        if self._file is not None:
            self._file.close()

    def _load_now(self, name: str) -> ModelEmbedder:
        files = self._store.load(name)
        cache = VectorCache(files.manifest.dimensions, self._memory_bytes, self._file)

        def report_unhealthy(unhealthy: bool) -> None:
            with self._lock:
                before = bool(self._unhealthy)
                (self._unhealthy.add if unhealthy else self._unhealthy.discard)(name)
                if before != bool(self._unhealthy):
                    self._health(not self._unhealthy)

        return self._load(files, self._running, cache, report_unhealthy)
