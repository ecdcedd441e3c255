"""Compares the embedding backends with three libraries and with the CPU's peak.

Texts are passages of 10 to 250 tokens of real English; no vectors are cached. Ours go through the
Python client to a server of each backend, as one group of one expected text against all others, so
that each is embedded once: wall seconds, and CPU seconds of client and server. The peers embed the
same list in separate processes with their defaults and the same weights, and report their seconds:
sentence-transformers and infinity-emb on torch, fastembed on the same ONNX graph. Runs interleave.
The cosines of the first text with the others are compared, to check that all compute the same.

default_over_st, default_over_fastembed   texts a second of ONNX Runtime in fp32 over a peer's
default_over_infinity
fastest_over_st, fastest_over_fastembed   those of the backend that is fastest here
fp32_peak_share                           floating-point operations a second of the fp32 backend
                                          over those of a bare matrix multiplication, all cores,
                                          taken in the same rounds (`gemm_worker`)
bf16_peak_share                           the same for the fastest bf16 backend
fp32_product_ceiling                      the same for only the model's matrix products, in the
bf16_product_ceiling                      server's batches (`product_worker`): the runtime
                                          multiplies these shapes no faster
fp32_share_of_products                    a peak share over its product ceiling
bf16_share_of_products
texts_a_s_NAME, cpu_ms_a_text_NAME        the values behind the ratios

Operations count real tokens, not padding: see `passages.Passages.flops`. The first round, with a
tenth of the texts, warms up.

    python -m benchmarks.embed [--texts 2000] [--rounds 5] [--backend NAME=FLAGS ...]

`make bench` uses 400 texts; published figures use 2,000.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from judged import QueryGroup

from benchmarks.harness import closing_line, ratios
from benchmarks.peers import environments
from benchmarks.peers.backends import RunningBackend, add_backend_option, start_all
from benchmarks.peers.passages import Passages, build_passages, peer_model

SEED = 11
PEERS = {
    "st": ("sentence-transformers", "sentence_transformers", environments.SENTENCE_TRANSFORMERS),
    "fastembed": ("fastembed", "fastembed", environments.FASTEMBED),
    "infinity": ("infinity-emb", "infinity", environments.INFINITY),
}
MOST_CHANGE = {"fp32": 1e-4, "bf16": 2e-2, "fp16": 1e-2, "int8": 1e-1}
"""Largest accepted difference of a cosine from that of sentence-transformers."""


@dataclass(slots=True)
class Contender:
    """A server or library that embeds, with the wall and CPU seconds of each round."""

    name: str
    embed: Callable[[int], tuple[float, float]]
    cosines: Callable[[], np.ndarray]
    precision: str = "fp32"
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def rates(self, work: float) -> list[float]:
        """Return work a second of each round."""
        return [work / seconds for seconds in self.wall]


def our_side(backend: RunningBackend, passages: Passages) -> Contender:
    """Return a server as a contender."""
    scores: list[float] = []

    def embed(count: int) -> tuple[float, float]:
        first, *others = passages.texts[:count]
        group = QueryGroup("q", [first], others)
        wall, cpu = time.perf_counter(), time.process_time() + backend.server.cpu_seconds()
        verdicts = backend.client.judge([group], "semantic", timeout=3000)
        wall = time.perf_counter() - wall
        cpu = time.process_time() + backend.server.cpu_seconds() - cpu
        if verdicts.n_ok != len(others):
            raise SystemExit(f"{backend.name}: {len(others) - verdicts.n_ok} verdicts are missing")
        scores[:] = verdicts.score
        return wall, cpu

    return Contender(backend.name, embed, lambda: np.array(scores), backend.precision)


def peer_side(name: str, texts: Path, stack: ExitStack) -> Contender:
    """Return a library as a contender. Raises NotRun."""
    folder, peer, requirements = PEERS[name]
    python = environments.environment(folder, requirements)
    worker = environments.Worker(
        python, "benchmarks.embed.worker", peer, str(peer_model()), str(texts)
    )
    stack.callback(worker.close)
    print(f"{name}: {', '.join(requirements)}, {worker.facts}", flush=True)
    vectors = texts.with_name(f"{name}.npy")

    def embed(count: int) -> tuple[float, float]:
        took = worker.ask(json.dumps({"count": count, "save": str(vectors)}))
        return float(took["wall"]), float(took["cpu"])

    def cosines() -> np.ndarray:
        rows = np.load(vectors).astype(np.float64)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        scores: np.ndarray = np.clip(rows[1:] @ rows[0], 0, 1)  # as the semantic judge scores
        return scores

    return Contender(name, embed, cosines)


def check_same(contenders: list[Contender]) -> None:
    """Raise SystemExit if a contender's cosines differ from the reference's."""
    reference = next((c for c in contenders if c.name == "st"), contenders[0])
    for contender in contenders:
        change = float(np.abs(contender.cosines() - reference.cosines()).max())
        print(f"{contender.name}: cosines within {change:.1e} of {reference.name}'s")
        if change > MOST_CHANGE.get(contender.precision, 1e-4):
            raise SystemExit(f"{contender.name} does not compute what {reference.name} does")


def find_peaks(
    lengths: Path, stack: ExitStack, not_run: dict[str, str]
) -> dict[str, dict[str, environments.Worker]]:
    """Return the workers that measure bare and model products, by precision."""
    found: dict[str, dict[str, environments.Worker]] = {"peak": {}, "products": {}}
    for precision in ("fp32", "bf16"):
        try:
            worker = environments.Worker(sys.executable, "benchmarks.embed.gemm_worker", precision)
            stack.callback(worker.close)
            found["peak"][precision] = worker
            worker = environments.Worker(
                sys.executable, "benchmarks.embed.product_worker", precision, str(lengths)
            )
            stack.callback(worker.close)
            found["products"][precision] = worker
        except environments.NotRun as problem:
            for figure in ("peak_share", "product_ceiling", "share_of_products"):
                not_run[f"{precision}_{figure}"] = str(problem)
    return found


def ask_rates(
    workers: dict[str, dict[str, environments.Worker]], rates: dict[str, dict[str, list[float]]]
) -> None:
    """Take one more sample of each rate."""
    for kind, by_precision in workers.items():
        for precision, worker in by_precision.items():
            rate = float(worker.ask()["gflops"])
            rates[kind].setdefault(precision, []).append(rate)


def figures(
    contenders: list[Contender],
    peaks: dict[str, list[float]],
    products: dict[str, list[float]],
    passages: Passages,
    not_run: dict[str, str],
) -> tuple[dict[str, list[float]], str]:
    """Return the samples of each figure, and which backend is the fastest."""
    count = len(passages.texts)
    by_name = {contender.name: contender for contender in contenders}
    ours = [contender for contender in contenders if contender.name not in PEERS]
    fastest = min(ours, key=lambda contender: statistics.median(contender.wall))
    samples: dict[str, list[float]] = {}
    for peer in PEERS:
        if peer in by_name:
            theirs = by_name[peer].wall
            samples[f"default_over_{peer}"] = ratios(theirs, ours[0].wall)
            samples[f"fastest_over_{peer}"] = ratios(theirs, fastest.wall)
        else:
            for who in ("default", "fastest"):
                not_run[f"{who}_over_{peer}"] = not_run[peer]
    for precision, gflops in peaks.items():
        able = [contender for contender in ours if contender.precision == precision]
        if able:
            best = min(able, key=lambda contender: statistics.median(contender.wall))
            reached = [rate / 1e9 for rate in best.rates(passages.flops)]
            samples[f"{precision}_peak_share"] = ratios(reached, gflops)
            samples[f"{precision}_peak_gflops"] = gflops
            if precision in products:
                samples[f"{precision}_product_ceiling"] = ratios(products[precision], gflops)
                samples[f"{precision}_share_of_products"] = ratios(reached, products[precision])
        else:
            not_run[f"{precision}_peak_share"] = f"no backend runs in {precision} here"
    for contender in contenders:
        samples[f"texts_a_s_{contender.name}"] = contender.rates(count)
        samples[f"cpu_ms_a_text_{contender.name}"] = [s / count * 1e3 for s in contender.cpu]
    return samples, fastest.name


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embed")
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    add_backend_option(parser)
    arguments = parser.parse_args()
    passages = build_passages(arguments.texts, SEED)
    not_run: dict[str, str] = {}
    rates: dict[str, dict[str, list[float]]] = {"peak": {}, "products": {}}
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (scratch / "texts.json").write_text(json.dumps(passages.texts))
        (scratch / "lengths.json").write_text(json.dumps(passages.tokens))
        servers = start_all(stack, arguments.backend, not_run, "--vector-cache", "off")
        contenders = [our_side(backend, passages) for backend in servers]
        for name in PEERS:
            try:
                contenders.append(peer_side(name, scratch / "texts.json", stack))
            except environments.NotRun as problem:
                print(f"{name}: not run ({problem})")
                not_run[name] = str(problem)
        workers = find_peaks(scratch / "lengths.json", stack, not_run)
        for round_number in range(arguments.rounds + 1):
            if not round_number:  # the first round warms up
                for contender in contenders:
                    contender.embed(max(2, arguments.texts // 10))
                continue
            ask_rates(workers, rates)
            for contender in contenders:
                wall, cpu = contender.embed(arguments.texts)
                contender.wall.append(wall)
                contender.cpu.append(cpu)
            if round_number == 1:
                check_same(contenders)
        facts = {
            "texts": arguments.texts,
            "mean_tokens": round(statistics.mean(passages.tokens), 1),
            "backends": {b.name: f"{b.precision} on {b.provider}" for b in servers},
            "peers": [requirement for peer in PEERS.values() for requirement in peer[2]],
        }
    samples, fastest = figures(contenders, rates["peak"], rates["products"], passages, not_run)
    for contender in contenders:
        speeds = contender.rates(arguments.texts)
        print(f"{contender.name}: {min(speeds):.1f} to {max(speeds):.1f} texts/s")
    print(closing_line("embed", samples, not_run, facts | {"fastest": fastest}))


if __name__ == "__main__":
    main()
