import json

from judged.cli.commands.ci import for_github, for_gitlab, lines_of_queries

DATASET = {"queries": [{"query_id": "a", "query_text": 'says "query_id": "z"'}, {"id": 7}]}


def test_ids_stand_on_their_lines():
    assert lines_of_queries(json.dumps(DATASET, indent=1).encode()) == {"a": 4, "7": 8}
    assert lines_of_queries(json.dumps(DATASET).encode()) == {"a": 1, "7": 1}
    assert lines_of_queries(b'{"query_id": "a"}\n{"query_id": "\\u00e9"}\n') == {"a": 1, "é": 2}


def test_what_is_said_ends_no_command_of_github():
    lines = for_github("a,b:c.json", {"q\n": 3}, [("q\n", "fell\n::error::%")])
    assert lines == [
        "::warning file=a%2Cb%3Ac.json,line=3,title=judged%3A q%0A::fell%0A::error::%25"
    ]


def test_github_gets_ten_gitlab_all():
    annotations = [(f"q{n}", "fell") for n in range(30)]
    assert len(for_github("d.json", {}, annotations)) == 10
    assert len(for_gitlab("d.json", {}, annotations)) == 30
