"""Tuning: the fastest by a clock that the fake sessions move, and settings that can be loaded."""

import threading
import tomllib
from dataclasses import dataclass

import numpy as np
import pytest
from judged_server.embedding.runtime import tuning
from judged_server.embedding.runtime.backend import SessionFacts
from judged_server.embedding.runtime.backend_selection import Backend, Machine, RuntimeConfig
from judged_server.embedding.runtime.tuning import Clocks, Tuner, backends, sample, to_toml
from judged_server.settings import SettingsError, load

from tests.fakes import tiny_model

SLOW, FAST = Backend("onnxruntime", "fp32"), Backend("openvino", "bf16")


@dataclass
class FakeTime:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


class Workshop:
    """Opens sessions whose runs take the time that `cost` says, all on one clock."""

    def __init__(self, cost):
        self.time = FakeTime()
        self.opened = []
        self._cost = cost
        self._lock = threading.Lock()

    def open(self, files, running):
        self.opened.append(running)
        workshop = self

        class Session:
            facts = SessionFacts("fp32", "Fake", "fake 1", running.threads // running.batch_threads)

            def run(self, token_ids, mask):
                with workshop._lock:
                    workshop.time.seconds += workshop._cost(running, token_ids)
                return np.ones((len(token_ids), 2), np.float32)

        return Session()

    def best(self, files, candidates, cores=2, seconds=50.0):
        clocks = Clocks(self.time, self.time)
        return list(Tuner(files, cores, seconds, self.open, clocks).best(candidates))


@pytest.fixture
def files(tmp_path):
    return tiny_model.stored_files(tmp_path)


def _cost(running, token_ids):
    """Ten times dearer on ONNX Runtime, cheaper with shared batches, best at about 512 tokens."""
    each = (10 if running.backend == SLOW else 1) / running.batch_threads
    return each * (token_ids.size * 1e-4 + 0.03 + (token_ids.size / 512) ** 2 * 0.02)


def test_it_finds_the_fastest_of_each_question(files):
    answers = Workshop(_cost).best(files, [SLOW, FAST])
    assert [question for question, _, _ in answers] == ["backend", "threads", "batch"]
    assert answers[0][2].backend == FAST
    assert (answers[1][2].threads, answers[1][2].batch_threads) == (2, 2)
    assert answers[2][2] == RuntimeConfig(FAST, 2, 2, 512)


def test_equal_ways_are_no_reason_to_leave_the_default(files):
    answers = Workshop(lambda _, ids: ids.size * 1e-3).best(files, [SLOW, FAST], cores=4)
    assert answers[-1][2] == RuntimeConfig(SLOW, 4, 1, 0)


def test_it_keeps_to_its_time(files):
    workshop = Workshop(lambda _, ids: ids.size * 1e-4)
    workshop.best(files, [SLOW, FAST], seconds=60)
    assert 40 < workshop.time.seconds < 90


def test_a_session_is_opened_once_for_all_sizes_of_batches(files):
    workshop = Workshop(_cost)
    workshop.best(files, [SLOW])
    assert all(running.batch_tokens == 0 for running in workshop.opened)
    assert len(workshop.opened) == 1 + 3 + 1  # one backend, three splits of two cores, the winner


def test_speed_is_texts_of_the_sample_a_second(files):
    workshop = Workshop(lambda _, ids: 0.001 * ids.size)
    ((_, (trial,), _), *_) = workshop.best(files, [SLOW], cores=1)
    # Every text of the sample fills the tiny model's window, so that nothing is padding.
    assert trial.texts_per_s == pytest.approx(1000 / tiny_model.WINDOW, rel=0.05)
    assert trial.cpu_ms_per_text == pytest.approx(tiny_model.WINDOW, rel=0.05)


def test_the_sample_is_the_same_each_time_and_has_texts_of_all_lengths():
    texts = sample()
    assert texts == sample()
    assert len(texts) == tuning.TEXTS
    lengths = [len(text) for text in texts]
    assert min(lengths) < 80
    assert max(lengths) > 600


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (("auto", "auto"), (SLOW, Backend("openvino", "fp32"), FAST)),
        (("auto", "fp32"), (SLOW, Backend("openvino", "fp32"))),
        (("auto", "bf16"), (FAST,)),
        (("onnxruntime", "auto"), (SLOW,)),
    ],
)
def test_the_candidates_are_what_settings_and_machine_leave_open(asked: tuple[str, str], expected):
    machine = Machine(lambda: True, lambda: True, lambda: False, lambda: False)
    assert backends(*asked, machine) == expected


def test_a_gpu_is_tried_at_both_of_its_precisions_and_tensorrt_when_it_is_named():
    machine = Machine(lambda: False, lambda: False, lambda: True, lambda: True)
    cuda = (Backend("cuda", "fp32"), Backend("cuda", "fp16"))
    assert backends("auto", "auto", machine) == (SLOW, *cuda)
    assert backends("tensorrt", "fp16", machine) == (Backend("tensorrt", "fp16"),)


def test_nothing_left_to_try_says_why():
    machine = Machine(*[lambda: False] * 4)
    with pytest.raises(SettingsError, match="embedding_precision bf16"):
        backends("auto", "bf16", machine)


def test_the_settings_can_be_loaded(tmp_path):
    running = RuntimeConfig(FAST, 3, 1, 512)
    path = tmp_path / "judged.toml"
    path.write_text(to_toml(running))
    settings = load({"embedding_backend": "openvino"}, path)
    found = {name: getattr(settings, name) for name in tomllib.loads(path.read_text())}
    assert found == {
        "embedding_backend": "openvino",
        "embedding_precision": "bf16",
        "embedding_threads": 3,
        "embedding_batch_threads": 1,
        "embedding_batch_tokens": 512,
    }
