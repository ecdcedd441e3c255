"""The choice of a backend: what is open is filled in, what is asked for is had or refused."""

import itertools

import pytest
from judged_server.embedding.models.store import ModelStore
from judged_server.embedding.runtime import backend
from judged_server.embedding.runtime.backend import Backend, choose
from judged_server.settings import SettingsError

from tests.fakes.models import tiny_model


@pytest.mark.parametrize(
    ("asked", "parts", "expected"),
    [
        (("auto", "auto"), (), Backend("onnxruntime", "fp32")),
        (("auto", "auto"), ("bf16",), Backend("onnxruntime", "fp32")),
        (("auto", "auto"), ("openvino",), Backend("onnxruntime", "fp32")),
        (("auto", "auto"), ("bf16", "openvino"), Backend("openvino", "bf16")),
        (("auto", "auto"), ("cuda",), Backend("onnxruntime", "fp32")),
        (("auto", "fp32"), ("bf16", "openvino"), Backend("onnxruntime", "fp32")),
        (("auto", "bf16"), ("bf16", "openvino"), Backend("openvino", "bf16")),
        (("onnxruntime", "auto"), ("bf16", "openvino"), Backend("onnxruntime", "fp32")),
        (("openvino", "auto"), ("openvino",), Backend("openvino", "fp32")),
        (("openvino", "auto"), ("bf16", "openvino"), Backend("openvino", "bf16")),
        (("openvino", "fp32"), ("bf16", "openvino"), Backend("openvino", "fp32")),
        (("cuda", "auto"), ("cuda",), Backend("cuda", "fp32")),
    ],
)
def test_a_choice(asked: tuple[str, str], parts, expected):
    assert choose(*asked, parts.__contains__) == expected


@pytest.mark.parametrize(
    ("asked", "parts", "words"),
    [
        (("openvino", "auto"), ("bf16",), r"judged\[openvino\]"),
        (("auto", "bf16"), ("bf16",), r"embedding_precision bf16.*judged\[openvino\]"),
        (("auto", "bf16"), ("openvino",), "neither amx_bf16"),
        (("openvino", "bf16"), ("openvino",), "neither amx_bf16"),
        (("onnxruntime", "bf16"), ("bf16", "openvino"), "embedding_backend to openvino"),
        (("cuda", "auto"), ("bf16", "openvino"), "onnxruntime-gpu"),
        (("cuda", "bf16"), ("cuda",), "bf16: cuda does not compute in it"),
    ],
)
def test_what_can_not_be_had_is_refused_with_what_to_do(asked: tuple[str, str], parts, words):
    with pytest.raises(SettingsError, match=words):
        choose(*asked, parts.__contains__)


def test_every_backend_and_precision_has_a_card_of_its_own(tmp_path):
    manifest = tiny_model.add_to(ModelStore(tmp_path), tmp_path)
    backends = itertools.product(
        backend.PROVIDERS,
        (backend.FP32, backend.BF16),
    )
    cards = [Backend(*each).card(manifest) for each in backends]
    assert len(set(cards)) == len(cards)


@pytest.mark.parametrize("stored", ["fp16", "int8"])
def test_a_model_of_another_precision_runs_as_it_is_stored(stored):
    assert Backend("openvino", "bf16").precision_of(stored) == stored
    assert Backend("openvino", "bf16").precision_of("fp32") == "bf16"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor: 0\nflags\t\t: fpu amx_bf16 avx\n", True),
        ("flags\t\t: fpu avx512_bf16 avx\n", True),
        ("flags\t\t: fpu avx512_bf16x amx_bf16x\n", False),
        ("model name\t: amx_bf16\n", False),
        ("", False),
    ],
)
def test_bf16_is_a_flag_of_the_cpu(tmp_path, text, expected):
    (tmp_path / "cpuinfo").write_text(text)
    assert backend.has_bf16(tmp_path / "cpuinfo") is expected
    assert not backend.has_bf16(tmp_path / "none")
