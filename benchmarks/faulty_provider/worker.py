"""A peer in `benchmarks.faulty_provider`: scores answers with the peer's own defaults.

Runs in an environment that has only the peer. Each line on standard input is a number of answers;
the reply has the number of those without a score, and the wall seconds.

    python -m benchmarks.faulty_provider.worker ragas|phoenix PORT
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
import warnings
from typing import Any

MODEL = "scripted-1"


def ragas(count: int, url: str) -> int:
    """Return how many answers have no score by ragas' AspectCritic."""
    from langchain_openai import ChatOpenAI  # noqa: PLC0415
    from ragas import EvaluationDataset, evaluate  # noqa: PLC0415
    from ragas.llms import LangchainLLMWrapper  # noqa: PLC0415
    from ragas.metrics import AspectCritic  # noqa: PLC0415

    rows = [
        {"user_input": f"question {n}", "response": f"answer {n}", "reference": f"expected {n}"}
        for n in range(count)
    ]
    critic = AspectCritic("match", "Does the answer say what the reference says?")
    model: Any = LangchainLLMWrapper(ChatOpenAI(model=MODEL, base_url=url, api_key="k"))
    done: Any = evaluate(
        EvaluationDataset.from_list(rows), [critic], llm=model, show_progress=False
    )
    return sum(value is None or value != value for value in done["match"])


def phoenix(count: int, url: str) -> int:
    """Return how many answers have no score by a classifier of phoenix-evals."""
    import pandas as pd  # noqa: PLC0415
    from phoenix.evals import LLM, async_evaluate_dataframe, create_classifier  # noqa: PLC0415

    frame = pd.DataFrame(
        [{"input": f"question {n}", "output": f"answer {n}", "expected": f"expected {n}"}
         for n in range(count)]
    )  # fmt: skip
    model = LLM(
        provider="openai",
        model=MODEL,
        sync_client_kwargs={"base_url": url, "api_key": "k"},
        async_client_kwargs={"base_url": url, "api_key": "k"},
    )
    matches = create_classifier(
        "match", "Does {output} answer {input} as {expected} does?", model, {"yes": 1.0, "no": 0.0}
    )
    done = asyncio.run(async_evaluate_dataframe(frame, [matches], hide_tqdm_threshold=True))
    return sum(not _is_score(value) for value in done["match_score"])


def _is_score(score: object) -> bool:
    value = json.loads(score) if isinstance(score, str) else score
    return isinstance(value, dict) and isinstance(value.get("score"), int | float)


PEERS = {"ragas": ragas, "phoenix": phoenix}
PACKAGES = {"ragas": ("ragas", "langchain_openai"), "phoenix": ("phoenix.evals", "pandas")}
"""Imported before the clock starts; each environment has one of the peers."""


def main() -> None:
    """Answer each line of standard input."""
    peer, port = sys.argv[1:]
    url = f"http://127.0.0.1:{port}/v1"
    os.environ.setdefault("RAGAS_DO_NOT_TRACK", "true")
    warnings.simplefilter("ignore")
    for package in PACKAGES[peer]:
        importlib.import_module(package)
    print(json.dumps({"ready": peer}), flush=True)
    for line in sys.stdin:
        began = time.perf_counter()
        try:
            lost = PEERS[peer](int(line), url)
        except Exception as error:  # noqa: BLE001 - a peer that raises loses all answers
            print(repr(error), file=sys.stderr)
            lost = int(line)
        reply = {"lost": lost, "wall_s": time.perf_counter() - began}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
