"""Readers of a model folder as sentence-transformers lays it out.

Refuses what this server would compute differently from them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from judged_server.embedding.models.manifest import MAX_PREFIX_CHARS, TOKENIZER_FILE, is_inside
from judged_server.embedding.models.sources import ModelSourceError

GRAPHS = ("onnx/model.onnx", "model.onnx")
CONFIG_FILE = "config.json"
MODULES_FILE = "modules.json"
POOLING_FOLDER = "1_Pooling"
SETTINGS_FILES = (
    "sentence_bert_config.json",
    "tokenizer_config.json",
    "config_sentence_transformers.json",
)
"""Files that a folder may have or not, beside modules.json."""

PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""Names of the prompt for a passage, in the order in which sentence-transformers looks for them."""

_Json = TypeVar("_Json", dict[str, Any], list[Any])

_POOLINGS = {
    "mean_tokens": "mean",
    "mean": "mean",
    # Another length of the same vector: as a unit vector it is the mean.
    "mean_sqrt_len_tokens": "mean",
    "mean_sqrt_len": "mean",
    "cls_token": "cls",
    "cls": "cls",
    "max_tokens": "max",
    "max": "max",
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


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """What a sentence-transformers folder says about its model."""

    graph: Path
    tokenizer: Path
    pooling: str
    normalize: bool
    max_tokens: int
    prefix: str = ""

    @classmethod
    def read(cls, folder: Path, options: ModelOptions | None = None) -> ModelFolder:
        """Return what the folder says. Raises ModelSourceError, naming the file and the remedy."""
        options = options or ModelOptions()
        names = GRAPHS if options.graph is None else (options.graph,)
        graph = next((folder / name for name in names if (folder / name).is_file()), None)
        if graph is None:
            raise ModelSourceError(
                f"{folder} has no {' or '.join(names)}: name another graph with --graph, or export "
                "the model to ONNX first, for instance with `optimum-cli export onnx`"
            )
        tokenizer = folder / TOKENIZER_FILE
        if not tokenizer.is_file():
            raise ModelSourceError(f"{folder} has no {TOKENIZER_FILE}, the fast tokenizer's file")
        modules = read_modules(folder)
        _refuse_lower_casing(folder)
        prefix = _read_prefix(folder) if options.prefix is None else options.prefix
        pooling = folder / modules["Pooling"] / CONFIG_FILE
        return cls(
            graph,
            tokenizer,
            _read_pooling(pooling, prefix),
            "Normalize" in modules,
            options.max_tokens or _read_window(folder),
            prefix,
        )


def read_modules(folder: Path) -> dict[str, str]:
    """Return the folders of a model's modules by type; only three types are known here."""
    path = folder / MODULES_FILE
    if not path.is_file():
        normalize = {"Normalize": "2_Normalize"} if (folder / "2_Normalize").is_dir() else {}
        return {"Pooling": POOLING_FOLDER, **normalize}
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
    if not is_inside(modules["Pooling"]):
        raise ModelSourceError(f"{path} has its Pooling module outside the model's folder")
    return modules


def _read_pooling(path: Path, prefix: str) -> str:
    """Return the pooling from a configuration, in its older or its newer form."""
    if not path.is_file():
        raise ModelSourceError(f"{path} is missing: it says how token vectors are pooled")
    config = _read_json(path, dict)
    modes = {
        name.removeprefix("pooling_mode_")
        for name, on in config.items()
        if name.startswith("pooling_mode_") and on is True
    }
    if isinstance(config.get("pooling_mode"), str):
        modes.add(config["pooling_mode"])
    poolings = {_POOLINGS.get(mode, mode) for mode in modes}
    if len(poolings) != 1 or not poolings <= set(_POOLINGS.values()):
        raise ModelSourceError(
            f"{path} asks for the pooling {' + '.join(sorted(poolings))[:80] or 'none'}; "
            "this server knows mean, cls, max and lasttoken"
        )
    if prefix and config.get("include_prompt") is False:
        raise ModelSourceError(
            f"{path} leaves the prompt out of the pooling, which this server can't; "
            'add the model with --prefix ""'
        )
    return poolings.pop()


def _read_prefix(folder: Path) -> str:
    """Return the prompt that sentence-transformers' encode_document sets before a text."""
    path = folder / "config_sentence_transformers.json"
    if not path.is_file():
        return ""
    config = _read_json(path, dict)
    prompts = config.get("prompts") or {}
    default = config.get("default_prompt_name")
    if not isinstance(prompts, dict) or (default is not None and default not in [*prompts]):
        raise ModelSourceError(f"{path} has prompts that can't be read: say which with --prefix")
    names = [name for name in PASSAGE_PROMPTS if name in prompts]
    prefix = prompts[[*names, default][0]] if names or default is not None else ""
    if not isinstance(prefix, str) or len(prefix) > MAX_PREFIX_CHARS:
        raise ModelSourceError(f"{path} has a prompt that is no short text: set --prefix")
    return prefix


def _read_window(folder: Path) -> int:
    """Return the window as sentence-transformers finds it: set, or what positions allow for."""
    value = _read_setting(folder, "sentence_bert_config.json", "max_seq_length")
    if _is_size(value):
        return int(value)
    # The tokenizer's limit may be the smaller one: RoBERTa's positions begin at 2.
    bounds = (
        _read_setting(folder, CONFIG_FILE, "max_position_embeddings"),
        _read_setting(folder, "tokenizer_config.json", "model_max_length"),
    )
    sizes = [int(bound) for bound in bounds if _is_size(bound)]
    if not _is_size(bounds[0]):
        raise ModelSourceError(
            f"{folder} does not say how many tokens the model takes: set --max-tokens, or give "
            'sentence_bert_config.json a "max_seq_length"'
        )
    return min(sizes)


def _refuse_lower_casing(folder: Path) -> None:
    """Refuse a folder that lower-cases texts before a tokenizer that does not."""
    if not _read_setting(folder, "sentence_bert_config.json", "do_lower_case"):
        return
    normalizer = _read_json(folder / TOKENIZER_FILE, dict).get("normalizer")
    if '"Lowercase"' in json.dumps(normalizer) or '"lowercase": true' in json.dumps(normalizer):
        return
    raise ModelSourceError(
        f"{folder / 'sentence_bert_config.json'} lower-cases texts (do_lower_case) and "
        f"{TOKENIZER_FILE} does not, which this server would leave out"
    )


def _read_setting(folder: Path, name: str, key: str) -> Any:  # noqa: ANN401 - any JSON
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
