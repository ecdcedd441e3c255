"""Models from a hub: the files of one commit, whole, or nothing; a token stays at the hub."""

import hashlib
import ssl
import time

import onnx
import pytest
import trustme
from judged_server.embedding.models.adding import Hub, HubReference, WritableStore
from judged_server.embedding.models.folder import ModelOptions
from judged_server.embedding.models.store import ModelSourceError

from tests.fakes.models import tiny_model
from tests.fakes.models.hub import BRANCH, COMMIT, REPOSITORY, folder_files, running_hub

PINNED = HubReference(REPOSITORY, COMMIT)
CANARY = "hf_canary"


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    """huggingface_hub waits for seconds before it tries again."""
    monkeypatch.setattr(time, "sleep", lambda _: None)


@pytest.fixture
def folder(tmp_path):
    folder = tiny_model.write_folder(tmp_path / "source")
    (folder / "README.md").write_text("not needed")
    (folder / "model.safetensors").write_bytes(b"not needed")
    return folder


@pytest.fixture
def server(folder):
    with running_hub(folder_files(folder)) as running:
        yield running


@pytest.fixture
def models(tmp_path):
    return WritableStore(tmp_path / "models")


def _add(models, server, reference=PINNED, **options):
    return models.add_from_hub(reference, Hub(server.url), options=ModelOptions(**options))


def _refused(call, *words):
    with pytest.raises(ModelSourceError) as caught:
        call()
    assert all(word in caught.value.message for word in words), caught.value.message
    assert "signature" not in caught.value.message
    return caught.value.message


class TestAddresses:
    @pytest.mark.parametrize(
        ("url", "words"),
        [
            ("http://mirror.example", "this machine only"),
            ("ftp://mirror.example", "https"),
            ("mirror.example", "https"),
            ("https://", "https"),
            ("https://user:secret@mirror.example", "without user"),
            ("https://mirror.example/?a=b", "without user"),
            ("https://mirror.example:port", "https"),
            ("https://mïrror.example", "https"),
        ],
    )
    def test_an_unsafe_address_is_refused(self, url, words):
        assert "secret" not in _refused(lambda: Hub(url), words)


def test_a_model_is_stored_as_from_a_folder_with_the_commit_it_is_of(models, server, folder):
    manifest = _add(models, server, HubReference(REPOSITORY, BRANCH))
    assert (manifest.name, manifest.source) == ("tiny", f"hf:{REPOSITORY}@{COMMIT}")
    assert models.load("tiny").manifest == manifest
    by_hand = models.add("by-hand", folder)
    assert manifest.files == by_hand.files
    assert manifest.card().model_sha256 == by_hand.card().model_sha256


def test_exactly_the_needed_files_are_asked_for_the_small_ones_first(models, server):
    _add(models, server)
    assert server.asked() == [
        "config.json",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
        "tokenizer.json",
        "onnx/model.onnx",
    ]
    assert server.asked("cdn") == ["tokenizer.json", "onnx/model.onnx"]


def test_another_graph_is_fetched_in_place_of_the_usual_one(models, server):
    server.files["onnx/model_fp16.onnx"] = tiny_model.half_precision()
    manifest = _add(models, server, graph="onnx/model_fp16.onnx")
    assert manifest.precision == "fp16"
    assert "onnx/model.onnx" not in server.asked()


def test_weights_beside_the_graph_come_along(models, server, tmp_path):
    graph = tmp_path / "model.onnx"
    model = onnx.load_from_string(tiny_model.graph())
    onnx.save(model, graph, save_as_external_data=True, location="model.onnx_data")
    server.files["onnx/model.onnx"] = graph.read_bytes()
    with pytest.raises(ModelSourceError, match=r"onnx/model\.onnx_data is missing"):
        _add(models, server)
    server.files["onnx/model.onnx_data"] = (tmp_path / "model.onnx_data").read_bytes()
    manifest = _add(models, server)
    assert [file.path for file in manifest.files][2:] == ["model.onnx_data"]


def test_weights_that_lead_out_are_never_asked_for(models, server, tmp_path):
    model = onnx.load_from_string(tiny_model.graph())
    tensor = model.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../secret")
    server.files["onnx/model.onnx"] = model.SerializeToString()
    with pytest.raises(ModelSourceError, match="outside its own folder"):
        _add(models, server)
    assert not any("secret" in path for path in server.asked())


@pytest.mark.parametrize(
    ("path", "raw", "words"),
    [
        ("config.json", None, "has no config.json"),
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("onnx/model.onnx", None, "--graph"),
        ("modules.json", b'[{"type": "a.Pooling", "path": "../.."}]', "outside"),
        ("modules.json", b" " * (1 << 20) + b"[]", "modules.json is larger than"),
        ("onnx/model.onnx", b"no graph", "is not an ONNX graph"),
        ("tokenizer.json", b"{}", "not a tokenizer"),
    ],
)
def test_what_is_wrong_with_it_is_named_as_the_hub_has_it(models, server, path, raw, words):
    del server.files[path]
    if raw is not None:
        server.files[path] = raw
    with pytest.raises(ModelSourceError, match=words) as caught:
        _add(models, server)
    assert ".new-" not in caught.value.message
    assert list(models.root.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "fault", "words"),
    [
        ("onnx/model.onnx", "flip", "not the file that was published"),
        ("onnx/model.onnx", "cut 100", "can't be fetched"),
        ("tokenizer.json", "cut 100", "can't be fetched"),
        ("config.json", "cut 1", "can't be fetched"),
        ("config.json", "says 999999999999", "larger than the 1,048,576 bytes"),
        ("config.json", "loop", "can't be fetched"),
        ("config.json", "to ftp://elsewhere/x", "not https"),
        ("config.json", "to http://elsewhere.example/x", "not https"),
        ("config.json", "401", "HF_TOKEN"),
        ("config.json", "403", "HF_TOKEN"),
        ("config.json", "418", "HTTP 418"),
        ("config.json", "429", "try again later"),
        ("config.json", "503", "try again later"),
    ],
)
def test_each_fault_says_what_it_is(models, server, path, fault, words):
    server.faults[path] = fault
    _refused(lambda: _add(models, server), words)
    assert list(models.root.iterdir()) == []


def test_what_is_not_there_is_named(models, server):
    _refused(lambda: _add(models, server, HubReference("org/Other", COMMIT)), "not there")
    _refused(lambda: _add(models, server, HubReference(REPOSITORY, "gone")), "no such revision")
    slash = HubReference(REPOSITORY, "refs/pr/1")
    _refused(lambda: _add(models, server, slash), "no such revision")
    assert "/resolve/refs%2Fpr%2F1/" in server.requests[-1].path


@pytest.mark.parametrize(("revision", "commit"), [(BRANCH, "main"), (COMMIT, "f" * 40)])
def test_a_hub_that_answers_with_another_commit_is_refused(models, server, revision, commit):
    server.headers["X-Repo-Commit"] = commit
    _refused(lambda: _add(models, server, HubReference(REPOSITORY, revision)), commit)


def test_a_hash_in_an_etag_is_checked_too(models, server):
    server.large.clear()
    server.headers["ETag"] = f'"{"0" * 64}"'
    _refused(lambda: _add(models, server), "not the file that was published")
    raw = server.files["config.json"]
    server.headers["ETag"] = f'"{hashlib.sha256(raw).hexdigest()}"'
    _refused(lambda: _add(models, server), "modules.json has")


class TestTokens:
    @pytest.fixture
    def secure(self, folder, tmp_path, monkeypatch):
        authority = trustme.CA()
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        with running_hub(folder_files(folder), context) as running:
            yield running

    def test_a_private_model_is_fetched_and_the_cdn_never_sees_the_token(self, models, secure):
        secure.token = CANARY
        models.add_from_hub(PINNED, Hub(secure.url, "hf_canary\n"))
        seen = {(request.server, request.token) for request in secure.requests}
        assert seen == {("hub", "Bearer hf_canary"), ("cdn", None)}

    def test_no_error_shows_it(self, models, secure):
        secure.token = CANARY[::-1]
        hub = Hub(secure.url, "hf_canary")
        assert "canary" not in _refused(lambda: models.add_from_hub(PINNED, hub), "HF_TOKEN")
        assert "canary" not in _refused(lambda: Hub(secure.url, "hf canary\n1"), "HF_TOKEN")

    def test_it_is_not_sent_without_tls(self, models, server):
        models.add_from_hub(PINNED, Hub(server.url, CANARY))
        assert {request.token for request in server.requests} == {None}

    def test_a_certificate_of_nobody_we_trust_is_refused(self, models, secure, monkeypatch):
        monkeypatch.delenv("SSL_CERT_FILE")
        hub = Hub(secure.url, "hf_canary")
        _refused(lambda: models.add_from_hub(PINNED, hub), "CERTIFICATE_VERIFY_FAILED")
        assert secure.requests == []

    def test_from_https_nothing_leads_back_to_http(self, models, secure):
        secure.faults["config.json"] = "to http://127.0.0.1:1/config.json"
        hub = Hub(secure.url, "hf_canary")
        _refused(lambda: models.add_from_hub(PINNED, hub), "not https")
