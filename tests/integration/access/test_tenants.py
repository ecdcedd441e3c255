"""Tenants that share a real server: what each may, what none sees of another, what it says."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from judged import AnswerItem, AsyncClient, Client, Judge, QueryGroup, Rubric, Source
from judged._transport.call import to_error
from judged.credentials import Token
from judged.errors import JudgedError
from judged.v1 import groups_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked, Said, ScriptedProvider
from tests.integration.cli_process import run_in
from tests.integration.llm_config import llm_config
from tests.integration.server_process import ServerProcess, running_server, until
from tests.integration.tenant_files import new_token, tenants

TENANTS = """
[tenants.all]
[tenants.other]
[tenants.one]
cache = "shared:research"
[tenants.two]
cache = "shared:research"
[tenants.little]
judges = ["exact", "llm", "panel"]
rubrics = ["answer_match"]
models = ["m"]
[tenants.answers]
judges = ["exact", "answers"]
rubrics = ["answer_match"]
models = ["m"]
[tenants.words]
judges = ["token_overlap"]
"""
NAMES = re.findall(r"\[tenants\.(\w+)\]", TENANTS)


class Gate:
    """Keeps back answers to texts with "held" in them until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()

    async def script(self, asked: Asked) -> Said:
        while "held" in asked.user and not self.open.is_set():  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.01)
        return {"reasoning": "so it is", "verdict": "yes"}


@dataclass
class World:
    server: ServerProcess
    provider: ScriptedProvider
    clients: dict[str, Client]
    tokens: dict[str, str]
    path: Path
    gate: Gate


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("tenants")
    path = folder / "tenants.toml"
    path.write_text(TENANTS)
    tokens = {name: new_token(path, name) for name in NAMES}
    gate = Gate()
    with ExitStack() as stack:
        provider = stack.enter_context(provider_on_a_thread(gate.script))
        config = llm_config(folder, provider, {"m": "", "dear": ""})
        flags = ["--tenants", str(path), "--llm-config", config]
        flags += ["--llm-cache-dir", str(folder / "replies")]
        server = stack.enter_context(running_server(*flags))
        clients = {
            name: stack.enter_context(Client(server.address, credentials=Token(token)))
            for name, token in tokens.items()
        }
        yield World(server, provider, clients, tokens, path, gate)


def groups(text: str) -> list[QueryGroup]:
    return [QueryGroup("q", [f"expected {text}"], [f"retrieved {text}"], text)]


LLM = Judge("llm")


class TestWhatATenantMay:
    def test_it_is_offered_that_alone(self, world: World):
        little = world.clients["little"].server_info()
        assert {judge.kind for judge in little.judges} == {"exact", "panel"}
        assert little.default_judge == "exact"
        assert [rubric.rubric for rubric in little.rubrics] == ["answer_match"]
        assert [model.name for model in little.chat_models] == ["m"]
        assert little.models == []
        everything = world.clients["all"].server_info()
        assert {"llm", "semantic", "answers"} <= {judge.kind for judge in everything.judges}

    @pytest.mark.parametrize(
        ("tenant", "forbidden", "unknown"),
        [
            ("words", Judge("semantic"), Judge("semantid")),
            ("words", LLM, Judge("lln")),
            ("little", Judge("token_overlap"), Judge("token_overlab")),
        ],
    )
    def test_a_forbidden_judge_looks_as_one_that_nobody_has(
        self, world: World, tenant: str, forbidden: Judge, unknown: Judge
    ):
        for call in (
            lambda judge: world.clients[tenant].judge(groups("a"), judge),
            lambda judge: world.clients[tenant].evaluate(groups("a"), ["mrr"], judge),
            lambda judge: world.clients[tenant].estimate(groups("a"), judge),
            lambda judge: list(world.clients[tenant].judge_stream([groups("a")], judge)),
        ):
            assert told(call, forbidden, forbidden.kind) == told(call, unknown, unknown.kind)

    def test_a_forbidden_model_too(self, world: World):
        client = world.clients["answers"]

        def call(model: str) -> object:
            item = AnswerItem("i", "q", "a", ["a"])
            rubric = Rubric("answer_match", parameters={"model": model})
            return client.score_answers([item], [rubric])

        assert told(call, "dear", "dear") == told(call, "deer", "deer")

    def test_a_forbidden_rubric_too(self, world: World):
        client = world.clients["answers"]

        def call(rubric: str) -> object:
            return client.score_answers([AnswerItem("i", "q", "a", ["a"])], [rubric])

        names = ("faithfulness", "faithfulnest")
        forbidden, unknown = (told(call, name, name) for name in names)
        assert forbidden == unknown


class TestWhatNoneSeesOfAnother:
    def judged(self, world: World, tenant: str, text: str) -> Source:
        (verdict,) = world.clients[tenant].judge(groups(text), LLM)
        assert verdict.relevant
        return verdict.source

    def test_kept_replies_are_the_domains_own(self, world: World):
        asked = len(world.provider.asked)
        assert self.judged(world, "all", "kept") is Source.COMPUTED
        assert self.judged(world, "all", "kept") is Source.CACHE
        assert self.judged(world, "other", "kept") is Source.COMPUTED
        assert len(world.provider.asked) == asked + 2

    def test_a_shared_domain_is_shared(self, world: World):
        assert self.judged(world, "one", "shared") is Source.COMPUTED
        assert self.judged(world, "two", "shared") is Source.CACHE
        assert self.judged(world, "all", "shared") is Source.COMPUTED

    async def test_work_under_way_is_the_domains_own(self, world: World):
        asked = len(world.provider.asked)
        world.gate.open.clear()
        names = ["all", "other", "one", "two", "two"]
        clients = [
            AsyncClient(world.server.address, credentials=Token(world.tokens[name]))
            for name in names
        ]
        calls = [asyncio.create_task(each.judge(groups("held"), LLM)) for each in clients]
        while len(world.provider.asked) < asked + 3:  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.01)
        world.gate.open.set()
        sources = [(await call)[0].source for call in calls]
        assert sources[:2] == [Source.COMPUTED] * 2
        assert sorted(sources[2:]) == sorted([Source.COMPUTED, Source.SHARED, Source.SHARED])
        assert len(world.provider.asked) == asked + 3
        for each in clients:
            await each.close()

    def test_request_ids_are_the_tenants_own(self, world: World):
        request_id = str(uuid.uuid4())

        def call(tenant: str, text: str) -> pb.BatchJudgeResponse:
            group = groups_pb2.QueryGroup(query="q", expected=[f"e {text}"], retrieved=["r"])
            request = pb.BatchJudgeRequest(
                groups=[group], judge=groups_pb2.JudgeSpec(kind="llm"), request_id=request_id
            )
            metadata = (("authorization", f"Bearer {world.tokens[tenant]}"),)
            with grpc.insecure_channel(world.server.address) as channel:
                return JudgeServiceStub(channel).BatchJudge(request, timeout=20, metadata=metadata)

        asked = len(world.provider.asked)
        assert call("all", "x").usage.calls == call("all", "x").usage.calls == 1
        assert len(world.provider.asked) == asked + 1
        assert call("other", "x").usage.calls == 1  # not the reply that was kept for another
        assert len(world.provider.asked) == asked + 2
        call("one", "y")  # nor is it refused, as a second use of the id with other fields is
        with pytest.raises(grpc.RpcError) as caught:
            call("all", "y")
        assert to_error(caught.value, "here").code == "INVALID_ARGUMENT"

    def test_the_log_names_the_tenant_and_no_token(self, world: World):
        world.clients["other"].server_info()

        def named() -> bool:  # lines of calls are written a few at a time
            *lines, _ = world.server.log_text().split("\n")
            calls = [json.loads(line) for line in lines if '"part":"call"' in line]
            return "other" in {call.get("tenant") for call in calls}

        until(named)
        assert not [token for token in world.tokens.values() if token in world.server.log_text()]


def told(call, asked: object, name: str) -> tuple[str, ...]:
    """Return all that a refusal says, but for the name that was asked for."""
    with pytest.raises(JudgedError) as caught:
        call(asked)
    error = caught.value
    said = (error.code, error.reason, error.message, repr(sorted(error.metadata.items())))
    return tuple(part.replace(name, "NAME") for part in said)


class TestCommand:
    def test_a_token_from_a_file_of_the_environment(self, world: World, tmp_path: Path):
        held = tmp_path / "token"
        held.write_text(world.tokens["all"] + "\n")
        target = ("judges", "--target", world.server.address)
        done = run_in(tmp_path, *target, JUDGED_TOKEN_FILE=str(held))
        assert done.returncode == 0, done.stderr

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ((), "this server wants to know who calls: send a token"),
            (("--token-file", "no-such"), "the token file no-such can't be read"),
            (("--token-file", "empty"), "the token file empty: a token is one word"),
            (("--token-file", "words"), "a token is one word of visible ASCII characters"),
            (("--token-file", "wrong"), "the token is not valid, or not any more"),
        ],
    )
    def test_it_says_what_is_wrong(
        self, world: World, tmp_path: Path, options: tuple[str, ...], said: str
    ):
        (tmp_path / "empty").write_text("\n")
        (tmp_path / "words").write_text("two words")
        (tmp_path / "wrong").write_text("judged_wrong")
        done = run_in(tmp_path, "judges", "--target", world.server.address, *options)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("add", "all"), "all is there and has a token; use tenants rotate"),
            (("revoke", "all", "--token", "ff"), "no token ff"),
            (("add", "new", "--days", "0"), "--days is a number above 0"),
        ],
    )
    def test_it_says_what_can_not_be(self, world: World, arguments: tuple[str, ...], said: str):
        done = tenants(world.path, *arguments)
        assert done.returncode == 2
        assert said in done.stderr
