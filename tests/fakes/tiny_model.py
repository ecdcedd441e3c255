"""A real BERT of 30 kB: seeded weights, a letter-wise WordPiece tokenizer, and their folders.

It runs through the same builder, tokenizer library and runtime as the default model. Its vectors
mean nothing; what a text gets depends on its letters alone.
"""

from __future__ import annotations

import functools
import json
import string
import struct
from pathlib import Path
from typing import Any

import numpy as np
from judged_server.embedding.bert_graph import BertShape, build_bert_graph
from judged_server.embedding.manifest import Manifest
from judged_server.embedding.store import ModelFiles, ModelStore

NAME = "tiny"
HIDDEN, LAYERS, HEADS, POSITIONS = 16, 2, 4, 24
WINDOW = 12
CAPACITY = WINDOW - 2
"""Tokens of text in a window: the rest are [CLS] and [SEP]."""

_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
_SINGLE = [*string.ascii_lowercase, *string.digits, *string.punctuation, "中", "文", "é", "й"]
VOCABULARY = [*_SPECIAL, *_SINGLE, *(f"##{character}" for character in _SINGLE)]


@functools.cache
def weights() -> dict[str, np.ndarray]:
    """Return BERT weights under the names of transformers, drawn from a fixed seed."""
    rng = np.random.default_rng(20)
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), HIDDEN),
        "embeddings.position_embeddings.weight": (POSITIONS, HIDDEN),
        "embeddings.token_type_embeddings.weight": (2, HIDDEN),
    }
    norms = ["embeddings.LayerNorm"]
    for layer in (f"encoder.layer.{index}" for index in range(LAYERS)):
        sizes = {
            "attention.self.query": (HIDDEN, HIDDEN),
            "attention.self.key": (HIDDEN, HIDDEN),
            "attention.self.value": (HIDDEN, HIDDEN),
            "attention.output.dense": (HIDDEN, HIDDEN),
            "intermediate.dense": (4 * HIDDEN, HIDDEN),
            "output.dense": (HIDDEN, 4 * HIDDEN),
        }
        for name, (rows, columns) in sizes.items():
            shapes[f"{layer}.{name}.weight"] = (rows, columns)
            shapes[f"{layer}.{name}.bias"] = (rows,)
        norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
    drawn = {name: rng.normal(0, 0.4, shape).astype("<f4") for name, shape in shapes.items()}
    for name in norms:
        drawn[f"{name}.weight"] = np.ones(HIDDEN, "<f4")
        drawn[f"{name}.bias"] = np.zeros(HIDDEN, "<f4")
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
def graph() -> bytes:
    """Return the ONNX graph."""
    return build_bert_graph(weights(), BertShape(LAYERS, HEADS, 1e-12))


def tokenizer() -> bytes:
    """Return a tokenizer.json that, like the default model's, truncates and pads by itself."""
    added = [
        {
            "id": number,
            "content": content,
            "special": True,
            **dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False),
        }
        for number, content in enumerate(_SPECIAL)
    ]
    special = {
        name: {"id": name, "ids": [VOCABULARY.index(name)], "tokens": [name]}
        for name in ("[CLS]", "[SEP]")
    }
    single = [
        {"SpecialToken": {"id": "[CLS]", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}},
        {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
    ]
    content = {
        "version": "1.0",
        "truncation": {
            "direction": "Right",
            "max_length": 6,
            "strategy": "LongestFirst",
            "stride": 0,
        },
        "padding": {
            "strategy": {"Fixed": 6},
            "direction": "Right",
            "pad_to_multiple_of": None,
            "pad_id": 0,
            "pad_type_id": 0,
            "pad_token": "[PAD]",
        },
        "added_tokens": added,
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": single,
            "pair": [*single, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": special,
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {token: number for number, token in enumerate(VOCABULARY)},
        },
    }
    return json.dumps(content, ensure_ascii=False).encode()


def write_folder(
    folder: Path, *, pooling: str = "mean", window: int = WINDOW, onnx: bytes | None = None
) -> Path:
    """Return `folder` with the model in it as sentence-transformers lays models out."""
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
    write_json(folder / "modules.json", modules)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": window})
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    chosen = {f"pooling_mode_{mode}": mode.startswith(f"{pooling}_tok") for mode in modes}
    write_json(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": HIDDEN, **chosen})
    return folder


def write_json(path: Path, content: object) -> None:
    """Write JSON to a file."""
    path.write_text(json.dumps(content))


def add_to(store: ModelStore, scratch: Path, name: str = NAME, **options: Any) -> Manifest:
    """Return the manifest of the model once it is in `store`."""
    return store.add(name, write_folder(scratch / f"source-{name}", **options))


def stored_files(root: Path, **options: Any) -> ModelFiles:
    """Return the checked files of the model in a new store under `root`."""
    store = ModelStore(root / "models")
    add_to(store, root, **options)
    return store.load(NAME)
