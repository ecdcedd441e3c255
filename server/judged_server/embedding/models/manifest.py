"""The manifest of a stored model: what it is, and the size and SHA-256 of each of its files.

A manifest vouches for itself: it carries a checksum and must be, byte for byte, what writing it
again would give.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from judged_server.embedding.base import ModelCard
from judged_server.errors import ModelNotInstalled

MANIFEST_FILE = "manifest.json"
GRAPH_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
FORMAT_VERSION = 1

POOLINGS = ("mean", "cls", "max", "last")
PRECISIONS = ("fp32", "fp16", "int8")

CALLER = "caller"
"""Stands for vectors that callers send; no stored model may have this name."""
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,79}")
"""A model's name is its folder's name, so it can't hold a path."""

DEFAULT_MODEL = "all-minilm-l6-v2"

MAX_PREFIX_CHARS = 1_000

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a model; `path` is relative to the model's folder, with forward slashes."""

    path: str
    size: int
    sha256: str

    @classmethod
    def of(cls, folder: Path, path: str) -> StoredFile:
        """Return the entry of a file that is in place."""
        size, sha256 = hash_file(folder / path)
        return cls(path, size, sha256)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a stored model is; all but `source` and `licence` enters the scoring key."""

    name: str
    dimensions: int
    max_tokens: int
    pooling: str
    normalize: bool
    precision: str
    source: str
    licence: str
    files: tuple[StoredFile, ...]
    prefix: str = ""
    """Set before every text. A manifest without one is written as it was before there were any."""
    format_version: int = field(default=FORMAT_VERSION)

    @property
    def model_sha256(self) -> str:
        """The hash of the graph, or of all hashes where its weights lie in files beside it."""
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

    def card(self, execution_provider: str = "CPUExecutionProvider") -> ModelCard:
        """Return the card of this model when `execution_provider` runs it."""
        return ModelCard(
            name=self.name,
            dimensions=self.dimensions,
            max_tokens=self.max_tokens,
            model_sha256=self.model_sha256,
            tokenizer_sha256=self.tokenizer_sha256,
            pooling=self.pooling,
            normalize=self.normalize,
            precision=self.precision,
            execution_provider=execution_provider,
            prefix=self.prefix,
        )

    def to_bytes(self) -> bytes:
        """Return the one way this manifest is written."""
        content = asdict(self)
        if not self.prefix:
            del content["prefix"]
        content["checksum"] = hashlib.sha256(_canonical(content)).hexdigest()
        return _canonical(content)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Manifest:
        """Return the manifest in `raw`. Raises ValueError, saying why, when a byte is off."""
        content: dict[str, Any] = _parse(raw)
        content.pop("checksum", None)
        if content.get("format_version") != FORMAT_VERSION:
            raise ValueError(f"its format version is not {FORMAT_VERSION}")
        try:
            files = tuple(StoredFile(**entry) for entry in content.pop("files"))
            manifest = cls(files=files, **content)
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError("it has not the fields of a manifest") from error
        manifest._check()
        if manifest.to_bytes() != raw:
            raise ValueError("its checksum does not match its content")
        return manifest

    def _check(self) -> None:
        """Refuse what the checksum of a careful forger would let through."""
        paths = [file.path for file in self.files]
        if len(set(paths)) != len(paths) or not {GRAPH_FILE, TOKENIZER_FILE} <= set(paths):
            raise ValueError("its list of files is not that of a model")
        if any(not is_inside(path) for path in paths):
            raise ValueError("a file's path leads out of the model's folder")
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            raise ValueError("the model's name is not a name")
        if self.pooling not in POOLINGS or self.precision not in PRECISIONS:
            raise ValueError("its pooling or precision is unknown")
        if not isinstance(self.prefix, str) or len(self.prefix) > MAX_PREFIX_CHARS:
            raise ValueError("its prefix is not a short text")
        if not (_is_count(self.dimensions) and _is_count(self.max_tokens)):
            raise ValueError("its sizes make no sense")


def hash_file(path: Path) -> tuple[int, str]:
    """Return the size and the SHA-256 of a file, read in chunks."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            size += len(chunk)
            digest.update(chunk)
    return size, digest.hexdigest()


def is_inside(path: object) -> bool:
    """Return whether a relative path with forward slashes stays inside its folder."""
    if not isinstance(path, str) or not path or "\\" in path or "\0" in path:
        return False
    return not path.startswith("/") and not {"", ".", ".."} & set(path.split("/"))


def _parse(raw: bytes) -> dict[str, Any]:
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is not JSON") from error
    if not isinstance(content, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - callers catch one exception
    return content


def _canonical(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1 << 20


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


def reinstall(name: str) -> str:
    """Return what to do about a damaged model."""
    if name == DEFAULT_MODEL:
        return f"run {install_command(name)} to install it again"
    return f"remove its folder and run {install_command(name)}"


def install_command(name: str) -> str:
    """Return the command that installs a model."""
    if name == DEFAULT_MODEL:
        return "`judged-server models install`"
    return f"`judged-server models add {name[:80]} FOLDER`"


def not_installed(name: str) -> ModelNotInstalled:
    """Return the error of a model that is not on this server."""
    return ModelNotInstalled(name, f"run {install_command(name)}")
