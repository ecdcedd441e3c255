"""The embedding models of one server: the default loaded at the start, others on first use."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Sequence
from copy import copy
from dataclasses import dataclass, field

from judged_server.embedding.base import Embedded, ModelCard
from judged_server.embedding.embedder import ModelEmbedder
from judged_server.embedding.models.loading import load_embedder
from judged_server.embedding.models.store import (
    DEFAULT_MODEL,
    Manifest,
    ModelStore,
    not_installed,
)
from judged_server.embedding.runtime.backend import RuntimeConfig
from judged_server.embedding.vector_cache import VectorCache
from judged_server.errors import ModelDamaged
from judged_server.store.kept_rows import KeptRows

Health = Callable[[bool], None]
"""Called with whether all loaded models work, when that changes; on any thread."""

_REFERENCE = RuntimeConfig()


@dataclass(eq=False)
class StoredEmbedders:
    """Embedders of the models in a store.

    They cache vectors in `memory_bytes` per model, and in a file that is closed with the models.
    """

    store: ModelStore
    default: str = DEFAULT_MODEL
    running: RuntimeConfig = _REFERENCE
    memory_bytes: int = 0
    file: KeptRows | None = None
    health: Health = lambda _: None
    _unhealthy: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _models: dict[str, LazyEmbedder] = field(default_factory=dict)
    _only: Collection[str] | None = None

    def only(self, names: Collection[str]) -> StoredEmbedders:
        """Return a view of some of the models, which are loaded once for both."""
        some = copy(self)
        some._only = names  # noqa: SLF001 - its own
        return some

    def get(self, name: str) -> LazyEmbedder:
        """Return a model by name, "" for the default. Reads at most its manifest.

        Raises ModelNotInstalled or ModelDamaged.
        """
        name = name or self.default
        if self._only is not None and name not in self._only:
            raise not_installed(name)
        if name not in self._models:
            manifest = self.store.manifest(name)
            self._models[name] = LazyEmbedder(
                self.running.backend.card(manifest), lambda: self._load_now(name)
            )
        return self._models[name]

    def cards(self) -> tuple[ModelCard, ...]:
        """Return the models on offer, the default first, then by name.

        Those are the stored models with a good manifest, loaded or not; their other files are
        checked when they are loaded. Reads every manifest.
        """
        stored = [each for each in self.store.list().values() if isinstance(each, Manifest)]
        stored.sort(key=lambda manifest: (manifest.name != self.default, manifest.name))
        loaded = {name: model.card for name, model in self._models.items() if model.loaded}
        if self._only is not None:
            stored = [manifest for manifest in stored if manifest.name in self._only]
        card = self.running.backend.card
        return tuple(loaded.get(manifest.name) or card(manifest) for manifest in stored)

    def queued_tokens(self) -> dict[str, float]:
        """Return the tokens that wait for each loaded model."""
        loaded = ((name, model.loaded) for name, model in self._models.items())
        return {name: model.queued_tokens for name, model in loaded if model is not None}

    def close(self) -> None:
        """Close every model. Later work on them raises RuntimeError."""
        for model in self._models.values():
            model.close()
        if self.file is not None:
            self.file.close()

    def _load_now(self, name: str) -> ModelEmbedder:
        files = self.store.load(name)
        cache = VectorCache(files.manifest.dimensions, self.memory_bytes, self.file)

        def report_unhealthy(unhealthy: bool) -> None:
            with self._lock:
                before = bool(self._unhealthy)
                (self._unhealthy.add if unhealthy else self._unhealthy.discard)(name)
                if before != bool(self._unhealthy):
                    self.health(not self._unhealthy)

        return load_embedder(files, self.running, cache, report_unhealthy)


@dataclass(eq=False)
class LazyEmbedder:
    """A stored model that is checked and loaded on first use.

    `card` describes the model as it will run; the model that `make` returns must have that card.
    `loaded` is the model once it is in memory.
    """

    card: ModelCard
    make: Callable[[], ModelEmbedder]
    loaded: ModelEmbedder | None = None
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self) -> ModelEmbedder:
        """Return the model, loaded once; blocks. After a failure the next use tries again."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"model {self.card.name} is closed")
            if self.loaded is None:
                loaded = self.make()
                if loaded.card != self.card:
                    # The files were replaced since the card was shown. Verdicts of the new model
                    # must not have keys of the old card.
                    loaded.close()
                    problem = "its files are no longer those that the server has shown"
                    raise ModelDamaged(self.card.name, problem, "restart the server to use them")
                self.loaded = loaded
            return self.loaded

    async def embed(
        self, texts: Sequence[str], long_text: str, deadline: float | None = None
    ) -> Embedded:
        """Return the vectors of distinct texts as `ModelEmbedder.embed` does.

        The first callers wait for the model to load.
        """
        if self.loaded is None:
            await asyncio.to_thread(self.load)
        return await self.load().embed(texts, long_text, deadline)

    def close(self) -> None:
        """Close the model; waits until it is loaded if that is in progress."""
        with self._lock:
            self._closed = True
            if self.loaded is not None:
                self.loaded.close()
