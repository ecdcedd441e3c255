"""Loading: checked files to an embedder, or the file that is to blame and what to run."""

import dataclasses

import pytest
from judged_server.embedding.loading import available_cores, load_embedder
from judged_server.errors import ModelDamaged

from tests.fakes import tiny_model


@pytest.fixture
def files(tmp_path):
    return tiny_model.stored_files(tmp_path)


async def test_an_embedder_carries_the_manifests_card(files):
    embedder = load_embedder(files, threads=1)
    try:
        assert embedder.card == files.manifest.card("CPUExecutionProvider")
        embedded = await embedder.embed(["a text"], "truncate")
        assert embedded.vectors.shape == (1, tiny_model.HIDDEN)
    finally:
        embedder.close()


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("raw", [b"", b"{}", b"\x08\x08junk"])
def test_a_file_changed_after_its_check_is_damage(files, name, raw):
    (files.folder / name).write_bytes(raw)
    with pytest.raises(ModelDamaged) as error:
        load_embedder(files)
    assert error.value.file.endswith(name)
    assert "judged-server models add" in error.value.message


def test_another_dimension_than_the_manifests_is_damage(files):
    other = dataclasses.replace(files.manifest, dimensions=384)
    with pytest.raises(ModelDamaged, match="have 16 dimensions, expected 384"):
        load_embedder(dataclasses.replace(files, manifest=other))


def test_another_opset_than_the_runtime_knows_is_damage(files, tmp_path):
    import onnx

    model = onnx.load_from_string(tiny_model.graph())
    model.opset_import[0].version = 9999
    files.graph.write_bytes(model.SerializeToString())
    with pytest.raises(ModelDamaged, match="can't load it"):
        load_embedder(files)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("max 100000\n", 8),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("9900000 100000\n", 8),
        ("junk", 8),
    ],
)
def test_a_cgroups_quota_bounds_the_cores(tmp_path, monkeypatch, content, expected):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text(content)
    assert available_cores(tmp_path / "cpu.max") == expected
    assert available_cores(tmp_path / "none") == 8
