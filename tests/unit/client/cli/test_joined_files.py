"""Queries and results joined from files are those that are joined in memory."""

import gzip
import json
import os
import random

import pytest
from judged.cli.inputs import ReadQueries
from judged.evaluation.datasets.joined_files import JoinedFiles, ReadWhole


def write(folder, queries, lines, documents=None):
    dataset, results = folder / "dataset.json", folder / "results.jsonl"
    held = (
        {"queries": queries} if documents is None else {"queries": queries, "documents": documents}
    )
    dataset.write_text(json.dumps(held), encoding="utf-8")
    results.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return str(dataset), str(results)


def random_world(rng):
    """Queries by answers, ids and spans; lines in any order, some missing, some unknown."""
    by_spans = rng.random() < 0.2
    queries, lines = [], []
    for number in range(rng.randint(1, 30)):
        query = {"query_id": rng.choice([f"q{number}", number]), "query_text": f"what is ü{number}"}
        kind = rng.choice(["answers", "ids", "nothing"])
        if by_spans:
            query["expected_spans"] = [{"file": "f", "start": 0, "end": rng.randint(1, 9)}]
        elif kind == "answers":
            query["expected_answers"] = [f"answer {n}" for n in range(rng.randint(1, 3))]
        elif kind == "ids":
            query["expected_doc_ids"] = ["d1", 2]
        if rng.random() < 0.3:
            query["negative_answers"] = ["never"]
            query["metadata"] = {"topic": rng.choice("ab")}
        queries.append(query)
        found = [
            {
                "doc_id": rng.choice(["d1", "d2", 3]),
                "score": rng.random(),
                "span": {"file": "f", "start": n, "end": n + 2},
                **({} if rng.random() < 0.3 else {"text": f"text {rng.randint(0, 2)}"}),
            }
            for n in range(rng.randint(0, 4))
        ]
        if rng.random() < 0.9:
            lines.append({"query_id": query["query_id"], "results": found})
    for number, line in enumerate(lines[: rng.randint(0, 2)]):
        line["system_model"] = f"m{number}"
    documents = [{"doc_id": name, "text": f"document {name}"} for name in ("d1", "d2", 3)]
    return queries, lines, documents


@pytest.mark.parametrize("seed", range(40))
def test_groups_results_and_fit_are_those_of_a_whole_reading(tmp_path, seed):
    rng = random.Random(seed)
    paths = write(tmp_path, *random_world(rng))
    by_spans = rng.choice([None, None, True]) if seed % 2 else None
    try:
        whole = ReadQueries(*paths, by_spans=by_spans)
    except ValueError:
        with pytest.raises(ReadWhole):
            JoinedFiles(*paths, by_spans=by_spans)
        return
    joined = JoinedFiles(*paths, by_spans=by_spans)
    for _ in range(2):
        assert list(joined) == list(joined.groups) == whole.groups
    assert [(q, g, list(r)) for q, g, r in joined.queries()] == [
        (q, g, list(r)) for q, g, r in whole.queries()
    ]
    assert joined.fit == whole.fit
    assert joined.n_contexts == whole.n_contexts
    assert list(joined.system_models) == list(whole.system_models)
    last = len(whole.groups) - 1
    assert joined.query_id(last) == whole.query_id(last)


QUERY = {"query_id": "1", "query_text": "q", "expected_answers": ["a"]}
LINE = {"query_id": "1", "results": [{"text": "t"}]}


@pytest.mark.parametrize(
    ("queries", "lines"),
    [
        ([QUERY, QUERY], [LINE]),
        ([QUERY], [LINE, LINE]),
        ([], [LINE]),
        ([{"query_id": "1"}], [LINE]),
        ([QUERY], [{"query_id": "1"}]),
        ([QUERY], [{"query_id": "1", "results": [{}]}]),
        ([QUERY | {"expected_answers": [], "expected_doc_ids": ["d"]}], [LINE]),
    ],
)
def test_what_is_wrong_is_told_by_the_whole_reading(tmp_path, queries, lines):
    paths = write(tmp_path, queries, lines)
    with pytest.raises(ReadWhole):
        JoinedFiles(*paths, by_spans=None)
    with pytest.raises(Exception, match=r"query|queries") as caught:
        ReadQueries(*paths, by_spans=None)
    assert not isinstance(caught.value, ReadWhole)


@pytest.mark.parametrize("ids", ["21", "1x", "x1", "2x1"])
def test_lines_in_another_order_or_of_no_query_are_read_whole(tmp_path, ids):
    paths = write(
        tmp_path, [QUERY, QUERY | {"query_id": "2"}], [LINE | {"query_id": name} for name in ids]
    )
    with pytest.raises(ReadWhole):
        JoinedFiles(*paths, by_spans=None)
    assert ReadQueries(*paths, by_spans=None).fit.n_results == len(ids)


def test_a_pipe_is_read_whole_and_compressed_files_are_not(tmp_path):
    dataset, results = write(tmp_path, [QUERY], [LINE])
    packed = tmp_path / "results.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "results.jsonl").read_bytes()))
    assert [group.query_id for group in JoinedFiles(dataset, packed, by_spans=None)] == ["1"]
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ReadWhole):
        JoinedFiles(dataset, tmp_path / "pipe", by_spans=None)
    packed = tmp_path / "dataset.json.gz"
    packed.write_bytes(gzip.compress((tmp_path / "dataset.json").read_bytes()))
    assert [group.query_id for group in JoinedFiles(packed, results, by_spans=None)] == ["1"]
