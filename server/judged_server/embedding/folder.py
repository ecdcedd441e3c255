"""Readers of a model folder as sentence-transformers lays it out.

Owns what such a folder says: which graph, which tokenizer, which pooling, which window. Refuses
what this server would compute differently from the model's authors. Leaves the graph's inside to
`inspection`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from judged_server.embedding.manifest import TOKENIZER_FILE
from judged_server.embedding.sources import ModelSourceError

GRAPHS = ("onnx/model.onnx", "model.onnx")

_Json = TypeVar("_Json", dict[str, Any], list[Any])

_POOLING_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls"}


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a sentence-transformers folder says about its model."""

    graph: Path
    tokenizer: Path
    pooling: str
    normalize: bool
    max_tokens: int

    @classmethod
    def read(cls, folder: Path) -> ModelFolder:
        """Return what the folder says. Raises ModelSourceError, naming the file and the remedy."""
        graph = next((folder / name for name in GRAPHS if (folder / name).is_file()), None)
        if graph is None:
            raise ModelSourceError(
                f"{folder} has no {' or '.join(GRAPHS)}: export the model to ONNX first, for "
                "instance with `optimum-cli export onnx`"
            )
        tokenizer = folder / TOKENIZER_FILE
        if not tokenizer.is_file():
            raise ModelSourceError(f"{folder} has no {TOKENIZER_FILE}, the fast tokenizer's file")
        modules = _read_modules(folder)
        return cls(
            graph,
            tokenizer,
            _read_pooling(folder / modules["Pooling"] / "config.json"),
            "Normalize" in modules,
            _read_window(folder),
        )


def _read_modules(folder: Path) -> dict[str, str]:
    """Return the folders of a model's modules by type; only three types are known here."""
    path = folder / "modules.json"
    if not path.is_file():
        normalize = {"Normalize": "2_Normalize"} if (folder / "2_Normalize").is_dir() else {}
        return {"Pooling": "1_Pooling", **normalize}
    modules: dict[str, str] = {}
    for entry in _read_json(path, list):
        if not isinstance(entry, dict):
            raise ModelSourceError(f"{path} is not a list of modules")
        modules[str(entry.get("type", "")).rpartition(".")[2]] = str(entry.get("path", ""))
    unknown = sorted(set(modules) - {"Transformer", "Pooling", "Normalize"})
    if unknown:
        raise ModelSourceError(
            f"{path} has the module {unknown[0][:80]}, which this server can't run: "
            "it knows Transformer, Pooling and Normalize"
        )
    if "Pooling" not in modules:
        raise ModelSourceError(f"{path} has no Pooling module")
    return modules


def _read_pooling(path: Path) -> str:
    """Return mean or cls from a pooling configuration, in its older or its newer form."""
    if not path.is_file():
        raise ModelSourceError(f"{path} is missing: it says how token vectors are pooled")
    config = _read_json(path, dict)
    chosen = {name for name, on in config.items() if name.startswith("pooling_mode_") and on}
    modes = {_POOLING_MODES.get(name, name.removeprefix("pooling_mode_")) for name in chosen}
    if isinstance(config.get("pooling_mode"), str):
        modes.add(config["pooling_mode"])
    if len(modes) != 1 or not modes <= {"mean", "cls"}:
        raise ModelSourceError(
            f"{path} asks for the pooling {' + '.join(sorted(modes))[:80] or 'none'}; "
            "this server knows mean and cls"
        )
    return modes.pop()


def _read_window(folder: Path) -> int:
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("config.json", "max_position_embeddings"),
    ):
        if (folder / name).is_file():
            value = _read_json(folder / name, dict).get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    raise ModelSourceError(
        f"{folder} does not say how many tokens the model takes: give "
        'sentence_bert_config.json a "max_seq_length"'
    )


def _read_json(path: Path, expected: type[_Json]) -> _Json:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ModelSourceError(f"{path} can't be read as JSON") from error
    if not isinstance(content, expected):
        raise ModelSourceError(f"{path} is not a JSON {expected.__name__}")
    return content
