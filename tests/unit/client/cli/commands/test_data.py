import json

import pytest
from judged.cli.app import run
from judged.evaluation import Dataset, Query


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    queries = [
        Query(f"q{i}", f"question {'x' * i}", [f"a, {i}"], metadata={"kind": str(i % 2)})
        for i in range(40)
    ]
    Dataset(queries).save("set.json")
    return tmp_path


def test_convert_goes_there_and_back(folder, capsys):
    assert run(["convert", "set.json", "a.csv"]) == 0
    assert run(["convert", "a.csv", "b.json"]) == 0
    assert (folder / "b.json").read_text() == (folder / "set.json").read_text()
    assert run(["convert", "set.json", "a.qrels", "--strict"]) == 1
    assert "the rest is left out" in capsys.readouterr().err
    assert run(["convert", "set.json", "beir"]) == 2
    assert run(["convert", "set.json", "set.json"]) == 2


def test_the_json_document_says_what_was_read_and_written(folder, capsys):
    def document(*arguments, status=0):
        assert run([*arguments, "--json", "-"]) == status
        return json.loads(capsys.readouterr().out)

    whole = {"path": "set.json", "format": "json", "queries": 40, "documents": 0}
    found = document("convert", "set.json", "a.qrels", "--strict", status=1)
    (lost,) = found["written"][0].pop("cannot_hold")
    assert found["read"] == [whole]
    assert found["written"] == [{**whole, "path": "a.qrels", "format": "trec"}]
    assert found["warnings"] == [f"a.qrels: {lost}"]


def test_validate_tells_all_and_ends_by_what_it_found(folder, capsys):
    assert run(["validate", "set.json", "--json", "found.json"]) == 0
    assert json.loads((folder / "found.json").read_text())["findings"] == []
    (folder / "bad.csv").write_text("query,expected_answers\nwho,a\nwho,b\nx\n")
    assert run(["validate", "bad.csv"]) == 2
    told = capsys.readouterr()
    assert "bad.csv:4: has 1 cells" in told.err
    assert "2 queries, 0 documents, 1 error, 0 warnings" in told.out
    assert run(["validate", "set.xyz"]) == 2


def test_names_of_files_and_ids_reach_the_terminal_as_pictures(tmp_path, capsys):
    evil = "\x1b[31mred\x07"
    path = tmp_path / f"{evil}.jsonl"
    line = {"query_id": evil, "query_text": "", "expected_answers": []}
    path.write_text(json.dumps(line) + "\n" + json.dumps({**line, "query_text": evil}) + "\n")
    assert run(["validate", str(path)]) == 2
    assert run(["convert", str(path), str(tmp_path / f"{evil}.csv")]) == 2
    assert run(["report", str(path), "-o", str(tmp_path / "r.html")]) == 2
    assert run(["metrics", "--qrels", str(path), "--run", str(path), "-m", evil]) == 2
    told = "".join(capsys.readouterr())
    assert "\u241b[31mred" in told
    assert not set(told) & {"\x1b", "\x07"}
