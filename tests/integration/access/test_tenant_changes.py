"""What becomes of calls when a file of tenants changes, or the tokens beside it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from judged import Client, PermissionDenied
from judged.credentials import Token
from judged.v1 import judge_service_pb2 as pb
from judged.v1.judge_service_pb2_grpc import JudgeServiceStub
from judged_server.tenants import changing, tokens_beside

from tests.integration.access.test_tls import refusal, wait_for_line
from tests.integration.server_process import running_server
from tests.integration.tenant_files import new_token, tenants


class TestChanges:
    """Each on a server and a file of its own."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "tenants.toml"
        path.write_text("[tenants.a]\n[tenants.b]\n")
        return path

    @pytest.mark.parametrize("how", ["revoked", "removed", "ended"])
    def test_a_credential_that_ends_ends_its_calls_and_nobody_elses(self, path: Path, how: str):
        a, b = new_token(path, "a"), new_token(path, "b")
        with running_server("--tenants", str(path)) as server:
            ended = threading.Event()
            never = threading.Event()

            def messages() -> Iterator[pb.StreamJudgeRequest]:
                yield pb.StreamJudgeRequest(start=pb.StreamJudgeStart())
                never.wait(60)

            def open_stream(token: str) -> Any:
                metadata = (("authorization", f"Bearer {token}"),)
                stream = JudgeServiceStub(channel).StreamJudge(
                    messages(), timeout=60, metadata=metadata
                )
                assert next(stream).HasField("started")
                return stream

            with grpc.insecure_channel(server.address) as channel:
                streams = open_stream(a), open_stream(b)
                streams[0].add_callback(ended.set)
                if how == "revoked":
                    done = tenants(path, "revoke", "a")
                    assert done.returncode == 0, done.stderr
                elif how == "ended":
                    soon = datetime.now(UTC) + timedelta(seconds=3)
                    with changing(tokens_beside(path)) as held:
                        of_a, of_b = held[0].tokens
                        held[0] = replace(held[0], tokens=(replace(of_a, ends=soon), of_b))
                else:
                    path.write_text("[tenants.b]\n")
                assert ended.wait(30), "it counts for 5 s at most, on an idle machine"
                assert streams[0].code() is grpc.StatusCode.UNAUTHENTICATED
                assert streams[1].is_active()
                streams[1].cancel()
                never.set()
            with (
                Client(server.address, credentials=Token(a)) as client,
                pytest.raises(PermissionDenied, match="not valid, or not any more"),
            ):
                client.server_info()
            with Client(server.address, credentials=Token(b)) as client:
                assert client.server_info().version

    def test_a_bad_file_keeps_the_old_and_a_mended_one_counts(self, path: Path):
        token = new_token(path, "a")
        with (
            running_server("--tenants", str(path)) as server,
            Client(server.address, credentials=Token(token)) as client,
        ):
            for bad, problem in (
                ("[tenants.a", "is not TOML"),
                ("[tenants.a]\njudges = ['exakt']", "has no 'exakt'"),
                ("", "has no tenant any more"),
            ):
                path.write_text(bad)
                wait_for_line(server, "bad tenants", problem)
                assert len(client.server_info().judges) > 2
            path.write_text("[tenants.a]\njudges = ['exact']")
            wait_for_line(server, "tenants read")
            assert {judge.kind for judge in client.server_info().judges} == {"exact"}

    def test_a_tenant_is_added_to_the_whole_of_a_file_or_not_at_all(
        self, path: Path, tmp_path: Path
    ):
        kept = tmp_path / "kept.toml"
        path.rename(kept)
        path.symlink_to(kept)
        kept.chmod(0o640)
        if os.geteuid() == 0:
            os.chown(kept, 1, 1)  # the server's user, who could not read a file of root's
        owner = kept.stat().st_uid
        before, text = kept.stat().st_ino, '[tenants.a]\njudges = ["exact"]  # \u00fc, no line end'
        kept.write_text(text)
        done = tenants(path, "add", "c")
        assert done.returncode == 0, done.stderr
        assert kept.read_text() == f"{text}\n\n[tenants.c]\n"
        assert path.is_symlink()
        assert kept.stat().st_uid == owner
        assert kept.stat().st_ino != before, "written beside, and put in its place"
        assert kept.stat().st_mode & 0o777 == 0o640
        for raw, said in (
            (b"tenants = { a = {} }\n", "is not TOML"),
            (b"[tenants.\xff]\n", "is not UTF-8"),
        ):
            kept.write_bytes(raw)
            done = tenants(path, "add", "d")
            assert (done.returncode, kept.read_bytes()) == (2, raw)
            assert said in done.stderr
            assert len(done.stderr.splitlines()) == 1

    def test_a_server_does_not_start_with_a_judge_that_is_not_there(self, path: Path):
        new_token(path, "a")
        path.write_text('[tenants.a]\njudges = ["exakt"]\n')
        said = refusal("--tenants", str(path))
        assert "tenants: a: judges: this server has no 'exakt'; did you mean exact?" in said
