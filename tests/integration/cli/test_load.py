"""`judged load`: against a real server, and against one whose capacity is known."""

from __future__ import annotations

import json

import pytest
from judged.cli.app import run

from tests.fakes.paced_server import paced_server

KEPT_MS = 50.0
"""What leaves so late says that the machine is busy with other things."""


def test_a_server_of_known_service_time_has_that_capacity(tmp_path, capsys):
    with paced_server(0.01) as server:
        arguments = ["load", "--target", server.address, "--p99", "100", "--rps", "90"]
        shape = ["--duration", "2.5", "--arrivals", "constant", "--mix", "exact:1x1@5"]
        files = ["--json", str(tmp_path / "load.json"), "--report", str(tmp_path / "load.html")]
        status = run([*arguments, *shape, *files])
    said = capsys.readouterr()
    found = json.loads((tmp_path / "load.json").read_text())
    capacity = found["capacity_rps"] or 0.0
    # The server can't do more, whatever the machine does; less only where one of the two was kept.
    assert capacity <= 105, said.err
    late_ms = [1e3 * server.latest_s, *(step["client_late_p99_ms"] for step in found["steps"])]
    if max(late_ms) < KEPT_MS or capacity >= 95:
        assert (status, capacity) == (0, pytest.approx(100, rel=0.05)), said.err
        assert f"{capacity:.4g} requests a second at p99 <= 100 ms" in found["headline"]
    assert found["headline"] in said.out
    assert found["headline"].replace("<", "&lt;") in (tmp_path / "load.html").read_text()


class TestRealServer:
    def test_a_mix_at_random_instants(self, judged):
        mix = "token_overlap:2x3=2,exact:1x1"
        done = judged.fine(
            "load", "--rps", "60", "--duration", "1.5", "--mix", mix, "--repeat", "0.3",
            "--json", "load.json", "--report", "load.html",
        )  # fmt: skip
        assert "60 requests a second" in done.stdout
        document = judged.read("load.json")
        everything = document["requests"].pop("all")
        assert set(document["requests"]) == {"token_overlap:2x3", "exact:1x1"}
        assert everything["sent"] == everything["answered"] > 50
        assert everything["missing_verdicts"] == everything["changed_verdicts"] == 0
        assert 0 < everything["latency_ms"]["p50"] <= everything["latency_ms"]["p99"]
        assert "token_overlap:2x3" in (judged.folder / "load.html").read_text()

    def test_calls_come_as_they_came(self, judged):
        judged.write("at.jsonl", [{"at": 5.0}, {"at": 5.1}, {"at": 5.4}])
        options = ("--replay", "at.jsonl", "--duration", "0.5", "--mix", "exact:1x1")
        document = judged.document("load", *options)
        assert document["requests"]["exact:1x1"]["answered"] == 3
        assert document["rps"] == pytest.approx(5)

    def test_a_judge_that_is_not_there_is_told(self, judged):
        told = judged.fails("load", "--rps", "9", "--duration", "0.5", "--mix", "exat:1x1")
        assert told.startswith("no request was answered: ")
        assert "NOT_FOUND" in told
        assert "exact" in told

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            (["--mix", "exact"], "--mix: 'exact' is not KIND"),
            ([], "--rps: say how many a second, or --p99"),
            (["--p99", "200", "--duration", "1"], "--duration: 1 s are too short"),
            (["--rps", "0.1", "--duration", "1", "--arrivals", "constant"], "nothing is due"),
            (["--replay", "none.jsonl"], "none.jsonl: "),
        ],
    )
    def test_wrong_options_are_refused(self, judged, options, told):
        rate = ["--rps", "1"] if options[:1] == ["--mix"] else []
        assert told in judged.fails("load", *rate, *options)
