"""The files of one model on a hub: which are needed, how large each may be, put in one folder.

Imported only when a model is added, since it needs onnx.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

from judged_server.embedding.models.describe import external_locations, read_graph
from judged_server.embedding.models.hub import Hub, HubReference
from judged_server.embedding.models.manifest import TOKENIZER_FILE
from judged_server.embedding.models.model_dir import (
    CONFIG_FILE,
    GRAPHS,
    MODULES_FILE,
    SETTINGS_FILES,
    ModelOptions,
    read_modules,
)
from judged_server.embedding.models.sources import ModelSourceError

MAX_JSON_BYTES = 1 << 20
MAX_TOKENIZER_BYTES = 64 << 20
MAX_GRAPH_BYTES = (2 << 30) - 1
"""What one protobuf message may have; larger models keep weights in files beside the graph."""
MAX_WEIGHTS_BYTES = 16 << 30

_LARGE = 1 << 20


def fetch_model(
    reference: HubReference,
    hub: Hub,
    folder: Path,
    options: ModelOptions,
    say: Callable[[str], None] = lambda _: None,
) -> HubReference:
    """Return the model at its commit once `folder` has the files that `ModelFolder` reads.

    The small files come first, so that a model that can't run here costs no large download. All are
    of one commit, whatever a branch does meanwhile. Raises ModelSourceError.
    """
    pinned = reference.at(hub.commit(reference, CONFIG_FILE))
    say(f"fetching {pinned}")

    def fetch(path: str, limit: int) -> bool:
        size = hub.fetch(pinned, path, folder / path, limit)
        if size is not None and size > _LARGE:
            say(f"  {path}: {size / 1e6:,.0f} MB")
        return size is not None

    fetch(CONFIG_FILE, MAX_JSON_BYTES)
    for path in (MODULES_FILE, *SETTINGS_FILES):
        fetch(path, MAX_JSON_BYTES)
    fetch(f"{read_modules(folder)['Pooling']}/{CONFIG_FILE}", MAX_JSON_BYTES)
    fetch(TOKENIZER_FILE, MAX_TOKENIZER_BYTES)
    graphs = GRAPHS if options.graph is None else (options.graph,)
    found = next((path for path in graphs if fetch(path, MAX_GRAPH_BYTES)), None)
    if found is not None:
        beside = PurePosixPath(found).parent
        for location in external_locations(read_graph(folder / found)):
            path = str(beside / location)
            if (folder / path).exists():
                raise ModelSourceError(f"{found} keeps weights in {path}, which is another file")
            fetch(path, MAX_WEIGHTS_BYTES)
    return pinned
