"""Queries with results that are read from their file as they are needed."""

import gzip
import json
import os
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from judged.cli.inputs import ReadQueries
from judged.evaluation import Dataset, FileError, Results
from judged.evaluation.datasets.fit import Fit


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
def test_groups_and_fit_are_those_of_results_in_memory(tmp_path, seed):
    rng = random.Random(seed)
    queries, lines, documents = random_world(rng)
    rng.shuffle(lines)
    lines.append({"query_id": "other", "results": []})
    dataset, results = write(tmp_path, queries, lines, documents)
    by_spans = rng.choice([None, None, True]) if seed % 2 else None
    whole, held = Dataset.load(dataset), Results.from_jsonl(results)
    try:
        groups = whole.to_groups(held, by_spans=by_spans)
    except ValueError as error:
        with pytest.raises(type(error), match=re.escape(str(error))):
            ReadQueries(dataset, results, by_spans=by_spans)
        return
    found = ReadQueries(dataset, results, by_spans=by_spans)
    for _ in range(2):
        assert list(found) == groups
    assert [list(ranked) for _, _, ranked in found.queries()] == [
        list(held.get(query.query_id, ())) for query in whole.queries
    ]
    assert found.fit == Fit.of([q.query_id for q in whole.queries], held, held.out_of_order)
    assert found.n_contexts == sum(group.n_expected * group.n_retrieved for group in groups)
    assert list(found.system_models) == list(held.system_models)
    assert found.query_id(len(groups) - 1) == groups[-1].query_id


QUERY = {"query_id": "1", "query_text": "q", "expected_answers": ["a"]}
LINE = {"query_id": "1", "results": [{"text": "t"}]}


@pytest.mark.parametrize(
    ("queries", "lines", "problem"),
    [
        ([QUERY, QUERY], [LINE], "earlier query"),
        ([QUERY], [LINE, LINE], ":2: query '1' was on line 1 already"),
        ([], [LINE], "has no query"),
        ([{"query_id": "1", "query_text": "q"}], [LINE], "no query says what it should find"),
        ([QUERY], [{"query_id": "1"}], 'has no "results"'),
        ([QUERY], [{"query_id": "1", "results": [{}]}], "has no text to judge"),
        ([QUERY | {"expected_doc_ids": ["d"]}], [LINE], "has no doc_id"),
    ],
)
def test_what_is_wrong_in_either_file_is_told_first(tmp_path, queries, lines, problem):
    with pytest.raises((FileError, ValueError), match=problem):
        ReadQueries(*write(tmp_path, queries, lines), by_spans=None)


def test_pipes_and_compressed_results_are_held(tmp_path):
    dataset, results = write(tmp_path, [QUERY], [LINE])
    content = Path(results).read_bytes()
    packed, pipe = tmp_path / "results.jsonl.gz", tmp_path / "pipe"
    packed.write_bytes(gzip.compress(content))
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as writer:
        writer.submit(pipe.write_bytes, content)
        for path in (results, packed, pipe):
            found = ReadQueries(dataset, str(path), by_spans=None)
            assert [len(group.retrieved) for group in found] == [1]


def test_blank_lines_and_a_byte_order_mark_are_no_results(tmp_path):
    dataset, results = write(tmp_path, [QUERY, QUERY | {"query_id": "2"}], [])
    other = json.dumps(LINE | {"query_id": "2"})
    Path(results).write_bytes(f"\ufeff\n{other}\r\n\n \n{json.dumps(LINE)}".encode())
    assert [len(group.retrieved) for group in ReadQueries(dataset, results, by_spans=None)] == [
        1,
        1,
    ]


def test_a_file_that_changes_meanwhile_is_refused(tmp_path):
    dataset, results = write(
        tmp_path, [QUERY, QUERY | {"query_id": "2"}], [LINE, LINE | {"query_id": "2"}]
    )
    found = ReadQueries(dataset, results, by_spans=None)
    Path(results).write_text(json.dumps(LINE | {"query_id": "2"}))
    with pytest.raises(FileError, match="was changed while it was read"):
        list(found)
