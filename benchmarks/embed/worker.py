"""Embeds texts with one peer library, on request: a peer of `benchmarks.embed` and `semantic`.

Runs in the peer's environment, with that library's defaults. A line is a JSON object with the
number of texts to embed, or the name of the file to write all vectors to. Loading is not counted.

    python -m benchmarks.embed.worker sentence_transformers|fastembed|infinity MODEL TEXTS
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Embed = Callable[[Sequence[str]], Any]


def sentence_transformers(folder: str) -> tuple[Embed, dict[str, object]]:
    """Return encode() of sentence-transformers on torch's CPU."""
    import torch  # noqa: PLC0415 - of the peer's environment
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415

    model = SentenceTransformer(folder, device="cpu")
    return model.encode, {"torch": torch.__version__, "threads": torch.get_num_threads()}


def fastembed(folder: str) -> tuple[Embed, dict[str, object]]:
    """Return embed() of fastembed on the ONNX graph of the folder."""
    from fastembed import TextEmbedding  # noqa: PLC0415 - of the peer's environment
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415

    name = "local/all-minilm-l6-v2"
    TextEmbedding.add_custom_model(
        model=name,
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf=name),
        dim=384,
        model_file="model.onnx",
    )
    model = TextEmbedding(name, specific_model_path=folder)
    return lambda texts: list(model.embed(list(texts))), {"threads": "default"}


def infinity(folder: str) -> tuple[Embed, dict[str, object]]:
    """Return embed() of infinity-emb's torch engine, which does its own batching."""
    from infinity_emb import AsyncEngineArray, EngineArgs  # noqa: PLC0415 - of the peer's environment

    engines = AsyncEngineArray.from_args(
        [EngineArgs(model_name_or_path=folder, engine="torch", device="cpu")]
    )
    loop = asyncio.new_event_loop()
    engine = engines[0]
    loop.run_until_complete(engine.astart())
    return lambda texts: loop.run_until_complete(engine.embed(list(texts)))[0], {
        "threads": "default"
    }


PEERS: dict[str, Callable[[str], tuple[Embed, dict[str, object]]]] = {
    "sentence_transformers": sentence_transformers,
    "fastembed": fastembed,
    "infinity": infinity,
}


def main() -> None:
    """Serve until standard input ends."""
    peer, folder, texts_file = sys.argv[1:]
    texts = json.loads(Path(texts_file).read_text())
    embed, facts = PEERS[peer](folder)
    embed(texts[:4])
    answer(facts)
    for line in sys.stdin:
        request = json.loads(line)
        count = request.get("count", len(texts))
        wall, cpu = time.perf_counter(), time.process_time()
        vectors = embed(texts[:count])
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if "save" in request:
            np.save(request["save"], np.asarray(vectors, np.float32))
        answer({"wall": wall, "cpu": cpu})


def answer(content: dict[str, object]) -> None:
    """Write one line and flush it."""
    os.write(1, (json.dumps(content) + "\n").encode())


if __name__ == "__main__":
    main()
