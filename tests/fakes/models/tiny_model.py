"""A real BERT of 30 kB and variants of it: seeded weights, a letter-wise tokenizer, their folders.

It runs through the same builder, tokenizer library and runtime as the default model. Its vectors
mean nothing; what a text gets depends on its letters alone.
"""

from __future__ import annotations

import functools
import json
import string
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from judged_server.embedding.models.adding import WritableStore
from judged_server.embedding.models.default_model import build_bert_graph
from judged_server.embedding.models.store import Manifest, ModelFiles, ModelStore
from onnx import helper, numpy_helper
from onnxruntime.transformers.float16 import convert_float_to_float16

NAME = "tiny"
HIDDEN, LAYERS, HEADS, POSITIONS = 16, 2, 4, 24
WINDOW = 12
CAPACITY = WINDOW - 2
"""Tokens of text in a window: the rest are [CLS] and [SEP]."""

TOKENIZER = Path(__file__).parents[2] / "data" / "tiny_tokenizer.json"
"""It, without its vocabulary."""
_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_SINGLE = [*string.ascii_lowercase, *string.digits, *string.punctuation, "中", "文", "é", "й"]
VOCABULARY = [*_SPECIAL, *_SINGLE, *(f"##{character}" for character in _SINGLE)]


@functools.cache
def weights(hidden: int = HIDDEN) -> dict[str, np.ndarray]:
    """Return BERT weights under the names of transformers, drawn from a fixed seed."""
    rng = np.random.default_rng(20)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), hidden),
        "embeddings.position_embeddings.weight": (POSITIONS, hidden),
        "embeddings.token_type_embeddings.weight": (2, hidden),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{index}" for index in range(LAYERS)):
        sizes = {
            "attention.self.query": (hidden, hidden),
            "attention.self.key": (hidden, hidden),
            "attention.self.value": (hidden, hidden),
            "attention.output.dense": (hidden, hidden),
            "intermediate.dense": (4 * hidden, hidden),
            "output.dense": (hidden, 4 * hidden),
        }
        for name, (rows, columns) in sizes.items():
            shapes[f"{layer}.{name}.weight"] = (rows, columns)
            shapes[f"{layer}.{name}.bias"] = (rows,)
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    drawn = {name: rng.normal(0, 0.4, shape).astype("<f4") for name, shape in shapes.items()}
    for name in norms:
        drawn[f"{name}.weight"] = np.ones(hidden, "<f4")
        drawn[f"{name}.bias"] = np.zeros(hidden, "<f4")
    return drawn


def safetensors() -> bytes:
    """Return the weights as a safetensors file."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, value in weights().items():
        raw = value.tobytes()
        offsets = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": offsets}
        body += raw
    encoded = json.dumps(header).encode()
    return struct.pack("<Q", len(encoded)) + encoded + body


def config() -> bytes:
    """Return config.json."""
    sizes = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "layer_norm_eps": 1e-12}
    return json.dumps({**sizes, "max_position_embeddings": POSITIONS}).encode()


@functools.cache
def graph(hidden: int = HIDDEN) -> bytes:
    """Return the ONNX graph."""
    return build_bert_graph(weights(hidden), json.loads(config()))


def edited(change: Callable[[onnx.ModelProto], None]) -> bytes:
    """Return the graph after a change to it."""
    model = onnx.load_from_string(graph())
    change(model)
    return model.SerializeToString()


def with_token_types() -> bytes:
    """Return the graph with the input token_type_ids: its vectors are other than of type 0."""

    def change(model: onnx.ModelProto) -> None:
        model.graph.input.append(
            helper.make_tensor_value_info("token_type_ids", onnx.TensorProto.INT64, ["b", "s"])
        )
        types = helper.make_node("Cast", ["token_type_ids"], ["types"], to=onnx.TensorProto.FLOAT)
        rank = helper.make_node("Unsqueeze", ["types", "mask_axes.last"], ["types.raised"])
        axes = helper.make_tensor("mask_axes.last", onnx.TensorProto.INT64, [1], [2])
        model.graph.initializer.append(axes)
        model.graph.node[-1].output[0] = "of_type_0"
        added = helper.make_node("Add", ["of_type_0", "types.raised"], ["last_hidden_state"])
        model.graph.node.extend([types, rank, added])

    return edited(change)


@functools.cache
def half_precision() -> bytes:
    """Return the graph in float16, its output too."""
    converted = convert_float_to_float16(onnx.load_from_string(graph()))
    raw: bytes = converted.SerializeToString()
    return raw


def not_finite_on(letter: str) -> bytes:
    """Return the graph with NaN as the embedding of one letter at the start of a word."""

    def change(model: onnx.ModelProto) -> None:
        for tensor in model.graph.initializer:
            if tensor.name == "embeddings.word_embeddings.weight":
                values = numpy_helper.to_array(tensor).copy()
                values[VOCABULARY.index(letter)] = np.nan
                tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))

    return edited(change)


def failing_alone() -> bytes:
    """Return the graph made to fail on a single text: it looks up place 1 of a list of one."""

    def change(model: onnx.ModelProto) -> None:
        def number(name: str, value: int) -> None:
            tensor = helper.make_tensor(name, onnx.TensorProto.INT64, [1], [value])
            model.graph.initializer.append(tensor)

        for name, value in (("no", 0), ("two", 2), ("batch_axis", 0)):
            number(name, value)
        nothing = helper.make_tensor("nothing", onnx.TensorProto.FLOAT, [1], [0.0])
        model.graph.initializer.append(nothing)
        model.graph.node[-1].output[0] = "whole"
        model.graph.node.extend(
            [
                helper.make_node("Shape", ["input_ids"], ["shape"]),
                helper.make_node("Gather", ["shape", "batch_axis"], ["rows"]),
                helper.make_node("Sub", ["two", "rows"], ["wanting"]),
                helper.make_node("Max", ["wanting", "no"], ["place"]),
                helper.make_node("Gather", ["nothing", "place"], ["found"]),
                helper.make_node("Add", ["whole", "found"], ["last_hidden_state"]),
            ]
        )

    return edited(change)


def tokenizer() -> bytes:
    """Return a tokenizer.json that, like the default model's, truncates and pads by itself."""
    content = json.loads(TOKENIZER.read_text())
    content["model"]["vocab"] = {token: number for number, token in enumerate(VOCABULARY)}
    return json.dumps(content, ensure_ascii=False).encode()


def write_folder(
    folder: Path,
    *,
    pooling: str = "mean",
    window: int = WINDOW,
    onnx: bytes | None = None,
    normalize: bool = True,
    prompts: dict[str, Any] | None = None,
) -> Path:
    """Return `folder` with the model in it as sentence-transformers lays models out.

    `prompts` is the content of config_sentence_transformers.json, if there is to be one.
    """
    for name in ("onnx", "1_Pooling", "2_Normalize"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "onnx" / "model.onnx").write_bytes(graph() if onnx is None else onnx)
    (folder / "tokenizer.json").write_bytes(tokenizer())
    (folder / "config.json").write_bytes(config())
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    write_json(folder / "modules.json", modules[: 3 if normalize else 2])
    if prompts is not None:
        write_json(folder / "config_sentence_transformers.json", prompts)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": window})
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "lasttoken")
    chosen = {
        f"pooling_mode_{mode}": mode.startswith(
            f"{pooling}tok" if pooling == "last" else f"{pooling}_tok"
        )
        for mode in modes
    }
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN, **chosen})
    return folder


def write_json(path: Path, content: object) -> None:
    """Write JSON to a file."""
    path.write_text(json.dumps(content))


def add_to(store: ModelStore, scratch: Path, name: str = NAME, **options: Any) -> Manifest:
    """Return the manifest of the model once it is in `store`."""
    return WritableStore(store.root).add(name, write_folder(scratch / f"source-{name}", **options))


def stored_files(root: Path, **options: Any) -> ModelFiles:
    """Return the checked files of the model in a new store under `root`."""
    store = ModelStore(root / "models")
    add_to(store, root, **options)
    return store.load(NAME)
