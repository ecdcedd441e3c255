"""The models on disk: one folder per model, complete or missing, each file checked by its hash.

A model's manifest describes it, with the size and SHA-256 of each of its files. It has a checksum,
and must equal, byte for byte, what writing it again would give.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked_dataclass

from judged_server.errors import JudgedError, ModelDamaged, ModelNotInstalled
from judged_server.settings import cache_folder

MANIFEST_FILE = "manifest.json"
GRAPH_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"

CALLER = "caller"
"""Stands for vectors that callers send; no stored model may have this name."""
DEFAULT_MODEL = "all-minilm-l6-v2"
MAX_PREFIX_CHARS = 1_000

Pooling = Literal["mean", "cls", "max", "last"]
Precision = Literal["fp32", "fp16", "int8"]

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
"""A model's name is its folder's name, so it can't hold a path."""


class ModelSourceError(JudgedError):
    """A model can't be fetched, built or added; the message says what to do."""

    reason = "MODEL_NOT_INSTALLED"


def is_inside(path: object) -> bool:
    """Return whether a relative path with forward slashes stays inside its folder."""
    if not isinstance(path, str) or not path or "\\" in path or "\0" in path:
        return False
    return not path.startswith("/") and not {"", ".", ".."} & set(path.split("/"))


def _inside(path: str) -> str:
    if not is_inside(path):
        raise ValueError("leads out of the model's folder")
    return path


_CHECKED = ConfigDict(strict=True)
_Size = Annotated[int, Field(ge=1, le=1 << 20)]


@checked_dataclass(frozen=True, slots=True, config=_CHECKED)
class StoredFile:
    """One file of a model; `path` is relative to the model's folder, with forward slashes."""

    path: Annotated[str, AfterValidator(_inside)]
    size: int
    sha256: str

    @classmethod
    def of(cls, folder: Path, path: str) -> StoredFile:
        """Return the entry of an existing file."""
        size, sha256 = hash_file(folder / path)
        return cls(path, size, sha256)


def _files_of_a_model(files: tuple[StoredFile, ...]) -> tuple[StoredFile, ...]:
    paths = [file.path for file in files]
    if len(set(paths)) != len(paths) or not {GRAPH_FILE, TOKENIZER_FILE} <= set(paths):
        raise ValueError("are not those of a model")
    return files


@checked_dataclass(frozen=True, slots=True, config=_CHECKED)
class Manifest:
    """Describes a stored model; all but `source` and `licence` is part of the scoring key."""

    name: Annotated[str, Field(pattern=f"^{NAME.pattern}$")]
    dimensions: _Size
    max_tokens: _Size
    pooling: Pooling
    normalize: bool
    precision: Precision
    source: str
    licence: str
    files: Annotated[tuple[StoredFile, ...], AfterValidator(_files_of_a_model)]
    prefix: Annotated[str, Field(max_length=MAX_PREFIX_CHARS)] = ""
    """Put before every text. Left out of the file if empty, as before prefixes existed."""
    format_version: Literal[1] = 1

    @property
    def model_sha256(self) -> str:
        """The hash of the graph, or of all hashes if its weights are in files beside it."""
        weights = [file for file in self.files if file.path != TOKENIZER_FILE]
        if len(weights) == 1:
            return weights[0].sha256
        lines = [f"{file.sha256}  {file.path}\n" for file in sorted(weights, key=lambda f: f.path)]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    @property
    def tokenizer_sha256(self) -> str:
        """The hash of tokenizer.json."""
        return next(file.sha256 for file in self.files if file.path == TOKENIZER_FILE)

    @property
    def size(self) -> int:
        """The bytes of all files but the manifest."""
        return sum(file.size for file in self.files)

    def to_bytes(self) -> bytes:
        """Return the canonical bytes of this manifest."""
        content = asdict(self)
        if not self.prefix:
            del content["prefix"]
        content["checksum"] = hashlib.sha256(_canonical(content)).hexdigest()
        return _canonical(content)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Manifest:
        """Return the manifest in `raw`. Raises ValueError, saying why, if it is not canonical."""
        try:
            manifest = TypeAdapter(cls).validate_json(raw)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "content"
            raise ValueError(f"its {where} is invalid: {first['msg']}") from error
        if manifest.to_bytes() != raw:
            raise ValueError("its checksum does not match its content")
        return manifest


def _canonical(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def hash_file(path: Path) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file, read in chunks."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model whose files have just been checked against its manifest."""

    manifest: Manifest
    folder: Path

    @property
    def graph(self) -> Path:
        """The ONNX graph."""
        return self.folder / GRAPH_FILE

    @property
    def tokenizer(self) -> Path:
        """The tokenizer.json."""
        return self.folder / TOKENIZER_FILE

    def damaged(self, path: Path, problem: str) -> ModelDamaged:
        """Return the error of one of these files."""
        return _damaged(path, problem, self.manifest.name)


def _damaged(path: Path, problem: str, name: str) -> ModelDamaged:
    what_to_do = f"run {_install_command(name)} to install it again"
    if name != DEFAULT_MODEL:
        what_to_do = f"remove its folder and run {_install_command(name)}"
    return ModelDamaged(str(path), problem, what_to_do)


def _install_command(name: str) -> str:
    if name == DEFAULT_MODEL:
        return "`judged-server models install`"
    return f"`judged-server models add {name[:80]} FOLDER`"


def not_installed(name: str) -> ModelNotInstalled:
    """Return the error of a model that is not on this server."""
    return ModelNotInstalled(name, f"run {_install_command(name)}")


class ModelStore:
    """The models in a folder, which may not exist; by default judged/models in the user's cache."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_folder("models")

    def list(self) -> dict[str, Manifest | ModelDamaged]:
        """Return the manifest of each stored model, or its error, by name. Reads no other files."""
        found: dict[str, Manifest | ModelDamaged] = {}
        for path in sorted(self.root.iterdir()) if self.root.is_dir() else ():
            if path.is_dir() and NAME.fullmatch(path.name):
                try:
                    found[path.name] = self.manifest(path.name)
                except ModelDamaged as error:
                    found[path.name] = error
        return found

    def manifest(self, name: str) -> Manifest:
        """Return the manifest of a stored model. Raises ModelNotInstalled or ModelDamaged."""
        path = self._folder(name) / MANIFEST_FILE
        try:
            manifest = Manifest.from_bytes(path.read_bytes())
        except OSError as error:
            raise _damaged(path, "can't be read", name) from error
        except ValueError as error:
            raise _damaged(path, str(error), name) from error
        if manifest.name != name:
            raise _damaged(path, "it is of another model", name)
        return manifest

    def load(self, name: str) -> ModelFiles:
        """Return a model's files after hashing each. Raises ModelNotInstalled or ModelDamaged."""
        files = ModelFiles(self.manifest(name), self._folder(name))
        for file in files.manifest.files:
            path = files.folder / file.path
            try:
                actual = hash_file(path)
            except OSError as error:
                raise files.damaged(path, f"it can't be read ({error.strerror})") from error
            if actual != (file.size, file.sha256):
                raise files.damaged(path, "its content has changed (size or SHA-256)")
        return files

    def _folder(self, name: str) -> Path:
        """Return a model's folder. Raises ModelNotInstalled, also for an invalid name."""
        if not NAME.fullmatch(name) or not (self.root / name).is_dir():
            raise not_installed(name)
        return self.root / name
