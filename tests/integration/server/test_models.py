"""Several models in one real server: added, loaded on first use, damaged, and failing."""

from __future__ import annotations

import shutil
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from judged import Client, FailedPrecondition, Judge, QueryGroup
from judged_server.embedding.models.store import GRAPH_FILE, ModelStore

from tests.fakes.models import tiny_model
from tests.fakes.models.hub import BRANCH, COMMIT, REPOSITORY, folder_files, running_hub
from tests.integration.cli_process import run_server_command
from tests.integration.server_process import running_server, until

GROUP = QueryGroup("q", ["a cat sleeps"], ["the cat is asleep", "interest rates"])
STATUS = health_pb2.HealthCheckResponse


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    filled = ModelStore(tmp_path / "models")
    tiny_model.add_to(filled, tmp_path, "one")
    return filled


def flags(store: ModelStore, default: str = "one") -> tuple[str, ...]:
    return "--models-dir", str(store.root), "--model", default


def semantic(model: str) -> Judge:
    return Judge("semantic", parameters={"model": model})


class TestSeveral:
    def test_each_answers_with_its_own_scores_and_fingerprint(self, store, tmp_path):
        tiny_model.add_to(store, tmp_path, "two", pooling="cls")
        prompts = {"prompts": {"passage": "p: "}}
        tiny_model.add_to(store, tmp_path, "three", prompts=prompts)
        with running_server(*flags(store)) as ready, Client(ready.address) as client:
            listed = client.server_info().models
            assert [(model.name, model.is_default) for model in listed] == [
                ("one", True),
                ("three", False),
                ("two", False),
            ]
            verdicts = {name: client.judge([GROUP], semantic(name)) for name in ("one", "two")}
            verdicts["three"] = client.judge([GROUP], semantic("three"))
            verdicts["default"] = client.judge([GROUP], "semantic")
        fingerprints = {name: some.judge.fingerprint for name, some in verdicts.items()}
        assert fingerprints["default"] == fingerprints["one"]
        assert len(set(fingerprints.values())) == 3
        scores = {name: tuple(some.score) for name, some in verdicts.items()}
        assert scores["default"] == scores["one"]
        assert len(set(scores.values())) == 3

    def test_a_damaged_model_is_an_error_of_its_callers_until_it_is_mended(self, store, tmp_path):
        tiny_model.add_to(store, tmp_path, "two")
        graph = store.root / "two" / GRAPH_FILE
        raw = graph.read_bytes()
        with running_server(*flags(store)) as ready, Client(ready.address) as client:
            graph.write_bytes(raw[:-1])
            for _ in range(2):
                with pytest.raises(
                    FailedPrecondition, match="judged-server models add two"
                ) as caught:
                    client.judge([GROUP], semantic("two"))
                assert caught.value.reason == "MODEL_DAMAGED"
                assert client.judge([GROUP], semantic("one")).coverage == 1
            assert health(ready.address) == STATUS.SERVING
            graph.write_bytes(raw)
            assert client.judge([GROUP], semantic("two")).coverage == 1

    @pytest.mark.parametrize("backend", ["onnxruntime", "openvino"])
    def test_a_loaded_model_outlives_its_files(self, store, backend):
        """Cut in place, gone, and put back as another model: what is loaded stays as it is."""
        folder = store.root / "one"
        options = (*flags(store), "--vector-cache", "off", "--embedding-backend", backend)
        with running_server(*options) as ready, Client(ready.address) as client:
            before = client.judge([GROUP], "semantic")
            for path in folder.iterdir():
                path.write_bytes(b"")
            cut = client.judge([GROUP], "semantic")
            shutil.rmtree(folder)
            gone = client.judge([GROUP], "semantic")
            tiny_model.add_to(store, store.root.parent, "one", pooling="cls")
            replaced = client.judge([GROUP], "semantic")
            assert health(ready.address) == STATUS.SERVING
        for after in (cut, gone, replaced):
            assert after.score == before.score
            assert after.judge == before.judge
        with running_server(*options) as ready, Client(ready.address) as client:
            assert client.judge([GROUP], "semantic").judge != before.judge


class TestStart:
    @pytest.mark.parametrize(
        ("name", "damage"),
        [(GRAPH_FILE, "missing"), ("tokenizer.json", "cut"), ("manifest.json", "flipped")],
    )
    def test_a_damaged_default_stops_the_start_with_the_files_name(self, store, name, damage):
        path = store.root / "one" / name
        raw = path.read_bytes()
        path.unlink()
        if damage != "missing":
            changed = raw[:-1] if damage == "cut" else raw[:-1] + bytes([raw[-1] ^ 1])
            path.write_bytes(changed)
        done = run_server_command("--listen", "127.0.0.1:0", *flags(store))
        assert done.returncode == 2
        assert str(path) in done.stderr
        assert "judged-server models add one" in done.stderr
        assert "Traceback" not in done.stderr


def health(address: str) -> int:
    with grpc.insecure_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return stub.Check(health_pb2.HealthCheckRequest(), timeout=10).status


def test_health_turns_when_a_model_fails_again_and_again(store, tmp_path):
    """The model passes its first run, of two texts, and fails whatever comes alone."""
    tiny_model.add_to(store, tmp_path, "flaky", onnx=tiny_model.failing_alone())
    with running_server(*flags(store, "flaky")) as ready, Client(ready.address) as client:
        assert health(ready.address) == STATUS.SERVING
        for text in "abc":
            (verdict,) = client.judge([QueryGroup("q", [text], [text])], "semantic")
            assert verdict.error is not None, verdict
            assert (verdict.status.name, verdict.error.reason) == ("ERROR", "EMBEDDING_FAILED")
        until(lambda: health(ready.address) == STATUS.NOT_SERVING)
        # It goes on with what still runs.
        assert client.judge([GROUP], semantic("one")).coverage == 1
        assert client.judge([GROUP])[0].status.name == "OK"
        assert "does not run any more" in ready.log_text()


class TestOddTexts:
    def test_a_vector_that_is_not_finite_is_the_fault_of_its_contexts(self, store, tmp_path):
        tiny_model.add_to(store, tmp_path, "holed", onnx=tiny_model.not_finite_on("q"))
        group = QueryGroup("q", ["a", "q"], ["b", "c q", "d"])
        with running_server(*flags(store, "holed")) as ready, Client(ready.address) as client:
            verdicts = client.judge([group], "semantic")
            alone = client.judge([QueryGroup("q", ["a"], ["b", "d"])], "semantic")
        reasons = [verdict.error.reason if verdict.error else "" for verdict in verdicts]
        bad = "EMBEDDING_FAILED"
        assert reasons == ["", bad, bad, bad, "", bad]
        assert [verdicts.score[0], verdicts.score[4]] == pytest.approx(list(alone.score), abs=1e-6)
        assert not any(verdicts.relevant[i] for i, reason in enumerate(reasons) if reason)


class TestAdding:
    @pytest.fixture
    def hub(self, tmp_path):
        prompts = {"prompts": {"query": "q: ", "document": "d: "}}
        folder = tiny_model.write_folder(tmp_path / "source", prompts=prompts)
        with running_hub(folder_files(folder)) as running:
            yield running

    def test_a_model_of_a_hub_is_added_listed_verified_and_judges(self, hub, store):
        models = ("--models-dir", str(store.root), "models")
        reference = f"hf:{REPOSITORY}@{BRANCH}"
        added = run_server_command(*models, "add", reference, HF_ENDPOINT=hub.url)
        assert (added.returncode, added.stderr) == (0, "")
        assert f"fetching hf:{REPOSITORY}@{COMMIT}" in added.stdout
        assert "16 dimensions, 12 tokens, mean pooling, 'd: ' before each text" in added.stdout
        listed = run_server_command(*models, "list").stdout
        assert "tiny  16 dimensions" in listed
        assert listed.count("prefix 'd: '") == 1
        assert "every file" in run_server_command(*models, "verify", "tiny").stdout
        with running_server(*flags(store)) as ready, Client(ready.address) as client:
            assert client.judge([GROUP], semantic("tiny")).coverage == 1

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("hf:org/Other@main",), "check its name and revision"),
            (("name", "/nonexistent"), "/nonexistent has no onnx/model.onnx"),
            (("hf:org/Tiny@main", "--graph", "../x.onnx"), "inside the model's folder"),
        ],
    )
    def test_what_is_wrong_is_said_in_one_line(self, hub, tmp_path, arguments, words):
        flag = ("--models-dir", str(tmp_path / "new"), "models", "add")
        done = run_server_command(*flag, *arguments, HF_ENDPOINT=hub.url)
        assert done.returncode == 2
        assert words in done.stderr
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("judged-server: ")
