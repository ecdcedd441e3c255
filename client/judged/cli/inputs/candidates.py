"""Files of several systems' answers: a line an answer, {query_id, query, system, answer}."""

from __future__ import annotations

from judged.cli.inputs.lines import input_records, name_of
from judged.evaluation import CandidateAnswer, FileError

_FIELDS = ("query_id", "query", "system", "answer", "references", "contexts")
_EXAMPLE = '{"query_id": "q1", "query": "What is RAG?", "system": "mine", "answer": "A method."}'


def read_candidates(path: str) -> list[CandidateAnswer]:
    """Return the answers of a file, or of standard input for "-". Raises FileError.

    Answers without a query id belong together where their queries are equal.
    """
    found: list[CandidateAnswer] = []
    line_of: dict[tuple[str, str], int] = {}
    query_of: dict[str, str] = {}
    for number, line in input_records(path, *_FIELDS):
        try:
            query, system = line.text("query"), line.identifier("system")
            answer = line.text("answer")
        except FileError as error:
            shape = f"write a line for each system's answer: {_EXAMPLE}"
            raise FileError(name_of(path), number, f"{error.problem}; {shape}") from None
        query_id = line.optional_identifier("query_id") or query
        if (query_id, system) in line_of:
            before = line_of[query_id, system]
            raise line.error(f"is a second answer of {system!r} to that query; see line {before}")
        if query_of.setdefault(query_id, query) != query:
            raise line.error(f"has another query under the id {query_id!r} than a line before it")
        line_of[query_id, system] = number
        found.append(
            CandidateAnswer(
                query_id,
                system,
                query,
                answer,
                line.texts("references"),
                line.texts("contexts"),
            )
        )
    if len({one.system for one in found}) < 2:
        problem = f"holds no two systems; write a line for each system's answer: {_EXAMPLE}"
        raise FileError(name_of(path), None, problem)
    return found
