"""The command line as its users have it: a process, two streams, an exit status."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.integration.cli_process import DATASET, LINES, RESULTS, RUN, fill, lines_of, run_in

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return fill(tmp_path)


@pytest.fixture
def judged(folder: Path, server_address: str) -> Run:
    """Runs `judged` against the server of the tests."""
    return lambda *arguments, **more: run_in(
        folder, *arguments, **{"JUDGED_TARGET": server_address, **more}
    )


class TestJudge:
    def test_prints_the_lines_with_their_verdicts(self, judged):
        done = judged("judge", "contexts.jsonl", "--judge", "token_overlap")
        assert done.returncode == 0
        first, second = lines_of(done.stdout)
        assert first.items() >= LINES[0].items()
        assert (first["status"], first["relevant"], first["source"]) == ("OK", True, "COMPUTED")
        assert first["score"] == pytest.approx(5 / 6)
        assert (second["relevant"], second["score"]) == (False, 0.0)
        assert done.stderr == (
            "judged: 2 verdicts, 1 relevant, coverage 1; token_overlap|profile:classic|"
            "min_tokens:2|query_boost:true|min_score:0.6|v1\n"
        )

    def test_takes_profile_score_and_parameters(self, judged):
        done = judged(
            *("judge", "contexts.jsonl", "--judge", "token_overlap", "--profile", "unicode"),
            *("--min-score", "0.9", "--param", "min_tokens=3", "--param", "query_boost=false"),
        )
        assert done.returncode == 0
        assert "profile:unicode|min_tokens:3|query_boost:false|min_score:0.9" in done.stderr
        assert [line["relevant"] for line in lines_of(done.stdout)] == [False, False]

    def test_reads_standard_input_and_writes_files(self, judged, folder):
        stdin = (folder / "contexts.jsonl").read_text()
        done = judged(
            *("judge", "-", "--judge", "exact", "--output", "out.jsonl", "--json", "out.json"),
            stdin=stdin,
        )
        assert (done.returncode, done.stdout) == (0, "")
        document = json.loads((folder / "out.json").read_text())
        assert document["verdicts"] == lines_of((folder / "out.jsonl").read_text())
        assert document["counts"]["ok"] == 2
        assert document["signature"].startswith("exact|profile:verbatim")

    def test_a_large_file_is_judged_in_blocks_with_the_same_lines(self, judged, folder):
        lines = [{**LINES[n % 2], "id": str(n), "status": "mine"} for n in range(9_000)]
        raw = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "many.jsonl").write_text(raw)
        flags = ("--judge", "token_overlap", "--output")
        done = judged("judge", "many.jsonl", *flags, "out.jsonl")
        assert (done.returncode, done.stdout) == (0, "")
        printed = judged("judge", "many.jsonl", *flags, "-")
        assert (folder / "out.jsonl").read_text() == printed.stdout
        assert done.stderr == printed.stderr
        assert "9000 verdicts, 4500 relevant" in done.stderr
        assert "fields that the verdict replaced: status" in done.stderr

    def test_nothing_is_judged_before_all_lines_are_checked(self, judged, folder):
        with (folder / "contexts.jsonl").open("a") as file:
            file.writelines(json.dumps({**LINES[0], "id": "again"}) + "\n" for _ in range(2))
        done = judged("judge", "contexts.jsonl", "--judge", "exact", "--output", "out.jsonl")
        assert done.returncode == 2
        assert "contexts.jsonl:4: has the id 'again' of line 3" in done.stderr
        assert not (folder / "out.jsonl").exists()

    def test_prints_the_document_instead_of_the_lines(self, judged):
        done = judged("judge", "contexts.jsonl", "--judge", "exact", "--json", "-")
        assert [line["id"] for line in json.loads(done.stdout)["verdicts"]] == [1, 2]

    def test_uses_the_default_judge_when_none_is_named(self, judged):
        assert "token_overlap|profile:classic" in judged("judge", "contexts.jsonl").stderr

    def test_ends_with_2_where_every_verdict_failed(self, judged, folder):
        long, short = (
            {"query": "", "expected_text": "a", "retrieved_text": "a " * n} for n in (600, 1)
        )
        for lines, status in (([long], 2), ([long, short], 0)):
            (folder / "long.jsonl").write_text("\n".join(map(json.dumps, lines)))
            done = judged(
                "judge", "long.jsonl", "--judge", "semantic", "--param", "long_text=reject"
            )
            assert done.returncode == status, done.stderr
            assert lines_of(done.stdout)[0]["error"]["reason"] == "TEXT_TOO_LONG"
            assert ("every verdict failed" in done.stderr) == (status == 2)

    def test_names_the_profile_for_other_scripts_and_counts_it_when_strict(self, judged, folder):
        line = {"query": "", "expected_text": "検索拡張生成", "retrieved_text": "生成", "score": 3}
        (folder / "cjk.jsonl").write_text(json.dumps(line, ensure_ascii=False), encoding="utf-8")
        done = judged("judge", "cjk.jsonl", "--judge", "token_overlap", "--strict")
        assert done.returncode == 1
        assert lines_of(done.stdout)[0]["flags"] == ["NO_TOKENS"]
        assert "検索拡張生成" in done.stdout
        assert "warning: 1 of 1 verdict is about" in done.stderr
        assert "--profile unicode" in done.stderr
        assert "warning: the input has fields that the verdict replaced: score" in done.stderr

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--judge", "nope"], "--judge: no judge is called 'nope'; this server has "),
            (["--judge", "exact", "--profile", "nope"], "--profile: judge exact has the profiles "),
            (["--judge", "exact", "--min-score", "2"], "--min-score: must be a number from 0 to 1"),
            (
                ["--judge", "token_overlap", "--param", "min_token=2"],
                "--param min_token: judge token_overlap classic has min_tokens, query_boost; did",
            ),
            (
                ["--judge", "token_overlap", "--param", "min_tokens=two"],
                "--param min_tokens: must be a whole number, at least 1, not 'two'",
            ),
            (
                ["--judge", "token_overlap", "--param", "min_tokens=0"],
                "--param min_tokens: must be a whole number, at least 1",
            ),
            (["--json", "nowhere/out.json"], "--json nowhere/out.json: there is no folder nowhere"),
            (["--output", "."], "--output .: is a folder"),
            (["--target", "127.0.0.1:1"], "can't reach 127.0.0.1:1: "),
            (["--target", "localhost"], "--target localhost: has no port; write HOST:PORT"),
            (["--judge", "span"], "--judge span: compares places in files, and lines hold texts"),
            (["--judge", "answers"], "--judge answers: scores answers, not contexts; use judged s"),
            (
                ["--judge", "panel", "--member", "exact", "--member", "nope"],
                "--member nope: no judge is called 'nope'; this server has token_overlap, exact",
            ),
            (["--json", "a", "--output", "./a"], "--json a: is the file of --output too"),
        ],
    )
    def test_says_in_one_line_what_is_wrong(self, judged, arguments, message):
        done = judged("judge", "contexts.jsonl", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"judged: {message}")
        assert done.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ("", "bad.jsonl: holds nothing to judge"),
            ("{}", "bad.jsonl:1: has no 'query'"),
            (
                '{"query": "q", "expected": "a", "retrieved_text": "b"}',
                "bad.jsonl:1: has no 'expected_text'; is it what is called 'expected' here?",
            ),
            ('\n{"query": "a",}', "bad.jsonl:2: is not JSON"),
        ],
    )
    def test_names_the_line_of_a_bad_file(self, judged, folder, raw, message):
        (folder / "bad.jsonl").write_text(raw)
        done = judged("judge", "bad.jsonl", "--judge", "exact")
        assert done.returncode == 2
        assert done.stderr.startswith(f"judged: {message}")

    def test_names_the_line_of_a_text_that_the_server_refuses(self, judged, folder):
        huge = {**LINES[0], "id": "huge", "retrieved_text": "x" * (2 << 20)}
        with (folder / "contexts.jsonl").open("a") as file:
            file.write(json.dumps(huge))
        for output in ("-", "out.jsonl"):
            done = judged("judge", "contexts.jsonl", "--judge", "exact", "--output", output)
            assert done.returncode == 2
            assert done.stderr.startswith(
                "judged: contexts.jsonl:3: 'retrieved_text': 2097152 bytes"
            )


class TestEvaluate:
    command = ("evaluate", "dataset.json", "--results", "results.jsonl", "--judge", "exact")

    def test_prints_a_table_and_writes_the_document(self, judged, folder):
        done = judged(*self.command, "-m", "mrr", "--metric", "recall@1", "--json", "out.json")
        assert done.returncode == 0
        assert done.stdout.split()[:3] == ["metric", "mean", "n"]
        assert "2 of 2 queries, 4 results" in done.stdout
        assert "2 verdicts, 1 relevant, coverage 1" in done.stdout
        document = json.loads((folder / "out.json").read_text())
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

    def test_prints_the_document_instead_of_the_table(self, judged):
        done = judged(*self.command, "-m", "mrr", "--json", "-")
        assert json.loads(done.stdout)["metrics"]["mrr"]["mean"] == 0.75

    def test_shows_every_query_on_request(self, judged):
        done = judged(*self.command, "-m", "mrr", "--per-query")
        assert ["q1", "0.5000"] in [line.split() for line in done.stdout.splitlines()]

    def test_takes_a_matching(self, judged):
        done = judged(*self.command, "-m", "mrr", "--matching", "ANY", "--json", "-")
        assert "matching:any" in json.loads(done.stdout)["metrics"]["mrr"]["signature"]

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
        document = json.loads((folder / "out.json").read_text())
        interval = document["metrics"]["mrr"]["interval"]
        assert interval["signature"] == "bootstrap:bca|resamples:500|seed:3|confidence:0.95|v2"
        assert (interval["lower"], interval["upper"]) == (0.5, 1.0)
        assert [(part["key"], part["value"]) for part in document["slices"]] == [
            ("type", ""),
            ("type", "fact"),
        ]
        assert document["slices"][1]["metrics"]["mrr"]["mean"] == 0.5

    def test_says_the_same_of_files_that_are_read_whole(self, judged, folder):
        lines = [{**RESULTS[0], "reslts": []}, RESULTS[1], {"query_id": "unknown", "results": []}]
        files = {"results.jsonl": lines, "turned.jsonl": lines[::-1]}
        for name, some in files.items():
            raw = "".join(json.dumps(line) + "\n" for line in some).encode()
            (folder / name).write_bytes(raw)
            (folder / f"{name}.gz").write_bytes(gzip.compress(raw))
        flags = (
            "-m",
            "mrr",
            "-m",
            "recall@1",
            "--judge",
            "exact",
            "--per-query",
            "--json",
            "o.json",
        )
        said = []
        for name in [*files, *(f"{name}.gz" for name in files)]:
            run = judged("evaluate", "dataset.json", "--results", name, *flags)
            assert run.returncode == 0
            written = (folder / "o.json").read_text()
            said.append((run.stdout, *(t.replace(name, "NAME") for t in (run.stderr, written))))
        assert "1 of 3 queries of the results is not in the data set" in said[0][1]
        assert "has 'reslts', which nothing reads" in said[0][1]
        assert [text.replace("NAME:3", "NAME:1") for text in said[1]] == list(said[0])
        assert said[:2] == said[2:]

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
        assert "with result 1 ('retrieved_0')" in run.stderr
        assert judged("evaluate", *flags, "--max-negatives", "0").returncode == 1

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

    def test_asks_no_judge_when_all_is_matched_by_id(self, judged, folder):
        only = {"queries": DATASET["queries"][1:]}
        (folder / "dataset.json").write_text(json.dumps(only))
        (folder / "results.jsonl").write_text(json.dumps(RESULTS[1]))
        done = judged(*self.command, "-m", "recall", "--json", "out.json")
        assert "matched by document id; no judge was asked" in done.stdout
        document = json.loads((folder / "out.json").read_text())
        assert document["signature"] is None
        assert document["counts"]["verdicts"] is None
        assert document["metrics"]["recall"]["mean"] == 0.5

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
                "--metric ap: ap is not defined for matching any; use greedy_first, maximum",
            ),
            (["-m", "ap", "--min-score", "7"], "--min-score: must be a number from 0 to 1"),
            (["-m", "ap", "--profile", "nope"], "--profile: judge exact has the profiles"),
        ],
    )
    def test_says_in_one_line_what_is_wrong(self, judged, arguments, message):
        done = judged(*self.command, *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"judged: {message}")
        assert done.stderr.count("\n") == 1

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("dataset.json", '{"queries": [{"id": "q1"}]}', "dataset.json: queries[0] has no 'que"),
            ("dataset.json", "", 'dataset.json: is empty; a data set is {"queries": [{"query_id"'),
            ("dataset.json", "{}", 'dataset.json: has no "queries"; a data set is {"queries"'),
            ("results.jsonl", '{"query_id": "q1"}', 'results.jsonl:1: has no "results"'),
            (
                "results.jsonl",
                '{"query_id": "q1", "results": [{"doc_id": "d3"}]}',
                "query 'q1', result 1 (doc_id 'd3') has no text to judge",
            ),
            ("results.jsonl", "", "the results hold no query"),
            (
                "results.jsonl",
                '{"query_id": "7", "results": []}',
                "no query of the results is in the dataset: '7' is one of the results, 'q1' one",
            ),
        ],
    )
    def test_names_the_place_in_a_bad_file(self, judged, folder, name, text, message):
        (folder / name).write_text(text)
        done = judged(*self.command, "-m", "ap")
        assert done.returncode == 2
        assert done.stderr.startswith(f"judged: {message}")

    def test_names_the_result_that_the_server_refuses(self, judged, folder):
        huge = {"query_id": "q1", "results": [{"text": "a"}, {"text": "x" * (2 << 20)}]}
        (folder / "results.jsonl").write_text(json.dumps(huge))
        done = judged(*self.command, "-m", "ap")
        assert done.returncode == 2
        assert "judged: query 'q1', result 2: 2097152 bytes" in done.stderr

    @pytest.mark.parametrize("missing", ["--metric", "--results"])
    def test_must_have_metrics_and_results(self, judged, missing):
        given = {"--metric": "ap", "--results": "results.jsonl"}
        del given[missing]
        done = judged("evaluate", "dataset.json", *next(iter(given.items())))
        assert done.returncode == 2
        assert f"Missing option '{missing}'" in done.stderr


class TestMetrics:
    command = ("metrics", "--qrels", "qrels.txt", "--run", "run.txt")

    def test_measures_as_trec_eval_does(self, judged):
        done = judged(
            *self.command, "-m", "precision@2", "-m", "mrr", "-m", "recall", "--json", "-"
        )
        assert done.returncode == 0
        document = json.loads(done.stdout)
        # By score d2 comes before d1, whatever the ranks say; d3 was not found.
        assert document["per_query"] == {"301": {"precision@2": 0.5, "mrr": 0.5, "recall": 0.5}}
        assert document["counts"]["skipped_missing"] == 1
        assert document["counts"]["verdicts"] is None
        assert document["signature"] is None
        assert "1 topic of the qrels left out: not in the run" in done.stderr

    def test_counts_missing_topics_as_0_on_request(self, judged):
        done = judged(*self.command, "-m", "mrr", "--complete", "--strict", "--json", "-")
        assert done.returncode == 0
        assert json.loads(done.stdout)["metrics"]["mrr"]["mean"] == 0.25
        assert done.stderr == ""

    def test_prints_a_table_with_every_query_on_request(self, judged):
        done = judged(*self.command, "-m", "ndcg@10", "--per-query")
        rows = [line.split() for line in done.stdout.splitlines()]
        assert ["query", "ndcg@10"] in rows
        assert ["metric", "mean", "n"] in rows
        assert "1 of 2 queries, 3 results" in done.stdout

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
            done = judged(*self.command, "-m", "mrr", flag, "0")
            assert done.returncode == 2
            assert flag in done.stderr

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
        done = judged(*self.command, "-m", "mrr", "--confidence", "95")
        assert done.returncode == 2
        assert "Invalid value for '--confidence'" in done.stderr

    def test_reads_gzip_and_counts_repeats(self, judged, folder):
        more = RUN + "301 Q0 d1 4 0.05 t\n"
        (folder / "run.txt").write_bytes(gzip.compress(more.encode()))
        done = judged(*self.command, "-m", "mrr", "--complete", "--strict", "--json", "-")
        assert done.returncode == 1
        assert json.loads(done.stdout)["counts"]["duplicates"] == 1
        assert "1 repeated result dropped" in done.stderr

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("qrels.txt", "301 0 d1\n", "qrels.txt:1: has 3 columns instead of 4"),
            ("qrels.txt", "301 0 d1 yes\n", "qrels.txt:1: the grade 'yes' is not a whole number"),
            ("qrels.txt", "", "qrels.txt: holds no judgement"),
            ("run.txt", "\n301 Q0 d1 1 nan t\n", "run.txt:2: the score 'nan' is not a finite"),
            ("run.txt", "999 Q0 d1 1 1 t\n", "qrels and run have no topic in common: '301' is"),
        ],
    )
    def test_names_file_and_line(self, judged, folder, name, text, message):
        (folder / name).write_text(text)
        done = judged(*self.command, "-m", "ap")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"judged: {message}")

    def test_refuses_a_seed_that_no_message_holds(self, judged):
        done = judged(*self.command, "-m", "ap", "--seed", str(2**64))
        assert (done.returncode, done.stdout) == (2, "")
        assert "'--seed'" in done.stderr

    def test_warns_where_an_interval_can_not_be(self, judged, folder):
        (folder / "qrels.txt").write_text("301 0 d1 1\n")
        done = judged(*self.command, "-m", "ap", "--interval", "t")
        assert "interval: there is none where fewer than two queries" in done.stderr

    @pytest.mark.parametrize(
        ("metric", "ours"),
        [("map_cut_5", "ap"), ("P_10", "precision"), ("recip_rank", "mrr"), ("success@1", "hit")],
    )
    def test_knows_what_trec_eval_calls_a_metric(self, judged, metric, ours):
        done = judged(*self.command, "-m", metric)
        assert done.returncode == 2
        assert f"; did you mean {ours}" in done.stderr

    def test_names_a_file_that_is_not_there(self, judged):
        done = judged("metrics", "--qrels", "nowhere", "--run", "run.txt", "-m", "ap")
        assert done.returncode == 2
        assert done.stderr == "judged: nowhere: there is no such file\n"
