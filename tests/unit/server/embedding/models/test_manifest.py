"""The manifest vouches for itself: any changed byte is noticed."""

import hashlib
import json
import random
from dataclasses import asdict

import pytest
from judged_server.embedding.models.store import Manifest, StoredFile, hash_file, is_inside

GRAPH = StoredFile("model.onnx", 10, "a" * 64)
TOKENIZER = StoredFile("tokenizer.json", 5, "b" * 64)
DATA = StoredFile("weights/data.bin", 7, "c" * 64)


def _manifest(**changes) -> Manifest:
    fields = {
        "name": "tiny",
        "dimensions": 16,
        "max_tokens": 12,
        "pooling": "mean",
        "normalize": True,
        "precision": "fp32",
        "source": "a test",
        "licence": "Apache-2.0",
        "files": (GRAPH, TOKENIZER),
    }
    return Manifest(**{**fields, **changes})


def _signed(**changes) -> bytes:
    """Bytes with a right checksum around wrong content."""
    content = json.loads(_manifest().to_bytes()) | changes
    del content["checksum"]
    content["checksum"] = hashlib.sha256(_written(content)).hexdigest()
    return _written(content)


def _written(content) -> bytes:
    return (json.dumps(content, indent=2, sort_keys=True) + "\n").encode()


def test_it_reads_back_what_it_wrote():
    manifest = _manifest()
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest


def test_a_prefix_is_kept_and_enters_the_card():
    manifest = _manifest(prefix="passage: \u00e9")
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    assert (manifest.card().prefix, _manifest().card().prefix) == ("passage: \u00e9", "")


def test_a_manifest_without_a_prefix_is_written_as_before_there_were_any():
    content = json.loads(_manifest().to_bytes())
    assert "prefix" not in content
    named = _manifest().to_bytes().replace(b'  "source"', b'  "prefix": "",\n  "source"')
    with pytest.raises(ValueError, match="checksum"):
        Manifest.from_bytes(named)


def test_any_changed_byte_is_noticed():
    raw = _manifest().to_bytes()
    rng = random.Random(5)
    for offset in range(len(raw)):
        changed = bytearray(raw)
        changed[offset] ^= 1 << rng.randrange(8)
        with pytest.raises(ValueError):  # noqa: PT011 - the message differs by field
            Manifest.from_bytes(bytes(changed))


def test_any_cut_is_noticed():
    raw = _manifest().to_bytes()
    for end in range(len(raw)):
        with pytest.raises(ValueError):  # noqa: PT011 - the message differs by field
            Manifest.from_bytes(raw[:end])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "../x"}, "name"),
        ({"pooling": "weightedmean"}, "pooling"),
        ({"prefix": "p" * 1001}, "prefix"),
        ({"prefix": 1}, "prefix"),
        ({"precision": "fp64"}, "precision"),
        ({"dimensions": 0}, "dimensions"),
        ({"max_tokens": True}, "max_tokens"),
        ({"files": [asdict(GRAPH)]}, "files"),
        ({"files": [asdict(GRAPH), asdict(GRAPH), asdict(TOKENIZER)]}, "files"),
        (
            {"files": [asdict(GRAPH), asdict(TOKENIZER), asdict(GRAPH) | {"path": "../x"}]},
            "leads out",
        ),
        ({"format_version": 2}, "format_version"),
        ({"more": 1}, "checksum"),
    ],
)
def test_a_careful_forgery_is_refused_too(changes, words):
    Manifest.from_bytes(_signed())
    with pytest.raises(ValueError, match=words):
        Manifest.from_bytes(_signed(**changes))


@pytest.mark.parametrize("raw", [b"[]", b"{}", b"null", b"[" * 100_000, b'{"format_version": 1}'])
def test_other_json_is_refused(raw):
    with pytest.raises(ValueError):  # noqa: PT011 - the message differs by content
        Manifest.from_bytes(raw)


def test_a_lone_graph_gives_the_model_its_hash():
    assert _manifest().model_sha256 == GRAPH.sha256
    assert _manifest().tokenizer_sha256 == TOKENIZER.sha256


def test_weights_beside_the_graph_enter_the_hash_whatever_their_order():
    with_data = _manifest(files=(GRAPH, TOKENIZER, DATA)).model_sha256
    assert with_data == _manifest(files=(DATA, TOKENIZER, GRAPH)).model_sha256
    other = StoredFile(DATA.path, DATA.size, "d" * 64)
    assert with_data != _manifest(files=(GRAPH, TOKENIZER, other)).model_sha256 != GRAPH.sha256


def test_a_card_says_what_enters_the_scoring_key():
    card = _manifest().card("SomeProvider")
    assert (card.name, card.dimensions, card.max_tokens) == ("tiny", 16, 12)
    assert (card.pooling, card.normalize, card.precision) == ("mean", True, "fp32")
    assert (card.model_sha256, card.execution_provider) == (GRAPH.sha256, "SomeProvider")


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("a", True),
        ("a/b.bin", True),
        ("..", False),
        ("a/../../b", False),
        ("a/..", False),
        ("/a", False),
        ("a//b", False),
        ("./a", False),
        ("a\\..\\b", False),
        ("a\0b", False),
        ("", False),
        (None, False),
    ],
)
def test_is_inside(path, inside):
    assert is_inside(path) is inside


def test_hashes_are_those_of_sha256sum(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_file(path) == (3, sha256)
    assert json.loads(_manifest().to_bytes())["checksum"]
