"""The hub's transport, against a real server: what arrives is whole, and a token stays at home."""

import hashlib
import ssl
import time

import pytest
import trustme
from judged_server.embedding.models import hub as module
from judged_server.embedding.models.hub import Hub, HubReference
from judged_server.embedding.models.sources import ModelSourceError

from tests.fakes.models.hub import BRANCH, COMMIT, REPOSITORY, running_hub

GRAPH = b"graph" * 1000
FILES = {"config.json": b"{}", "onnx/model.onnx": GRAPH, "tokenizer.json": b"{}" * 50}
MODEL = HubReference(REPOSITORY, COMMIT)
LIMIT = 1 << 20
CANARY = "hf_canary"


@pytest.fixture
def server():
    with running_hub(dict(FILES)) as running:
        yield running


@pytest.fixture
def fetch(server, tmp_path):
    def get(path="onnx/model.onnx", reference=MODEL, limit=LIMIT, token=""):
        return Hub(server.url, token).fetch(reference, path, tmp_path / "file", limit)

    return get


def _refused(call, *words):
    with pytest.raises(ModelSourceError) as caught:
        call()
    assert all(word in caught.value.message for word in words), caught.value.message
    assert "signature" not in caught.value.message
    return caught.value.message


class TestReferences:
    @pytest.mark.parametrize(
        "text", ["hf:org/name@main", "org/name@main", "hf:o-r.g/Na_me-1.5@refs/pr/1"]
    )
    def test_a_model_and_a_revision(self, text):
        assert str(HubReference.parse(text)) == "hf:" + text.removeprefix("hf:")

    @pytest.mark.parametrize(
        "text",
        [
            *("hf:", "hf:org/name", "hf:name@main", "hf:org/name@", "hf:a/b/c@main"),
            *("hf:../b@main", "hf:org/name@../x", "hf:.a/b@main", "hf:a/b @main", "hf:a/b@ma in"),
            "hf:ö/b@main",
        ],
    )
    def test_anything_else_says_how_to_write_it(self, text):
        _refused(lambda: HubReference.parse(text), "hf:ORG/NAME@REVISION")

    def test_only_a_whole_hash_is_pinned(self):
        assert MODEL.is_pinned
        assert not HubReference(REPOSITORY, COMMIT[:12]).is_pinned
        assert not HubReference(REPOSITORY, COMMIT.upper()).is_pinned


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

    def test_a_mirror_may_have_a_path(self, server, tmp_path):
        hub = Hub(f"{server.url}/huggingface/")
        _refused(lambda: hub.fetch(MODEL, "config.json", tmp_path / "file", 9), "no such model")
        assert server.requests[0].path.startswith(f"/huggingface/{REPOSITORY}/resolve/")

    def test_a_server_that_is_not_there_says_what_else_to_do(self, tmp_path):
        hub = Hub("http://127.0.0.1:1")
        _refused(lambda: hub.commit(MODEL, "config.json"), "can't be reached", "--hub")


class TestCommits:
    def test_a_branch_becomes_the_commit_it_is_now(self, server):
        hub = Hub(server.url)
        assert hub.commit(HubReference(REPOSITORY, BRANCH), "config.json") == COMMIT
        assert hub.commit(MODEL, "config.json") == COMMIT

    def test_a_hub_that_does_not_say_which_commit(self, server):
        server.headers["X-Repo-Commit"] = "main"
        reference = HubReference(REPOSITORY, BRANCH)
        _refused(lambda: Hub(server.url).commit(reference, "config.json"), "40 digits")

    def test_a_hub_that_answers_with_another_commit(self, server):
        server.headers["X-Repo-Commit"] = "f" * 40
        _refused(lambda: Hub(server.url).commit(MODEL, "config.json"), "f" * 40)

    def test_a_repository_without_the_file_is_no_model(self, server):
        _refused(lambda: Hub(server.url).commit(MODEL, "x.json"), "has no x.json")

    def test_a_slash_in_a_branch_is_part_of_its_name(self, server):
        _refused(
            lambda: Hub(server.url).commit(HubReference(REPOSITORY, "refs/pr/1"), "config.json"),
            "no such revision",
        )
        assert "/resolve/refs%2Fpr%2F1/" in server.requests[0].path


class TestFiles:
    @pytest.mark.parametrize("path", FILES)
    def test_a_file_arrives_by_way_of_the_cdn_or_not(self, fetch, tmp_path, path):
        assert fetch(path) == len(FILES[path])
        assert (tmp_path / "file").read_bytes() == FILES[path]

    def test_a_file_in_parts_arrives(self, fetch, server, tmp_path):
        server.faults["config.json"] = "chunked"
        assert fetch("config.json") == 2
        assert (tmp_path / "file").read_bytes() == b"{}"

    def test_a_file_that_is_not_there_is_none(self, fetch, tmp_path):
        assert fetch("none.json") is None
        assert not (tmp_path / "file").exists()

    @pytest.mark.parametrize("path", ["config.json", "onnx/model.onnx"])
    def test_every_cut_is_noticed(self, fetch, server, path):
        for size in {0, 1, len(FILES[path]) // 2, len(FILES[path]) - 1}:
            server.faults[path] = f"cut {size}"
            _refused(lambda: fetch(path), path, "broke off")

    def test_a_cut_between_parts_is_noticed(self, fetch, server):
        server.faults |= {"config.json": "chunked", "cut chunks": "yes"}
        _refused(lambda: fetch("config.json"), "broke off")

    @pytest.mark.parametrize(
        ("path", "fault", "words"),
        [
            ("onnx/model.onnx", "flip", ("SHA-256", "not the file that was published")),
            ("onnx/model.onnx", "two sizes", ("two sizes",)),
            ("config.json", "says 999999999999", ("larger than the 1,048,576 bytes",)),
            ("config.json", "no length", ("how long",)),
            ("config.json", "gzip", ("compressed",)),
            ("config.json", "loop", ("from one address to the next",)),
            ("config.json", "to ftp://elsewhere/x", ("not https",)),
            ("config.json", "to http://elsewhere.example/x", ("not https",)),
            ("config.json", "to http://[", ("not https",)),
            ("config.json", "to http://127.0.0.1:9\t9/x", ("not https",)),
            ("config.json", "to ", ("not https",)),
            ("config.json", "to http://127.0.0.1:1/x", ("127.0.0.1 can't be reached",)),
            ("config.json", "401", ("HF_TOKEN", "gated")),
            ("config.json", "403", ("HF_TOKEN",)),
            ("config.json", "418", ("HTTP 418",)),
            ("config.json", "429", ("try again later",)),
            ("config.json", "503", ("try again later",)),
        ],
    )
    def test_each_fault_says_what_it_is(self, fetch, server, path, fault, words):
        server.faults[path] = fault
        _refused(lambda: fetch(path), *words)

    def test_a_file_larger_than_it_may_be_is_not_begun(self, fetch, tmp_path):
        _refused(lambda: fetch(limit=len(GRAPH) - 1), "larger than the 4,999 bytes")
        assert not (tmp_path / "file").exists()

    def test_a_file_in_parts_stops_at_the_limit(self, fetch, server, monkeypatch):
        monkeypatch.setattr(module, "_CHUNK", 16)
        server.files["config.json"] = b" " * 10_000
        server.faults["config.json"] = "chunked"
        _refused(lambda: fetch("config.json", limit=100), "larger than the 100 bytes")

    def test_a_download_that_trickles_is_given_up(self, fetch, monkeypatch):
        monkeypatch.setattr(module, "_CHUNK", 16)
        seconds = iter(range(0, 10**6, 100))
        monkeypatch.setattr(time, "monotonic", lambda: next(seconds))
        _refused(fetch, "broke off (TimeoutError)")

    def test_a_model_that_is_not_there(self, fetch):
        _refused(lambda: fetch(reference=HubReference("org/Other", COMMIT)), "no such model")
        _refused(lambda: fetch(reference=HubReference(REPOSITORY, "gone")), "no such revision")

    def test_a_model_that_has_moved_is_found(self, fetch, server):
        server.moved_to = f"/{REPOSITORY}"
        assert fetch(reference=HubReference("org/Former", COMMIT)) == len(GRAPH)

    def test_a_folder_that_cannot_be_written_says_so(self, server, tmp_path):
        (tmp_path / "file").write_bytes(b"")
        target = tmp_path / "file" / "below"
        _refused(lambda: Hub(server.url).fetch(MODEL, "config.json", target, LIMIT), "can't be wr")


class TestTokens:
    @pytest.fixture
    def secure(self, tmp_path, monkeypatch):
        authority = trustme.CA()
        authority.cert_pem.write_to_path(tmp_path / "ca.pem")
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        with running_hub(dict(FILES), context) as running:
            yield running

    def test_a_private_model_is_fetched_and_the_cdn_never_sees_the_token(self, secure, tmp_path):
        secure.token = CANARY
        target = tmp_path / "file"
        size = Hub(secure.url, "hf_canary\n").fetch(MODEL, "onnx/model.onnx", target, LIMIT)
        assert size == len(GRAPH)
        seen = {request.server: request.token for request in secure.requests}
        assert seen == {"hub": "Bearer hf_canary", "cdn": None}

    def test_no_error_shows_it(self, secure, tmp_path):
        secure.token = CANARY[::-1]
        hub = Hub(secure.url, "hf_canary")
        message = _refused(lambda: hub.commit(MODEL, "config.json"), "HF_TOKEN")
        assert "canary" not in message
        assert "canary" not in _refused(lambda: Hub(secure.url, "hf canary\n1"), "HF_TOKEN")

    def test_it_is_not_sent_without_tls(self, fetch, server):
        fetch(token=CANARY)
        assert {request.token for request in server.requests} == {None}

    def test_a_certificate_of_nobody_we_trust_is_refused(self, secure, monkeypatch):
        monkeypatch.delenv("SSL_CERT_FILE")
        hub = Hub(secure.url, "hf_canary")
        _refused(lambda: hub.commit(MODEL, "config.json"), "CERTIFICATE_VERIFY_FAILED")
        assert secure.requests == []

    def test_from_https_nothing_leads_back_to_http(self, secure, tmp_path):
        secure.faults["config.json"] = "to http://127.0.0.1:1/config.json"
        hub = Hub(secure.url, "hf_canary")
        _refused(lambda: hub.fetch(MODEL, "config.json", tmp_path / "file", LIMIT), "not https")


def test_a_hash_in_an_etag_is_checked_too(fetch, server):
    server.headers["ETag"] = f'"{hashlib.sha256(b"{}").hexdigest()}"'
    assert fetch("config.json") == 2
    server.headers["ETag"] = f'"{"0" * 64}"'
    _refused(lambda: fetch("config.json"), "SHA-256")
    server.headers["ETag"] = f'"{"0" * 40}"'
    assert fetch("config.json") == 2
