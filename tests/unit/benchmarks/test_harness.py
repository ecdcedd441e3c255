"""What all benchmarks share: the closing line, and what others took of the machine."""

import json

from benchmarks import harness
from benchmarks.harness import closing_line, stolen_seconds, stolen_share


class TestStolenSeconds:
    def test_is_the_eighth_figure(self, tmp_path, monkeypatch):
        monkeypatch.setattr(harness, "_TICKS", 100)
        stat = tmp_path / "stat"
        stat.write_text("cpu  1 2 3 4 5 6 7 250 9 10\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
        assert stolen_seconds(stat) == 2.5

    def test_is_unknown_where_the_system_does_not_tell(self, tmp_path):
        assert stolen_seconds(tmp_path / "none") is None
        (tmp_path / "short").write_text("cpu 1 2\n")
        assert stolen_seconds(tmp_path / "short") is None
        (tmp_path / "empty").write_text("")
        assert stolen_seconds(tmp_path / "empty") is None

    def test_share_is_of_all_cores(self, monkeypatch):
        monkeypatch.setattr(harness, "_BEGAN", (100.0, 7.0))
        monkeypatch.setattr("time.monotonic", lambda: 110.0)
        monkeypatch.setattr(harness, "stolen_seconds", lambda: 12.0)
        monkeypatch.setattr("os.cpu_count", lambda: 4)
        assert stolen_share() == 5.0 / 40.0
        monkeypatch.setattr(harness, "stolen_seconds", lambda: None)
        assert stolen_share() is None


class TestClosingLine:
    def test_has_medians_and_spreads(self):
        line = json.loads(closing_line("b", {"x": [3.0, 1.0, 2.0]}, facts={"calls": 9}))
        assert line["figures"] == {"x": 2.0}
        assert line["spread"] == {"x": [1.0, 3.0]}
        assert line["facts"] == {"calls": 9}
        assert "not_run" not in line

    def test_tells_what_others_took(self, monkeypatch):
        monkeypatch.setattr(harness, "stolen_share", lambda: 0.25)
        assert json.loads(closing_line("b", {"x": [1.0]}))["machine"]["stolen_share"] == 0.25
        monkeypatch.setattr(harness, "stolen_share", lambda: None)
        assert "stolen_share" not in json.loads(closing_line("b", {"x": [1.0]}))["machine"]
