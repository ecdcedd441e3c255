"""Which way of running a model is the fastest on this machine, by measurement.

Three questions, one after the other, each with the winner of the one before: which backend, how
many threads to a batch, how many tokens to a batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pydoc_data.topics import topics
from statistics import median

import numpy as np

from judged_server.embedding.batching.cutting import pad
from judged_server.embedding.batching.queue import BATCH_TOKENS
from judged_server.embedding.models.loading import open_session
from judged_server.embedding.models.manifest import ModelFiles
from judged_server.embedding.policy import TRUNCATE
from judged_server.embedding.runtime.backend import Session
from judged_server.embedding.runtime.backend_selection import (
    AUTO,
    BF16,
    CUDA,
    FP16,
    FP32,
    ONNXRUNTIME,
    OPENVINO,
    Backend,
    Machine,
    RuntimeConfig,
    choose,
)
from judged_server.embedding.tokenizer import TokenIds, WindowTokenizer
from judged_server.settings import SettingsError

BUDGETS = (128, 256, 512, 1024, 2048)
ROUNDS = 3
"""Candidates run in turns, and their medians are compared: a neighbour's burst hits all alike."""
LEAST_GAIN = 1.03
"""A candidate that is not this much faster than the one before it is noise."""
TEXTS = 400
LEAST_CHARS = 40
SEED = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """What one way of running reached: texts of the sample a second, and CPU time for each."""

    running: RuntimeConfig
    texts_per_s: float
    cpu_ms_per_text: float


@dataclass(frozen=True, slots=True)
class Clocks:
    """Wall and CPU seconds, from any beginning."""

    wall: Callable[[], float] = time.perf_counter
    cpu: Callable[[], float] = time.process_time


def backends(name: str, precision: str, machine: Machine) -> tuple[Backend, ...]:
    """Return the backends that the settings leave open and that this machine has.

    ONNX Runtime in fp32, the reference, comes first. Raises SettingsError when none is left.
    """
    # TensorRT builds for minutes, so it is tried when it is asked for by name.
    names = (ONNXRUNTIME, OPENVINO, CUDA) if name == AUTO else (name,)
    precisions = (FP32, BF16, FP16) if precision == AUTO else (precision,)
    found = []
    for each in names:
        for asked in precisions:
            try:
                found.append(choose(each, asked, machine))
            except SettingsError:
                continue
    return tuple(found) or (choose(name, precision, machine),)


class Tuner:
    """Trials of one model under a limit of time."""

    def __init__(
        self,
        files: ModelFiles,
        cores: int,
        seconds: float,
        open_with: Callable[[ModelFiles, RuntimeConfig], Session] = open_session,
        clocks: Clocks | None = None,
    ) -> None:
        """Measure for about `seconds`; opening sessions takes some more."""
        self._files = files
        self._cores = cores
        self._seconds = seconds
        self._open = open_with
        self._clocks = clocks or Clocks()
        tokenizer = WindowTokenizer(files.tokenizer.read_bytes(), files.manifest.max_tokens)
        self._pad_id = tokenizer.pad_id
        self._windows = [text.windows[0] for text in tokenizer.encode(sample(), TRUNCATE)]

    def best(
        self, candidates: Sequence[Backend]
    ) -> Iterator[tuple[str, list[Trial], RuntimeConfig]]:
        """Yield each question, its trials and the winner so far; the last winner is the answer."""
        splits = _splits(self._cores)
        slices = ROUNDS * (len(candidates) + len(splits) + len(BUDGETS))
        slice_s = self._seconds / slices
        tried = [RuntimeConfig(backend, self._cores, 1, 0) for backend in candidates]
        questions: tuple[tuple[str, Callable[[RuntimeConfig], list[RuntimeConfig]]], ...] = (
            ("backend", lambda _: tried),
            ("threads", lambda won: [replace(won, threads=n, batch_threads=m) for n, m in splits]),
            ("batch", lambda won: [won, *(replace(won, batch_tokens=n) for n in BUDGETS)]),
        )
        winner = tried[0]
        for question, options in questions:
            trials = self._measure(_distinct(options(winner)), slice_s)
            winner = _winner(trials).running
            yield question, trials, winner

    def _measure(self, options: Sequence[RuntimeConfig], slice_s: float) -> list[Trial]:
        """Return a trial for each way of running, measured in turns."""
        sessions: dict[RuntimeConfig, Session] = {}
        runs = []
        for running in options:
            # What the queue cuts is no matter of the session.
            key = replace(running, batch_tokens=0)
            session = sessions.get(key) or self._open(self._files, key)
            sessions[key] = session
            budget = running.batch_tokens or session.facts.batch_tokens or BATCH_TOKENS
            runs.append((session, self._batches(budget)))
        for session, batches in runs:
            self._run(session, batches, 0)  # the first run of a shape is slower
        rounds = [[self._run(*run, slice_s) for run in runs] for _ in range(ROUNDS)]
        trials = []
        for number, running in enumerate(options):
            speeds, costs = zip(*(each[number] for each in rounds), strict=True)
            trials.append(Trial(running, median(speeds), 1000 * median(costs)))
        return trials

    def _run(
        self, session: Session, batches: Sequence[Sequence[TokenIds]], seconds: float
    ) -> tuple[float, float]:
        """Return texts a second and CPU seconds a text of about `seconds` of work.

        Both by tokens done, since what was reached in a slice may be long texts or short ones.
        """
        todo, done = cycle(batches), 0
        lock = threading.Lock()
        begun, begun_cpu = self._clocks.wall(), self._clocks.cpu()

        def work() -> None:
            nonlocal done
            while True:
                with lock:
                    batch = next(todo)
                session.run(*pad(batch, self._pad_id))
                with lock:
                    done += sum(map(len, batch))
                    if self._clocks.wall() - begun >= seconds:
                        return

        workers = [threading.Thread(target=work) for _ in range(session.facts.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        texts = done * len(self._windows) / sum(map(len, self._windows))
        wall, cpu = self._clocks.wall() - begun, self._clocks.cpu() - begun_cpu
        return texts / max(wall, 1e-9), cpu / texts

    def _batches(self, budget: int) -> list[list[TokenIds]]:
        """Return the sample in batches of like lengths, in an order that mixes lengths."""
        batches: list[list[TokenIds]] = []
        for window in sorted(self._windows, key=len, reverse=True):
            if not batches or len(batches[-1][0]) * (len(batches[-1]) + 1) > budget:
                batches.append([])
            batches[-1].append(window)
        np.random.Generator(np.random.PCG64(SEED)).shuffle(batches)
        return batches


def sample() -> list[str]:
    """Return paragraphs of Python's own help texts, which every installation has."""
    paragraphs = [part.strip() for text in topics.values() for part in text.split("\n\n")]
    long_enough = sorted({part for part in paragraphs if len(part) >= LEAST_CHARS})
    chosen = np.random.Generator(np.random.PCG64(SEED)).permutation(len(long_enough))[:TEXTS]
    return [long_enough[i] for i in chosen]


def to_toml(running: RuntimeConfig) -> str:
    """Return the settings of a way of running, as lines of a settings file."""
    return (
        f'embedding_backend = "{running.backend.name}"\n'
        f'embedding_precision = "{running.backend.precision}"\n'
        f"embedding_threads = {running.threads}\n"
        f"embedding_batch_threads = {running.batch_threads}\n"
        f"embedding_batch_tokens = {running.batch_tokens}\n"
    )


def _splits(cores: int) -> list[tuple[int, int]]:
    """Return (threads, threads a batch) worth a try: the default first, few and many a batch."""
    sharing = [2**n for n in range(1, 7) if 2**n <= cores]
    fewer = [cores // 2] if cores > 1 else []  # where two of the cores are one with two threads
    return [(cores, 1), *((cores, n) for n in sharing), *((n, 1) for n in fewer)]


def _winner(trials: Sequence[Trial]) -> Trial:
    best = trials[0]
    for trial in trials[1:]:
        if trial.texts_per_s > best.texts_per_s * LEAST_GAIN:
            best = trial
    return best


def _distinct(options: Sequence[RuntimeConfig]) -> list[RuntimeConfig]:
    return list(dict.fromkeys(options))
