"""A server that is killed in the middle of its work: no reply that it has answered is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from judged import Asking, CacheMode, Client, Judge, JudgedError, QueryGroup, Status

from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import running_server

THREADS = 4
ROUNDS = 2
BEFORE_THE_KILL = 30


@pytest.mark.timeout(120)
def test_what_was_answered_before_a_kill_is_in_the_file(tmp_path: Path):
    acknowledged: list[str] = []
    with provider_on_a_thread() as provider:
        flags = (
            "--llm-config",
            llm_config(tmp_path, provider, {"small": priced(1.0, 2.0)}),
            "--llm-cache",
            "disk",
            "--llm-cache-dir",
            str(tmp_path / "replies"),
        )
        for number in range(ROUNDS):
            with running_server(*flags) as server:
                enough = threading.Event()
                killed = threading.Event()
                before = len(acknowledged)

                def ask(
                    thread: int,
                    round_: int = number,
                    address: str = server.address,
                    killed: threading.Event = killed,
                    enough: threading.Event = enough,
                    before: int = before,
                ) -> None:
                    with Client(address, max_retries=0) as client:
                        call = 0
                        while not killed.is_set():
                            text = f"{round_} {thread} {call}"
                            group = QueryGroup("q", ["e"], [text], "1")
                            try:
                                found = client.judge([group], Judge("llm"), timeout=60)
                            except JudgedError:
                                return
                            if found[0].status is Status.OK:
                                acknowledged.append(text)
                            call += 1
                            if len(acknowledged) >= before + BEFORE_THE_KILL:
                                enough.set()

                threads = [threading.Thread(target=ask, args=(n,)) for n in range(THREADS)]
                for thread in threads:
                    thread.start()
                assert enough.wait(60)
                server.process.kill()
                killed.set()
                for thread in threads:
                    thread.join(30)
        assert len(acknowledged) >= ROUNDS * BEFORE_THE_KILL
        with running_server(*flags) as server, Client(server.address) as client:
            groups = [
                QueryGroup("q", ["e"], [text], str(place))
                for place, text in enumerate(acknowledged)
            ]
            kept = client.judge(groups, Judge("llm"), asking=Asking(CacheMode.ONLY))
    assert [verdict.status for verdict in kept] == [Status.OK] * len(acknowledged)
