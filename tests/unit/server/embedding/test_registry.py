"""The registry: the default at the start, others on first use, failures not kept."""

import asyncio
import shutil

import numpy as np
import pytest
from judged_server.embedding import registry
from judged_server.embedding.models.loading import load_embedder
from judged_server.embedding.models.store import ModelStore
from judged_server.embedding.registry import StoredEmbedders
from judged_server.embedding.runtime.backend import PROVIDERS, Backend, RuntimeConfig
from judged_server.errors import ModelDamaged
from judged_server.store.kept_rows import VECTORS, KeptRows

from tests.fakes.models import tiny_model


@pytest.fixture
def store(tmp_path):
    filled = ModelStore(tmp_path / "models")
    tiny_model.add_to(filled, tmp_path, "one")
    tiny_model.add_to(filled, tmp_path, "two", pooling="cls")
    return filled


@pytest.fixture
def loads():
    return []


@pytest.fixture
def told():
    """What each loaded model calls when it is in trouble."""
    return {}


@pytest.fixture
def health():
    return []


@pytest.fixture
def embedders(store, loads, told, health, monkeypatch):
    def load(files, running, cache, report_unhealthy):
        loads.append(files.manifest.name)
        told[files.manifest.name] = report_unhealthy
        return load_embedder(files, running, cache, report_unhealthy)

    monkeypatch.setattr(registry, "load_embedder", load)
    made = StoredEmbedders(
        store, default="one", running=RuntimeConfig(threads=1), health=health.append
    )
    yield made
    made.close()


def test_the_default_is_loaded_at_the_start(embedders, loads):
    assert [card.name for card in embedders.cards()] == ["one", "two"]
    assert loads == []
    embedders.get("").load()
    embedders.get("").load()
    assert loads == ["one"]
    assert embedders.get("") is embedders.get("one")


async def test_another_model_is_loaded_once_by_its_first_callers(embedders, loads):
    embedders.get("").load()
    other = embedders.get("two")
    assert (other.card.pooling, other.loaded, loads) == ("cls", None, ["one"])
    await asyncio.gather(*(other.embed(["a"], "truncate") for _ in range(5)))
    assert loads == ["one", "two"]
    assert [card.name for card in embedders.cards()] == ["one", "two"]


async def test_a_closed_registry_takes_no_work(embedders):
    embedders.get("").load()
    other = embedders.get("two")
    embedders.close()
    for embedder in (embedders.get("one"), other):
        with pytest.raises(RuntimeError):
            await embedder.embed(["a"], "truncate")


def test_one_model_in_trouble_is_trouble_until_all_run_again(embedders, told, health):
    embedders.get("").load()
    embedders.get("two").load()
    told["one"](True)
    told["two"](True)
    told["one"](False)
    assert health == [False]
    told["two"](False)
    assert health == [False, True]


@pytest.mark.parametrize("backend", [Backend(), Backend("openvino"), Backend("openvino", "bf16")])
def test_a_card_says_what_will_run_before_anything_is_loaded(store, backend):
    made = StoredEmbedders(store, default="one", running=RuntimeConfig(backend))
    expected = (backend.precision, PROVIDERS[backend.name])
    for card in (*made.cards(), made.get("one").card, made.get("two").card):
        assert (card.precision, card.execution_provider) == expected


def test_a_model_that_was_replaced_since_its_card_was_shown_is_not_used(store, tmp_path):
    made = StoredEmbedders(store, default="one", running=RuntimeConfig(threads=1))
    rendered = made.get("two")
    shutil.rmtree(store.root / "two")
    tiny_model.add_to(store, tmp_path, "two", pooling="mean")
    with pytest.raises(ModelDamaged, match="restart"):
        rendered.load()
    assert not rendered.loaded


async def test_models_keep_their_vectors_apart(store, tmp_path):
    file = KeptRows(tmp_path / "vectors", VECTORS, 16 << 20)
    made = StoredEmbedders(store, default="one", running=RuntimeConfig(threads=1), file=file)
    first = [(await made.get(name).embed(["a"], "truncate")).vectors for name in ("one", "two")]
    assert np.abs(first[0] - first[1]).max() > 1e-3
    made.close()
    again = StoredEmbedders(
        store,
        running=RuntimeConfig(threads=1),
        file=KeptRows(tmp_path / "vectors", VECTORS, 16 << 20),
    )
    for name, vectors in zip(("one", "two"), first, strict=True):
        stored = (await again.get(name).embed(["a"], "truncate")).vectors
        np.testing.assert_array_equal(stored, vectors)
    again.close()
