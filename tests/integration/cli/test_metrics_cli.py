"""`judged metrics`: a process, two streams, an exit status."""

from __future__ import annotations

import json

import pytest

from tests.integration.cli_process import RUN


class TestMetrics:
    command = ("metrics", "--qrels", "qrels.txt", "--run", "run.txt")

    def test_measures_as_trec_eval_does(self, judged):
        done = judged(
            *self.command, "-m", "precision@2", "-m", "mrr", "-m", "recall", "--json", "-"
        )
        assert done.returncode == 0
        document = json.loads(done.stdout)
        # By score d2 comes before d1, whatever the order of the lines; d3 was not found.
        assert document["per_query"] == {"301": {"precision@2": 0.5, "mrr": 0.5, "recall": 0.5}}
        assert document["counts"]["skipped_missing"] == 1
        assert document["counts"]["verdicts"] is None
        assert document["signature"] is None
        assert "1 topic of the qrels left out: not in the run" in done.stderr

    def test_names_topics_that_only_one_file_has(self, judged, folder):
        (folder / "qrels.txt").write_text("1 0 a 1\n2 0 a 1\n3 0 a 1\n")
        (folder / "run.txt").write_text("1 Q0 a 1 9 x\n02 Q0 a 1 9 x\n03 Q0 a 1 9 x\n")
        done = judged(*self.command, "-m", "mrr")
        assert "2 topics of the qrels left out: not in the run, for example '2'; " in done.stderr
        assert "2 topics of the run left out: not in the qrels, for example '02'" in done.stderr
        done = judged(*self.command, "-m", "mrr", "--complete")
        assert "of the qrels left out" not in done.stderr

    def test_counts_missing_topics_as_0_on_request(self, judged):
        done = judged(*self.command, "-m", "mrr", "--complete", "--strict", "--json", "-")
        assert done.returncode == 0
        assert json.loads(done.stdout)["metrics"]["mrr"]["mean"] == 0.25
        assert done.stderr == ""

    def test_warns_of_scores_that_do_not_rank_as_the_ranks_do(self, judged, folder):
        said = "the scores rank otherwise than the rank column"
        (folder / "qrels.txt").write_text("1 0 a 1\n2 0 a 1\n")
        ranked = list(zip("abc", (1, 2, 3), ("0.10", "0.55", "0.90"), strict=True))
        lines = [f"{topic} Q0 {name} {rank} {s} x\n" for topic in "12" for name, rank, s in ranked]
        (folder / "run.txt").write_text("".join(lines))
        done = judged(*self.command, "-m", "mrr", "--strict", "--json", "-")
        assert done.returncode == 1
        assert f"warning: in 2 of 2 topics {said}" in done.stderr
        found = json.loads(done.stdout)
        assert round(found["metrics"]["mrr"]["mean"], 4) == 0.3333  # as trec_eval ranks
        assert len(found["warnings"]) == 1
        (folder / "other.txt").write_bytes((folder / "run.txt").read_bytes())
        done = judged("compare", "--qrels", "qrels.txt", "run.txt", "other.txt", "-m", "mrr")
        assert f"warning: other: in 2 of 2 topics {said}" in done.stderr
        said = judged.refused("compare", "--qrels", "qrels.txt", "run.txt", "run.txt", "-m", "mrr")
        assert said == "judged: run.txt: is named twice; name each run once\n"

    def test_takes_a_level_of_relevance_and_a_largest_number_of_documents(self, judged, folder):
        (folder / "qrels.txt").write_text("1 0 a 1\n1 0 b 2\n1 0 c 2\n")
        (folder / "run.txt").write_text("1 Q0 a 1 3 t\n1 Q0 b 2 2 t\n1 Q0 c 3 1 t\n")

        def means(*flags: str) -> list[float]:
            done = judged(*self.command, "-m", "mrr", "-m", "recall", *flags, "--json", "-")
            assert done.returncode == 0, done.stderr
            return [metric["mean"] for metric in json.loads(done.stdout)["metrics"].values()]

        assert means() == [1.0, 1.0]
        assert means("--relevance-level", "2") == [0.5, 1.0]
        assert means("--relevance-level", "2", "--max-documents", "2") == [0.5, 0.5]
        for flag in ("--relevance-level", "--max-documents"):
            assert flag in judged.refused(*self.command, "-m", "mrr", flag, "0")

    def test_takes_a_policy_for_unjudged_documents(self, judged):
        done = judged(*self.command, "-m", "mrr", "--unjudged", "condensed", "--json", "-")
        assert "unjudged:condensed" in json.loads(done.stdout)["metrics"]["mrr"]["signature"]
        done = judged(*self.command, "-m", "mrr", "--unjudged", "bounds")
        assert ["metric", "mean", "n", "lower", "upper"] in [
            line.split() for line in done.stdout.splitlines()
        ]

    def test_confidence_alone_asks_for_intervals(self, judged):
        done = judged(
            *self.command, "-m", "mrr", "--complete", "--confidence", "0.9", "--json", "-"
        )
        interval = json.loads(done.stdout)["metrics"]["mrr"]["interval"]
        assert (interval["confidence"], interval["lower"], interval["upper"]) == (0.9, 0.0, 0.5)
        assert judged.refused(*self.command, "-m", "mrr", "--confidence", "95").startswith(
            "judged: --confidence: must be from 0.5 to 0.9999"
        )

    def test_counts_repeats(self, judged, folder):
        (folder / "run.txt").write_text(RUN + "301 Q0 d1 4 0.05 t\n")
        done = judged(*self.command, "-m", "mrr", "--complete", "--strict", "--json", "-")
        assert done.returncode == 1
        assert json.loads(done.stdout)["counts"]["duplicates"] == 1
        assert "1 repeated result dropped" in done.stderr

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("qrels.txt", "", "qrels.txt: holds no judgement"),
            ("run.txt", "999 Q0 d1 1 1 t\n", "qrels and run have no topic in common: '301' is"),
        ],
    )
    def test_names_file_and_line(self, judged, folder, name, text, message):
        (folder / name).write_text(text)
        assert judged.refused(*self.command, "-m", "ap").startswith(f"judged: {message}")

    def test_warns_where_an_interval_can_not_be(self, judged, folder):
        (folder / "qrels.txt").write_text("301 0 d1 1\n")
        done = judged(*self.command, "-m", "ap", "--interval", "t")
        assert "interval: there is none where fewer than two queries" in done.stderr

    def test_what_is_missing_to_compare_is_the_servers_to_say(self, judged, folder):
        compare = ("compare", "--qrels", "qrels.txt", "run.txt")
        assert "runs: must hold at least two runs" in judged.refused(*compare, "-m", "mrr")
        (folder / "other.txt").write_bytes((folder / "run.txt").read_bytes())
        told = judged.refused(*compare, "other.txt")
        assert told.startswith("judged: --metric: must name at least one metric")
