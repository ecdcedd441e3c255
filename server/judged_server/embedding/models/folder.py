"""Adds a foreign model to the store: reads, copies and tries its folder and its graph.

The folder has the layout of sentence-transformers; a model that this server would compute
differently is refused. Imported only when a model is added, since it needs onnx. Only the structure
of the graph is read.
"""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import onnx
from onnx import TensorProto

from judged_server.embedding.models.loading import probe
from judged_server.embedding.models.store import (
    GRAPH_FILE,
    MANIFEST_FILE,
    MAX_PREFIX_CHARS,
    TOKENIZER_FILE,
    Manifest,
    ModelSourceError,
    Pooling,
    Precision,
    StoredFile,
    is_inside,
)
from judged_server.embedding.runtime.session import OnnxSession, UnusableGraphError
from judged_server.embedding.tokenizer import WindowTokenizer

GRAPHS = ("onnx/model.onnx", "model.onnx")
CONFIG_FILE = "config.json"
MODULES_FILE = "modules.json"
PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""Names of the prompt for a passage, in the order in which sentence-transformers looks for them."""

_BERT = "sentence_bert_config.json"
_TRANSFORMERS = "config_sentence_transformers.json"
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

    `graph` is a path inside the folder, `prefix` is put before every text, `max_tokens` is the
    window.
    """

    graph: str | None = None
    prefix: str | None = None
    max_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse invalid options. Raises ModelSourceError."""
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
        """The possible paths of the graph; the first that exists is used."""
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
        if _setting(folder, _BERT, "do_lower_case"):
            raise ModelSourceError(
                f"{folder / _BERT} lower-cases texts (do_lower_case), which this server does not: "
                f"take it out if {TOKENIZER_FILE} does so"
            )
        window = options.max_tokens or _setting(folder, _BERT, "max_seq_length")
        if type(window) is not int or window < 1:
            raise ModelSourceError(
                f"{folder / _BERT} has no max_seq_length, the most tokens that the model takes: "
                "set --max-tokens"
            )
        prefix = _prefix_of(folder) if options.prefix is None else options.prefix
        return cls(
            graph,
            folder / TOKENIZER_FILE,
            _pooling_of(folder / modules["Pooling"] / CONFIG_FILE, prefix),
            "Normalize" in modules,
            window,
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
    """Return the prompt that sentence-transformers' encode_document puts before a text."""
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


def _setting(folder: Path, name: str, key: str) -> Any:  # noqa: ANN401 - any JSON
    path = folder / name
    return _read_json(path, dict).get(key) if path.is_file() else None


def _read_json(path: Path, expected: type[_Json]) -> _Json:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ModelSourceError(f"{path} can't be read as JSON") from error
    if not isinstance(content, expected):
        raise ModelSourceError(f"{path} is not a JSON {expected.__name__}")
    return content


_PRECISIONS: dict[int, Precision] = {
    TensorProto.FLOAT: "fp32",
    TensorProto.FLOAT16: "fp16",
    TensorProto.INT8: "int8",
    TensorProto.UINT8: "int8",
}


def stage_folder(
    name: str, folder: Path, staging: Path, options: ModelOptions | None, origin: str
) -> Manifest:
    """Return the manifest of a model copied into `staging`; `origin` says where it is from.

    Raises ModelSourceError.
    """
    source = ModelFolder.read(folder, options)
    graph = read_graph(source.graph)
    weights = external_files(graph, source.graph.parent)
    if reserved := {GRAPH_FILE, TOKENIZER_FILE, MANIFEST_FILE} & set(weights):
        raise ModelSourceError(f"{source.graph} keeps weights in {sorted(reserved)}")
    refuse_neighbour_effects(graph)
    precision = weight_precision(graph)
    shutil.copyfile(source.graph, staging / GRAPH_FILE)
    shutil.copyfile(source.tokenizer, staging / TOKENIZER_FILE)
    for path in weights:
        (staging / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.graph.parent / path, staging / path)
    return Manifest(
        name=name,
        dimensions=_try(source, staging),
        max_tokens=source.max_tokens,
        pooling=source.pooling,
        normalize=source.normalize,
        precision=precision,
        source=origin,
        licence="",
        files=tuple(
            StoredFile.of(staging, path) for path in (GRAPH_FILE, TOKENIZER_FILE, *weights)
        ),
        prefix=source.prefix,
    )


def _try(source: ModelFolder, staging: Path) -> int:
    """Return the dimensions of the copy after a run with short texts and a run at full length."""
    try:
        raw = (staging / TOKENIZER_FILE).read_bytes()
        tokenizer = WindowTokenizer(raw, source.max_tokens, source.prefix)
    except ValueError as error:
        raise ModelSourceError(f"{source.tokenizer}: {error}") from error
    try:
        session = OnnxSession(str(staging / GRAPH_FILE), source.pooling)
        probe(session, tokenizer)
        return probe(session, tokenizer, full_window=True)
    except UnusableGraphError as error:
        raise ModelSourceError(f"{source.graph}: {error}") from error


def read_graph(path: Path) -> onnx.ModelProto:
    """Return the structure of a graph, without its external weights."""
    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise ModelSourceError(f"{path} is not an ONNX graph") from error


def external_files(model: onnx.ModelProto, folder: Path) -> tuple[str, ...]:
    """Return the paths of the files beside the graph that hold weights, each inside `folder`.

    A path that leads out, by `..`, from the root or by a link, is refused: loading it would read a
    file of the graph's choice.
    """
    found: set[str] = set()
    for tensor in _tensors(model.graph):
        if tensor.data_location == TensorProto.EXTERNAL:
            locations = [entry.value for entry in tensor.external_data if entry.key == "location"]
            found.add(locations[0] if len(locations) == 1 else "")
    for location in found:
        path = folder / location
        if not is_inside(location) or not path.resolve().is_relative_to(folder.resolve()):
            raise ModelSourceError(
                f"the graph keeps weights in {location[:200]!r}, outside its own folder; refused "
                "(if that is a link, copy the folder with links resolved: cp -rL)"
            )
        if not path.is_file():
            raise ModelSourceError(f"{path} is missing: the graph's weights are there")
    return tuple(sorted(found))


def weight_precision(model: onnx.ModelProto) -> Precision:
    """Return fp32, fp16 or int8: the type of most of the weights."""
    sizes: Counter[Precision] = Counter()
    for tensor in _tensors(model.graph):
        if tensor.data_type in _PRECISIONS:
            sizes[_PRECISIONS[tensor.data_type]] += math.prod(tensor.dims)
    if not sizes:
        raise ModelSourceError("the graph has no weights in float32, float16 or int8")
    return sizes.most_common(1)[0][0]


def refuse_neighbour_effects(model: onnx.ModelProto) -> None:
    """Refuse activations quantised per batch: a text's vector would depend on its batch."""
    for graph in _graphs(model.graph):
        if any(node.op_type.startswith("DynamicQuantize") for node in graph.node):
            raise ModelSourceError(
                "the graph quantises activations batch by batch (DynamicQuantizeLinear), so that a "
                "text's score would depend on the texts beside it; use its fp32 or fp16 graph"
            )


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yield a graph and those in its branches and loops."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from _graphs(inner)


def _tensors(whole: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    for graph in _graphs(whole):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
        for node in graph.node:
            for attribute in node.attribute:
                yield from (attribute.t, *attribute.tensors)
