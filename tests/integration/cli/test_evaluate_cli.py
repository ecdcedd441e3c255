"""`judged evaluate`: a process, two streams, an exit status."""

from __future__ import annotations

import json

import pytest

from tests.integration.cli_process import DATASET


class TestEvaluate:
    command = ("evaluate", "dataset.json", "--results", "results.jsonl", "--judge", "exact")

    def test_prints_a_table_and_writes_the_document(self, judged, folder):
        done = judged(*self.command, "-m", "mrr", "--metric", "recall@1", "--json", "out.json")
        assert done.returncode == 0
        assert done.stdout.split()[:3] == ["metric", "mean", "n"]
        assert "2 of 2 queries, 4 results" in done.stdout
        assert "2 verdicts, 1 relevant, coverage 1" in done.stdout
        document = judged.read("out.json")
        assert document["metrics"]["mrr"] == {
            "mean": 0.75,
            "n": 2,
            "interval": None,
            "lower_bound": None,
            "upper_bound": None,
            "signature": "mrr|matching:greedy_first|no_gold:skip|v1",
        }
        assert document["per_query"] == {
            "q1": {"mrr": 0.5, "recall@1": 0.0},
            "q2": {"mrr": 1.0, "recall@1": 0.5},
        }
        assert document["counts"]["verdicts"]["ok"] == 2
        assert document["signature"] == "exact|profile:verbatim|min_score:0.5|v1"
        assert document["warnings"] == []

    def test_reads_a_data_set_in_the_format_of_its_name(self, judged, folder):
        (folder / "results.jsonl").write_text(
            '{"query_id": "q1", "results": [{"text": "b"}, {"text": "rag, and more"}]}'
        )
        (folder / "golden.csv").write_text(
            '\ufeffquery_id,query_text,expected_answers\nq1,what,"rag, and more"\n'
        )
        (folder / "golden.txt").write_text(json.dumps({"queries": [DATASET["queries"][0]]}))
        flags = ("--results", "results.jsonl", "--judge", "exact", "-m", "mrr")
        assert "mrr      0.5000   1" in judged("evaluate", "golden.csv", *flags).stdout
        assert "mrr      0.0000   1" in judged("evaluate", "golden.txt", *flags).stdout

    def test_shows_intervals_and_slices(self, judged, folder):
        first, second = DATASET["queries"]
        queries = [{**first, "metadata": {"type": "fact"}}, second]
        (folder / "dataset.json").write_text(json.dumps({**DATASET, "queries": queries}))
        options = ("--interval", "bca", "--resamples", "500", "--seed", "3", "--slice-by", "type")
        done = judged(*self.command, "-m", "mrr", *options, "--json", "out.json")
        assert done.returncode == 0
        lines = [line.split() for line in done.stdout.splitlines()]
        assert ["mrr", "0.7500", "[0.5000,", "1.0000]", "2"] in lines
        assert ["slice", "n", "mrr"] in lines
        assert ["type=fact", "1", "0.5000"] in lines
        assert ["type=-", "1", "1.0000"] in lines
        assert "warning: interval: 2 queries are few" in done.stderr
        document = judged.read("out.json")
        interval = document["metrics"]["mrr"]["interval"]
        assert interval["signature"] == "bootstrap:bca|resamples:500|seed:3|confidence:0.95|v2"
        assert (interval["lower"], interval["upper"]) == (0.5, 1.0)
        assert [(part["key"], part["value"]) for part in document["slices"]] == [
            ("type", ""),
            ("type", "fact"),
        ]
        assert document["slices"][1]["metrics"]["mrr"]["mean"] == 0.5

    def test_reports_negatives_beside_families(self, judged, folder):
        (folder / "golden.json").write_text(
            '{"queries": [{"query_id": "q1", "query_text": "", "expected_answers": ["a b c"], '
            '"negative_answers": ["old"]}]}'
        )
        (folder / "golden.jsonl").write_text(
            '{"query_id": "q1", "results": [{"text": "old"}, {"text": "a b c"}]}'
        )
        flags = ("golden.json", "--results", "golden.jsonl", "-m", "recall_exact", "--json", "-")
        run = judged("evaluate", *flags)
        document = json.loads(run.stdout)
        assert run.returncode == 0
        assert document["metrics"]["recall_exact"]["mean"] == 1.0
        assert document["negatives"]["queries_hit"] == 1
        assert document["negatives"]["matches"][0]["retrieved"] == 0
        assert "1 of 1 query with negative answers retrieved one" in run.stderr
        assert judged("evaluate", *flags, "--strict").returncode == 1

    def test_judges_spans(self, judged, folder):
        (folder / "spans.json").write_text(
            '{"queries": [{"query_id": "q1", "query_text": "", '
            '"expected_spans": [{"file": "f", "start": 0, "end": 8}]}]}'
        )
        (folder / "spans.jsonl").write_text(
            '{"query_id": "q1", "results": [{"span": {"file": "f", "start": 4, "end": 9}}]}'
        )
        flags = ("spans.json", "--results", "spans.jsonl", "-m", "recall", "--judge", "span")
        assert "recall   0.0000" in judged("evaluate", *flags).stdout
        covered = judged("evaluate", *flags, "--param", "measure=containment")
        assert "recall   1.0000" in covered.stdout
        assert "judge span|measure:containment|min_score:0.5|v1" in covered.stdout

    def test_warns_of_files_that_do_not_fit_and_counts_it_when_strict(self, judged, folder):
        rising = {
            "query_id": "q1",
            "results": [{"text": "a", "score": 1}, {"text": "b", "score": 2}],
        }
        other = {"query_id": "q7", "results": []}
        (folder / "results.jsonl").write_text(json.dumps(rising) + "\n" + json.dumps(other))
        done = judged(*self.command, "-m", "mrr", "--strict", "--json", "-")
        assert done.returncode == 1
        assert "1 of 2 queries has no results and counts as" in done.stderr
        assert "1 of 2 queries of the results is not in the data set" in done.stderr
        assert "scores that rise with rank, for example 'q1'" in done.stderr
        document = json.loads(done.stdout)
        assert len(document["warnings"]) == 3
        assert document["metrics"]["mrr"] | {"signature": ""} == {
            "mean": 0.0,
            "n": 2,
            "interval": None,
            "lower_bound": None,
            "upper_bound": None,
            "signature": "",
        }

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["-m", "ndgc@10"], "--metric ndgc@10: no metric is called 'ndgc'; did you mean ndcg?"),
            (["-m", "ap@x"], "--metric ap@x: k must be a whole number"),
            (
                ["-m", "ap", "--matching", "any"],
                "--metric ap: ap is not defined for matching ",
            ),
            (["-m", "ap", "--min-score", "7"], "--min-score: must be from 0 to 1, or be unset"),
            (["-m", "ap", "--profile", "nope"], "--profile: judge exact has the profiles"),
        ],
    )
    def test_says_in_one_line_what_is_wrong(self, judged, arguments, message):
        said = judged.refused(*self.command, *arguments)
        assert said.startswith(f"judged: {message}")
        assert said.count("\n") == 1

    def test_names_the_result_that_the_server_refuses(self, judged, folder):
        huge = {"query_id": "q1", "results": [{"text": "a"}, {"text": "x" * (2 << 20)}]}
        (folder / "results.jsonl").write_text(json.dumps(huge))
        assert "judged: query 'q1', result 2: 2097152 bytes" in judged.refused(
            *self.command, "-m", "ap"
        )
