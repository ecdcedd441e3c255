"""Readers of a model folder as sentence-transformers lays it out.

Refuses what this server would compute differently from them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from judged_server.embedding.models.store import (
    MAX_PREFIX_CHARS,
    TOKENIZER_FILE,
    ModelSourceError,
    Pooling,
    is_inside,
)

GRAPHS = ("onnx/model.onnx", "model.onnx")
CONFIG_FILE = "config.json"
MODULES_FILE = "modules.json"
SETTINGS_FILES = (
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "config_sentence_transformers.json",
)
"""Files that a folder may have or not, beside modules.json."""
PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""Names of the prompt for a passage, in the order in which sentence-transformers looks for them."""

_BERT, _TOKENIZER, _TRANSFORMERS = SETTINGS_FILES
_Json = TypeVar("_Json", dict[str, Any], list[Any])
_POOLINGS = {
    "mean_tokens": "mean",
    # Another length of the same vector: as a unit vector it is the mean.
    "mean_sqrt_len_tokens": "mean",
    "mean_sqrt_len": "mean",
    "cls_token": "cls",
    "max_tokens": "max",
    "lasttoken": "last",
}


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What the operator says about a model that is added; None leaves it to the folder.

    `graph` is a path inside the folder, `prefix` is set before every text, `max_tokens` is the
    window.
    """

    graph: str | None = None
    prefix: str | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse what can't be. Raises ModelSourceError."""
        if self.graph is not None and not (is_inside(self.graph) and self.graph.endswith(".onnx")):
            raise ModelSourceError(
                "--graph is a path inside the model's folder that ends with .onnx, "
                "for example onnx/model_fp16.onnx"
            )
        if self.prefix is not None and len(self.prefix) > MAX_PREFIX_CHARS:
            raise ModelSourceError(f"--prefix has more than {MAX_PREFIX_CHARS} characters")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ModelSourceError("--max-tokens is at least 1")

    @property
    def graphs(self) -> tuple[str, ...]:
        """The paths of the graph, of which the first that is there is taken."""
        return GRAPHS if self.graph is None else (self.graph,)


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a sentence-transformers folder says about its model."""

    graph: Path
    tokenizer: Path
    pooling: Pooling
    normalize: bool
    max_tokens: int
    prefix: str = ""

    @classmethod
    def read(cls, folder: Path, options: ModelOptions | None = None) -> ModelFolder:
        """Return what the folder says. Raises ModelSourceError, naming the file and the remedy."""
        options = options or ModelOptions()
        graph = next((folder / n for n in options.graphs if (folder / n).is_file()), None)
        if graph is None:
            raise ModelSourceError(
                f"{folder} has no {' or '.join(options.graphs)}: name another graph with --graph, "
                "or export the model to ONNX first, for instance with `optimum-cli export onnx`"
            )
        if not (folder / TOKENIZER_FILE).is_file():
            raise ModelSourceError(f"{folder} has no {TOKENIZER_FILE}, the fast tokenizer's file")
        modules = read_modules(folder)
        _refuse_lower_casing(folder)
        prefix = _prefix_of(folder) if options.prefix is None else options.prefix
        return cls(
            graph,
            folder / TOKENIZER_FILE,
            _pooling_of(folder / modules["Pooling"] / CONFIG_FILE, prefix),
            "Normalize" in modules,
            options.max_tokens or _window_of(folder),
            prefix,
        )


def read_modules(folder: Path) -> dict[str, str]:
    """Return the folders of a model's modules by type; only three types are known here."""
    path = folder / MODULES_FILE
    if not path.is_file():
        normalize = {"Normalize": "2_Normalize"} if (folder / "2_Normalize").is_dir() else {}
        return {"Pooling": "1_Pooling", **normalize}
    entries = _read_json(path, list)
    if not all(isinstance(entry, dict) for entry in entries):
        raise ModelSourceError(f"{path} is not a list of modules")
    modules = {
        str(entry.get("type", "")).rpartition(".")[2]: str(entry.get("path", ""))
        for entry in entries
    }
    if unknown := sorted(set(modules) - {"Transformer", "Pooling", "Normalize"}):
        raise ModelSourceError(
            f"{path} has the module {unknown[0][:80]}, which this server can't run: "
            "it knows Transformer, Pooling and Normalize"
        )
    if "Pooling" not in modules:
        raise ModelSourceError(f"{path} has no Pooling module")
    if not is_inside(modules["Pooling"]):
        raise ModelSourceError(f"{path} has its Pooling module outside the model's folder")
    return modules


def _pooling_of(path: Path, prefix: str) -> Pooling:
    """Return the pooling from a configuration, in its older or its newer form."""
    if not path.is_file():
        raise ModelSourceError(f"{path} is missing: it says how token vectors are pooled")
    config = _read_json(path, dict)
    old = "pooling_mode_"
    modes = [name.removeprefix(old) for name, on in config.items() if on is True and old in name]
    if isinstance(config.get("pooling_mode"), str):
        modes.append(config["pooling_mode"])
    poolings = {_POOLINGS.get(mode, mode) for mode in modes}
    if len(poolings) != 1 or not poolings <= set(get_args(Pooling)):
        raise ModelSourceError(
            f"{path} asks for the pooling {' + '.join(sorted(poolings))[:80] or 'none'}; "
            "this server knows mean, cls, max and lasttoken"
        )
    if prefix and config.get("include_prompt") is False:
        raise ModelSourceError(
            f"{path} leaves the prompt out of the pooling, which this server can't; "
            'add the model with --prefix ""'
        )
    return cast("Pooling", poolings.pop())


def _prefix_of(folder: Path) -> str:
    """Return the prompt that sentence-transformers' encode_document sets before a text."""
    prompts = _setting(folder, _TRANSFORMERS, "prompts") or {}
    default = _setting(folder, _TRANSFORMERS, "default_prompt_name")
    prefix: object = None
    if isinstance(prompts, dict) and (default is None or default in [*prompts]):
        found = [name for name in (*PASSAGE_PROMPTS, default) if name in prompts]
        prefix = prompts[found[0]] if found else ""
    if not isinstance(prefix, str) or len(prefix) > MAX_PREFIX_CHARS:
        raise ModelSourceError(
            f"{folder / _TRANSFORMERS} has prompts of which none is a short text for passages: "
            "set --prefix"
        )
    return prefix


def _window_of(folder: Path) -> int:
    """Return the window as sentence-transformers finds it: set, or what positions allow for."""
    window = _setting(folder, _BERT, "max_seq_length")
    positions = _setting(folder, CONFIG_FILE, "max_position_embeddings")
    if not _is_size(window) and not _is_size(positions):
        raise ModelSourceError(
            f"{folder} does not say how many tokens the model takes: set --max-tokens, or give "
            f'{_BERT} a "max_seq_length"'
        )
    # The tokenizer's limit may be the smaller one: RoBERTa's positions begin at 2.
    limits = (positions, _setting(folder, _TOKENIZER, "model_max_length"))
    return int(window) if _is_size(window) else min(int(n) for n in limits if _is_size(n))


def _refuse_lower_casing(folder: Path) -> None:
    """Refuse a folder that lower-cases texts before a tokenizer that does not."""
    if not _setting(folder, _BERT, "do_lower_case"):
        return
    normalizer = json.dumps(_read_json(folder / TOKENIZER_FILE, dict).get("normalizer"))
    if '"Lowercase"' not in normalizer and '"lowercase": true' not in normalizer:
        raise ModelSourceError(
            f"{folder / _BERT} lower-cases texts (do_lower_case) and {TOKENIZER_FILE} does not, "
            "which this server would leave out"
        )


def _setting(folder: Path, name: str, key: str) -> Any:  # noqa: ANN401 - any JSON
    path = folder / name
    return _read_json(path, dict).get(key) if path.is_file() else None


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _read_json(path: Path, expected: type[_Json]) -> _Json:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ModelSourceError(f"{path} can't be read as JSON") from error
    if not isinstance(content, expected):
        raise ModelSourceError(f"{path} is not a JSON {expected.__name__}")
    return content
