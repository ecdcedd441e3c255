"""The registry: the default at the start, others on first use, failures not kept."""

import asyncio

import pytest
from judged_server.embedding.loading import load_embedder
from judged_server.embedding.manifest import GRAPH_FILE
from judged_server.embedding.registry import StoredEmbedders
from judged_server.embedding.store import ModelStore
from judged_server.errors import ModelDamaged, ModelNotInstalled

from tests.fakes import tiny_model


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
def embedders(store, loads):
    def load(files, threads):
        loads.append(files.manifest.name)
        return load_embedder(files, threads)

    made = StoredEmbedders(store, default="one", threads=1, load=load)
    yield made
    made.close()


def test_the_default_is_loaded_at_the_start(embedders, loads):
    assert [card.name for card in embedders.cards()] == ["one", "two"]
    assert loads == []
    embedders.load_default()
    embedders.load_default()
    assert loads == ["one"]
    assert embedders.get("") is embedders.get("one")


async def test_another_model_is_loaded_once_by_its_first_callers(embedders, loads):
    embedders.load_default()
    other = embedders.get("two")
    assert (other.card.pooling, other.loaded, loads) == ("cls", False, ["one"])
    await asyncio.gather(*(other.embed(["a"], "truncate") for _ in range(5)))
    assert loads == ["one", "two"]
    assert [card.name for card in embedders.cards()] == ["one", "two"]


@pytest.mark.parametrize("name", ["three", "../one", "a/b"])
def test_a_model_that_is_not_there_says_what_to_run(embedders, name):
    with pytest.raises(ModelNotInstalled, match="judged-server models add"):
        embedders.get(name)


def test_an_empty_store_says_what_to_run(tmp_path):
    with pytest.raises(ModelNotInstalled, match="judged-server models install"):
        StoredEmbedders(ModelStore(tmp_path / "none")).load_default()


async def test_a_damaged_model_is_tried_again_once_it_is_mended(embedders, store):
    graph = store.root / "two" / GRAPH_FILE
    raw = graph.read_bytes()
    graph.write_bytes(raw[:-1])
    other = embedders.get("two")
    with pytest.raises(ModelDamaged, match=GRAPH_FILE):
        await other.embed(["a"], "truncate")
    assert not other.loaded
    graph.write_bytes(raw)
    assert not (await other.embed(["a"], "truncate")).faults


def test_a_damaged_default_stops_the_start(embedders, store):
    (store.root / "one" / GRAPH_FILE).unlink()
    with pytest.raises(ModelDamaged, match="judged-server models"):
        embedders.load_default()


async def test_a_closed_registry_takes_no_work(embedders):
    embedders.load_default()
    other = embedders.get("two")
    embedders.close()
    for embedder in (embedders.get("one"), other):
        with pytest.raises(RuntimeError):
            await embedder.embed(["a"], "truncate")
