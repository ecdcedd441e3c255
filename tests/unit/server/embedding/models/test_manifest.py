"""The manifest vouches for itself: any changed byte is noticed."""

import hashlib
import json
import random
from dataclasses import asdict

import pytest
from judged_server.embedding.models.store import Manifest, StoredFile, is_inside
from judged_server.embedding.runtime.backend import Backend

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


def test_a_prefix_is_kept_and_enters_the_card():
    manifest = _manifest(prefix="passage: \u00e9")
    assert Manifest.from_bytes(manifest.to_bytes()) == manifest
    cards = map(Backend().card, (manifest, _manifest()))
    assert tuple(card.prefix for card in cards) == ("passage: \u00e9", "")


def test_any_changed_byte_is_noticed():
    raw = _manifest().to_bytes()
    rng = random.Random(5)
    for offset in range(len(raw)):
        changed = bytearray(raw)
        changed[offset] ^= 1 << rng.randrange(8)
        with pytest.raises(ValueError):  # noqa: PT011 - the message differs by field
            Manifest.from_bytes(bytes(changed))


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


def test_weights_beside_the_graph_enter_the_hash_whatever_their_order():
    with_data = _manifest(files=(GRAPH, TOKENIZER, DATA)).model_sha256
    assert with_data == _manifest(files=(DATA, TOKENIZER, GRAPH)).model_sha256
    other = StoredFile(DATA.path, DATA.size, "d" * 64)
    assert with_data != _manifest(files=(GRAPH, TOKENIZER, other)).model_sha256 != GRAPH.sha256


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
