"""The embedding models of one server: the default loaded at the start, others on first use."""

from __future__ import annotations

import threading
from collections.abc import Callable

from judged_server.embedding.base import ModelCard
from judged_server.embedding.batching.workers import ReportUnhealthy
from judged_server.embedding.embedder import LazyEmbedder, ModelEmbedder
from judged_server.embedding.models.loading import load_embedder
from judged_server.embedding.models.manifest import DEFAULT_MODEL, ModelFiles, not_installed
from judged_server.embedding.models.store import ModelStore
from judged_server.embedding.runtime.backend_selection import RuntimeConfig
from judged_server.embedding.vector_cache import VectorCache, VectorCaches
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
        caches: VectorCaches | None = None,
        health: Health = lambda _: None,
    ) -> None:
        """Keep vectors in `caches`, which are closed with the models; without, keep none."""
        self._store = store
        self._default = default
        self._running = running
        self._load = load
        self._caches = caches or VectorCaches()
        self._health = health
        self._unhealthy: set[str] = set()
        self._lock = threading.Lock()
        self._models: dict[str, LazyEmbedder] = {}

    @property
    def default(self) -> str:
        """The name of the default model."""
        return self._default

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
        name = name or self._default
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
        stored = [model.manifest for model in self._store.list() if model.manifest is not None]
        stored.sort(key=lambda manifest: (manifest.name != self._default, manifest.name))
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
        self._caches.close()

    def _load_now(self, name: str) -> ModelEmbedder:
        files = self._store.load(name)
        cache = self._caches.of(files.manifest.dimensions)

        def report_unhealthy(unhealthy: bool) -> None:
            with self._lock:
                before = bool(self._unhealthy)
                (self._unhealthy.add if unhealthy else self._unhealthy.discard)(name)
                if before != bool(self._unhealthy):
                    self._health(not self._unhealthy)

        return self._load(files, self._running, cache, report_unhealthy)
