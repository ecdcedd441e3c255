"""Judges and rubrics over Arrow tables, by real servers."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from judged import (
    AnswerItem,
    Asking,
    Client,
    FailedPrecondition,
    InvalidArgument,
    Judge,
    NotFound,
    QueryGroup,
    WrongType,
)
from judged.arrow import Judging, Scoring

from tests.fakes.providers.scripted_provider import ScriptedProvider
from tests.integration.clients.name_server import name_server
from tests.integration.llm.budgeted_server import say
from tests.integration.llm_config import priced
from tests.integration.server_process import running_server

script = say
LLM_MODELS = {"m": priced(1.0, 2.0)}
LLM_FLAGS = ("--max-text-bytes", "1000", "--llm-cache", "memory")
N = 3000
QUERY, GOLD, FOUND = [f"q{i}" for i in range(N)], ["a b c"] * N, ["a b c", "a b", "x"] * (N // 3)


def table(n: int = N, **columns: Any) -> Any:
    whole = {"id": list(range(n)), "query": QUERY[:n], "gold": GOLD[:n], "text": FOUND[:n]}
    return pa.table({**whole, **columns})


def judging(target: str, judge: Any = "token_overlap", **options: Any) -> Judging:
    return Judging(target, judge, **{"expected": "gold", "retrieved": "text", **options})


class TestJudging:
    def test_gives_each_row_the_verdict_of_the_client(self, target: str, client: Client):
        found = judging(target)(table())
        groups = map(QueryGroup, QUERY, [[gold] for gold in GOLD], [[text] for text in FOUND])
        verdicts = client.judge(groups, "token_overlap")
        assert found.schema.names == [
            "id",
            "status",
            "relevant",
            "score",
            "probability",
            "error",
            "source",
            "judge",
        ]
        assert found["id"].to_pylist() == list(range(N))
        assert found["score"].to_pylist() == list(verdicts.score)
        assert found["relevant"].to_pylist() == list(verdicts.relevant)
        assert set(found["status"].to_pylist()) == {"OK"}
        assert set(found["judge"].to_pylist()) == {verdicts.judge.signature}
        assert set(found["source"].to_pylist()) == {"COMPUTED"}
        assert found["error"].null_count == found["probability"].null_count == N

    def test_gives_what_it_gets(self, target: str):
        asked, whole = judging(target), judging(target)(table(6))
        batches = table(6).to_batches(max_chunksize=2)
        assert [type(one) for one in asked(iter(batches))] == [pa.RecordBatch] * 3
        assert pa.Table.from_batches(asked(iter(batches))) == whole
        with pytest.raises(WrongType, match="batch: must be a Table or RecordBatch of pyarrow"):
            asked([1])

    def test_takes_the_texts_that_arrow_has_and_keeps_the_type_of_the_id(self, target: str):
        kinds = [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
        for kind in kinds:
            given = table(3, text=pa.array(FOUND[:3], kind), id=pa.array(["a", "b", "c"]))
            found = judging(target)(given)
            assert found["relevant"].to_pylist() == [True, True, False]
            assert found["id"].to_pylist() == ["a", "b", "c"]

    @pytest.mark.parametrize("empty", [table(0), pa.table({}), table(0).to_batches()])
    def test_of_nothing_there_is_nothing(self, target: str, empty: Any):
        for batch in empty if isinstance(empty, list) else [empty]:
            found = judging(target)(batch)
            assert (found.num_rows, found.num_columns) == (0, 8)

    def test_a_poison_row_is_an_error_of_its_own(self, target: str):
        not_utf8 = pa.array([b"\xff"]).cast(pa.binary()).view(pa.binary())
        bad = pa.Array.from_buffers(pa.string(), 1, not_utf8.buffers())
        texts = pa.chunked_array([["a b c", None], bad, ["a" * 1001, "x"], FOUND[:N]])
        n = len(texts)
        given = pa.table(
            {
                "id": list(range(n)),
                "query": ["q"] * n,
                "gold": [" ", *["a b c"] * (n - 2), "a" * 1001],
                "text": texts,
            }
        )
        found = judging(target)(given)
        said = found["error"].to_pylist()
        wrong = {i: error for i, error in enumerate(said) if error is not None}
        assert wrong[0] == "INVALID_FIELD: gold: is null or blank"
        assert wrong[1] == "INVALID_FIELD: text: is null or blank"
        assert wrong[2].startswith("INVALID_FIELD: text: ")
        assert "which UTF-8 can't carry" in wrong[2]
        assert wrong[3].startswith("LIMIT_EXCEEDED: text: ")
        assert wrong[n - 1].startswith("LIMIT_EXCEEDED: gold: ")
        assert wrong.keys() == {0, 1, 2, 3, n - 1}
        assert {found["status"][i].as_py() for i in wrong} == {"ERROR"}
        relevant = [False, *[True, True, False] * (N // 3 - 1), True, True]
        assert found["relevant"].to_pylist()[4:-1] == relevant

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"text": [1, 2, 3]}, "text: must hold texts, not int64"),
            ({"id": [1.0, 2.0, 3.0]}, "id: must hold texts or whole numbers, not double"),
            ({"id": pa.nulls(3, pa.string_view())}, "id: must hold texts or whole numbers"),
            ({"id": [1, 2, 1]}, "id: is 1 in rows 0 and 2; give every row an id of its own"),
            ({"id": [1, None, 3]}, "id: is null in row 1; give every row an id"),
        ],
    )
    def test_refuses_a_column_by_its_name(self, target: str, given: Any, says: str):
        with pytest.raises(InvalidArgument) as caught:
            judging(target)(table(3, **given))
        assert str(caught.value).startswith(says)

    def test_refuses_what_is_wrong_of_the_whole(self, target: str):
        with pytest.raises(InvalidArgument, match="answer: the batch has no such column, but id, "):
            judging(target, retrieved="answer")(table(3))
        with pytest.raises(
            InvalidArgument, match=r"id: the result has a column 'score' of its own"
        ):
            judging(target, id="score")
        with pytest.raises(InvalidArgument, match="expected: the judge compares with an expected"):
            judging(target, expected=None)(table(3))
        with pytest.raises(NotFound):
            judging(target, "nobody")(table(3))

    def test_another_judge_is_refused(self, target: str):
        (signature,) = set(judging(target)(table(3))["judge"].to_pylist())
        assert judging(target, expect=signature)(table(3)).num_rows == 3
        with pytest.raises(
            FailedPrecondition, match="and not the one expected, token_overlap"
        ) as e:
            judging(target, "exact", expect=signature)(table(3))
        assert str(pickle.loads(pickle.dumps(e.value))) == str(e.value)  # noqa: S301

    @pytest.mark.parametrize("scheme", ["ipv4", "dns"])
    def test_another_judge_is_refused_on_whichever_replica(self, scheme: str):
        hosts = ["127.0.0.1", "127.0.0.2"]
        with (
            running_server("--default-judge", "exact") as one,
            name_server(hosts) as names,
        ):
            port = one.address.rpartition(":")[2]
            try:
                socket.create_server((hosts[1], int(port))).close()
            except OSError as error:
                pytest.skip(f"not run: no second address of this machine ({error})")
            second = f"{hosts[1]}:{port}"
            both = f"ipv4:{one.address},{second}"
            if scheme == "dns":
                both = f"dns://{names}/judged.test:{port}"
            asked = judging(one.address, None)
            (signature,) = set(asked(table(3))["judge"].to_pylist())
            strict = replace(asked, target=both, expect=signature)
            with (
                running_server("--default-judge", "token_overlap", listen=second),
                pytest.raises(
                    FailedPrecondition, match=rf"the judge at {scheme}:.* is token_overlap"
                ),
            ):
                for _ in range(200):
                    assert set(strict(table())["judge"].to_pylist()) == {signature}

    def test_rows_that_nobody_answered_are_left_out_and_told(self, nowhere: str):
        asked = judging(nowhere, timeout=0.5)
        with pytest.warns(UserWarning, match=r"3 of 3 rows without a verdict, to be asked again: "):
            assert asked(table(3)).num_rows == 0
        with pytest.warns(UserWarning, match="3 of 3 rows"):
            found = replace(asked, every_row=True)(table(3))
        assert found["status"].null_count == 3
        assert found["error"].null_count == 0

    def test_what_money_was_missing_for_is_asked_the_next_time_and_paid_once(
        self, target: str, provider: ScriptedProvider
    ):
        asked = judging(target, Judge("llm"), asking=Asking(max_cost=0.01), every_row=True)
        given = table(30, query=[f"money {i}" for i in range(30)])
        before = provider.requests
        with pytest.warns(UserWarning, match=r"of 30 rows without a verdict.*BUDGET"):
            status = asked(given)["status"].to_pylist()
        assert 0 < status.count("OK") < 30
        left = given.filter(pa.array([one is None for one in status]))
        rest = replace(asked, asking=None).ask(left)
        assert rest.table["status"].to_pylist() == ["OK"] * left.num_rows
        assert not rest.missing
        assert rest.usage.calls == left.num_rows
        assert provider.requests - before == 30

    def test_without_expected_texts_it_is_a_judge_that_needs_none(self, target: str):
        relevance = Judge("llm", parameters={"rubric": "graded_relevance"})
        given = table(3).drop_columns(["gold"])
        found = judging(target, relevance, expected=None)(given)
        assert set(found["status"].to_pylist()) == {"OK"}


class TestScoring:
    def test_gives_each_row_the_score_of_the_client(self, target: str, client: Client):
        texts = [f"answer {i}" for i in range(20)]
        given = pa.table(
            {
                "key": texts,
                "query": ["q"] * 20,
                "answer": [*texts[:-2], "", None],
                "found": [["a text", "another"]] * 19 + [None],
            }
        )
        found = Scoring(target, "faithfulness", id="key", contexts="found")(given)
        items = [AnswerItem(t, "q", t, contexts=["a text", "another"]) for t in texts[:-2]]
        scored = client.score_answers(items, ["faithfulness"])
        assert found.schema.names[:3] == ["key", "status", "passed"]
        assert found["key"].to_pylist() == texts
        assert found["score"].to_pylist()[:-2] == [score.score for score in scored]
        assert found["passed"].to_pylist()[:-2] == [score.passed for score in scored]
        assert found["judge"].to_pylist()[0] == scored[0].judge.signature
        assert found["status"].to_pylist()[-2:] == ["NOT_ASSESSABLE", "ERROR"]
        assert found["error"].to_pylist()[-1] == "INVALID_FIELD: answer: is null or blank"

    def test_a_refused_item_is_an_error_of_its_own(self, target: str):
        given = pa.table({"id": [1, 2], "query": ["q", "q"], "answer": ["a" * 1001, "so it is"]})
        found = Scoring(target, "answer_relevance")(given)
        assert found["status"].to_pylist() == ["ERROR", "OK"]
        assert found["error"].to_pylist()[0].startswith("LIMIT_EXCEEDED: answer: ")

    def test_a_refused_item_spends_nothing_beyond_a_limit(
        self, target: str, provider: ScriptedProvider
    ):
        answers = [f"{i} " + "a" * 950 for i in range(3500)] + ["a" * 1001]  # two messages
        given = pa.table({"id": range(3501), "query": ["q"] * 3501, "answer": answers})
        asking, before = Asking(max_cost=0.01), provider.requests
        found = Scoring(target, "answer_relevance", asking=asking, every_row=True).ask(given)
        assert found.table["error"].to_pylist()[-1].startswith("LIMIT_EXCEEDED: answer: ")
        assert 0 < found.usage.cost <= 0.01
        assert 0 < found.usage.calls == provider.requests - before


FORKS = """
import multiprocessing, sys
from tests.integration.clients.test_arrow import judging, table
with multiprocessing.get_context("fork").Pool(2) as pool:
    found = pool.map(judging(sys.argv[1]), [table(3)] * 4)
print({one.num_rows for one in found})
"""


class TestProcesses:
    def test_a_server_of_its_own_ends_with_the_process(self):
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn) as pool:
            found = pool.submit(judging("local"), table(3)).result()
            address = pool.submit(_local_address).result()
        assert found["relevant"].to_pylist() == [True, True, False]
        assert not os.path.exists(address.removeprefix("unix:"))  # noqa: PTH110

    def test_each_fork_has_a_client_of_its_own(self, target: str):
        done = subprocess.run(
            [sys.executable, "-c", FORKS, target], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "{3}"


def _local_address() -> str:
    from judged import arrow

    return arrow._client("local", None).target
