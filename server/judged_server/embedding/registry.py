"""The embedding models of one server: the default loaded at the start, others on first use.

Owns which models are in memory. Leaves files to `store` and work to `engine`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence

from judged_server.embedding.engine import OnnxEmbedder
from judged_server.embedding.loading import load_embedder
from judged_server.embedding.manifest import Manifest
from judged_server.embedding.store import DEFAULT_MODEL, ModelFiles, ModelStore
from judged_server.ports import Embedded, ModelCard

Load = Callable[[ModelFiles, int], OnnxEmbedder]


class StoredEmbedders:
    """Embedders of the models in a store; implements ports.Embedders."""

    def __init__(
        self,
        store: ModelStore,
        default: str = DEFAULT_MODEL,
        threads: int = 0,
        load: Load = load_embedder,
    ) -> None:
        self._store = store
        self._default = default
        self._threads = threads
        self._load = load
        self._models: dict[str, LazyEmbedder] = {}

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
                manifest, lambda: self._load(self._store.load(name), self._threads)
            )
        return self._models[name]

    def cards(self) -> tuple[ModelCard, ...]:
        """Return the models on offer, the default first, then by name.

        Those are the stored models with a good manifest, loaded or not; their other files are
        checked when they are loaded. Reads every manifest.
        """
        stored = [model.manifest for model in self._store.list() if model.manifest is not None]
        stored.sort(key=lambda manifest: (manifest.name != self._default, manifest.name))
        return tuple(manifest.card() for manifest in stored)

    def close(self) -> None:
        """Close every model. Later work on them raises RuntimeError."""
        for model in self._models.values():
            model.close()


class LazyEmbedder:
    """A stored model that is checked and loaded by its first use; implements ports.Embedder."""

    def __init__(self, manifest: Manifest, load: Callable[[], OnnxEmbedder]) -> None:
        self._card = manifest.card()
        self._load = load
        self._embedder: OnnxEmbedder | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def card(self) -> ModelCard:
        """Which model this is, by its manifest."""
        return self._card

    @property
    def loaded(self) -> bool:
        """Whether the model is in memory."""
        return self._embedder is not None

    def load(self) -> OnnxEmbedder:
        """Return the model, loaded once; blocks. After a failure the next use tries again."""
        with self._lock:
            if self._closed:
                raise RuntimeError(f"model {self._card.name} is closed")
            if self._embedder is None:
                self._embedder = self._load()
            return self._embedder

    async def embed(self, texts: Sequence[str], long_text: str) -> Embedded:
        """Return the vectors of distinct texts; the first caller waits for the model to load."""
        embedder = self._embedder
        if embedder is None:
            embedder = await asyncio.to_thread(self.load)
        return await embedder.embed(texts, long_text)

    def close(self) -> None:
        """Close the model, once it has been loaded if that is going on."""
        with self._lock:
            self._closed = True
            if self._embedder is not None:
                self._embedder.close()
