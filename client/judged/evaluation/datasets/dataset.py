"""Data sets: queries with expectations, joining them with results, and file formats.

Tables are in `tables`, TREC files in `trec`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

from judged._files import (
    FileError,
    FileWarning,
    KnownFields,
    Record,
    json_line,
    read_bytes,
    read_records,
    replace_text,
    replacing_text,
    writing,
)
from judged._inputs import as_list, need_by_ids, set_fields
from judged._views import View
from judged.evaluation.datasets.query import (
    DOCUMENT_FIELDS,
    QUERY_FIELDS,
    Content,
    Document,
    Query,
    Results,
    Retrieved,
    distinct,
    read_document,
    read_query,
    write_document,
    write_query,
)
from judged.evaluation.datasets.tables import read_csv, read_rows, write_csv
from judged.evaluation.datasets.trec import read_beir_qrels, read_qrels
from judged.values import QueryGroup, Spans

SHAPE = 'a data set is {"queries": [{"query_id", "query_text", "expected_answers"}, ...]}'


def _read_json(path: Path | str, content: Content) -> None:
    """Read an object of "queries" and "documents", in Evret's layout."""
    name, raw = str(path), read_bytes(path)
    if not raw.strip():
        raise FileError(name, None, f"is empty; {SHAPE}")
    root = Record.parse(raw, name, None)
    if root.get("queries") is None:
        raise root.error(f'has no "queries"; {SHAPE}')
    KnownFields("queries", "documents").check(root)
    for part, read, known in (
        ("queries", read_query, KnownFields(*QUERY_FIELDS)),
        ("documents", read_document, KnownFields(*DOCUMENT_FIELDS)),
    ):
        for index, value in enumerate(root.items(part)):
            content.take(record := Record(value, name, None, f"{part}[{index}]"), read)
            known.check(record)
    if not (content.queries or content.problems):
        content.refuse(root.error(f"has no query; {SHAPE}"))


def _write_json(path: Path, queries: Sequence[Query], documents: Sequence[Document]) -> None:
    document: dict[str, object] = {"queries": [write_query(query) for query in queries]}
    if documents:
        document["documents"] = [write_document(each) for each in documents]
    replace_text(path, json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def _read_jsonl(path: Path | str, content: Content) -> None:
    """Read a query or a document per line: a line with a doc_id is a document."""
    known, inner = KnownFields(*QUERY_FIELDS), KnownFields("doc_id", "text", "metadata")
    for record in read_records(path):
        if record.get("doc_id") is not None and record.get("query_text", "query") is None:
            content.take(record, read_document)
            inner.check(record)
        else:
            content.take(record, read_query)
            known.check(record)


def _write_jsonl(path: Path, queries: Sequence[Query], documents: Sequence[Document]) -> None:
    with replacing_text(path) as file:
        file.writelines(json_line(write_query(query)) for query in queries)
        file.writelines(json_line(write_document(document)) for document in documents)


def read_beir(path: Path | str, content: Content, split: str = "test") -> None:
    """Read a BEIR folder, with the queries that the split judges. Raises FileError.

    Thakur et al., BEIR, 2021; https://github.com/beir-cellar/beir. Grades above 0 are relevant.
    """
    folder = Path(path)
    qrels = folder / "qrels" / f"{split}.tsv"
    judged = read_beir_qrels(qrels, content.refuse)
    missing = dict.fromkeys(judged)

    def query_of(record: Record) -> Query | None:
        query_id = record.identifier("_id")
        if query_id not in judged:
            return None
        missing.pop(query_id, None)
        text, grades = record.text("text"), judged[query_id]
        return Query(query_id, text, metadata=record.labels("metadata"), grades=grades)

    def document_of(record: Record) -> Document:
        title, text = record.optional_text("title"), record.text("text")
        metadata = record.fields_of("metadata")
        # BEIR's own retrievers join title and text.
        return Document(record.identifier("_id"), f"{title}\n{text}" if title else text, metadata)

    for record in read_records(folder / "queries.jsonl"):
        content.take(record, query_of)
    for query_id in missing:
        problem = f"judges query {query_id!r}, which queries.jsonl lacks"
        content.refuse(FileError(str(qrels), None, problem))
    for record in read_records(folder / "corpus.jsonl"):
        content.take(record, document_of)


_RAGAS = (
    "user_input question reference ground_truth reference_contexts reference_context_ids "
    "retrieved_contexts retrieved_context_ids"
)
"""The fields of samples that are read, and two that are known and not read."""


def _read_ragas(path: Path | str, content: Content) -> None:
    """Read Ragas samples as the queries q1, q2, …; their retrieved contexts are ignored.

    `EvaluationDataset.to_jsonl` writes them; the names `question` and `ground_truth` of Ragas 0.1
    are read too. Expected answers are the reference contexts, or the reference if there are none.
    """
    numbers = count(1)

    def query_of(sample: Record) -> Query:
        query_id = f"q{next(numbers)}"
        reference = sample.optional_text("reference") or sample.optional_text("ground_truth")
        expected = distinct(sample.texts("reference_contexts")) or [reference or ""]
        ids = sample.identifiers("reference_context_ids")
        return Query(query_id, sample.text("user_input", "question"), expected, ids)

    known = KnownFields(*_RAGAS.split())
    for sample in read_records(path):
        known.check(sample)
        content.take(sample, query_of)


def _read_trec(path: Path | str, content: Content) -> None:
    for topic, grades in read_qrels(path).items():
        content.add(Record({}, str(path), None, ""), Query(topic, "", grades=grades))


def _write_trec(path: Path, queries: Sequence[Query], _: Sequence[Document]) -> None:
    lines = []
    for query in queries:
        graded = query.judged_documents
        for name in (query.query_id, *graded):
            if name.split() != [name]:
                problem = f"can't hold the id {name!r}: TREC's columns end at white space"
                raise FileError(str(path), None, problem)
        lines += [f"{query.query_id} 0 {name} {grade}\n" for name, grade in graded.items()]
    replace_text(path, "".join(lines))


@dataclass(frozen=True, slots=True)
class Format:
    """The reader of a format into a Content, and its writer, if any.

    `holds` says which part of a data set the format keeps; "" for all of it.
    """

    read: Callable[[Path | str, Content], object]
    write: Callable[[Path, Sequence[Query], Sequence[Document]], object] | None = None
    suffixes: Sequence[str] = ()
    holds: str = ""


_ALL = "queries"
_IDS = "the ids of queries and of judged documents, with grades"
FORMATS: Mapping[str, Format] = {
    "json": Format(_read_json, _write_json, ["json"]),
    "jsonl": Format(_read_jsonl, _write_jsonl, ["jsonl", "ndjson"]),
    "csv": Format(read_csv, write_csv, ["csv"], _ALL),
    "tsv": Format(
        partial(read_csv, delimiter="\t"), partial(write_csv, delimiter="\t"), ["tsv"], _ALL
    ),
    "beir": Format(read_beir),
    "ragas": Format(_read_ragas),
    "trec": Format(_read_trec, _write_trec, ["qrels", "qrel"], _IDS),
}


def format_of(path: Path | str, name: str | None = None) -> str:
    """Return the name of the format of a path. Raises FileError if it is unknown."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    if name is None and (Path(path).is_dir() or not suffix):
        return "beir"
    for known, of in FORMATS.items():
        if known == name or (name is None and suffix in of.suffixes):
            return known
    names = ", ".join(FORMATS)
    raise FileError(str(path), None, f"{name or suffix!r} is no format; name one of {names}")


def read_content(
    path: Path | str, name: str | None = None, problems: list[FileError] | None = None
) -> Content:
    """Return the content of a file or a folder. Raises FileError, or adds it to `problems`."""
    if not Path(path).exists():
        raise FileError(str(path), None, "there is no such file or folder")
    content = Content(problems=problems)
    FORMATS[format_of(path, name)].read(path, content)
    return content


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding about a data set: an error, which keeps it from being read, or a remark."""

    text: str
    is_error: bool


def validate(path: Path | str, format_name: str | None = None) -> tuple[Content, list[Finding]]:
    """Return what could be read of a data set, and all findings, errors first.

    Errors are in the order of the file. Raises FileError for no data set.
    """
    problems: list[FileError] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FileWarning)
        content = read_content(path, format_name, problems)
    findings = [Finding(str(problem), is_error=True) for problem in problems]
    remarks = dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, FileWarning))
    findings += [Finding(text, is_error=False) for text in remarks]
    if not content.queries and not problems:
        findings.append(Finding(f"{path}: has no query", is_error=True))
    findings += [Finding(text, is_error=False) for text in _remarks(content)]
    return content, findings


def _remarks(content: Content) -> Iterator[str]:
    for query in content.queries.values():
        at = f"{content.places.get(query.query_id, '')}: query {query.query_id!r}"
        if not query.text.strip():
            yield f"{at} has no text; only matching by id can use it"
        if not (query.expected_answers or query.by_id or query.expected_spans):
            yield (
                f"{at} expects nothing and is left out of every metric; give it "
                "expected_answers, expected_doc_ids or expected_spans"
            )
        if set(query.expected_answers) & set(query.negative_answers):
            yield f"{at} has an answer that is expected and negative at once; remove one of them"
        unknown = [name for name in query.relevant_document_ids if name not in content.documents]
        if content.documents and unknown:
            yield (
                f"{at} expects document {unknown[0]!r}, which is not among the documents; "
                "add it, or correct the id"
            )


class MissingText(ValueError):
    """A result lacks the text, span or id that its query is measured by; the message names it."""

    __module__ = "judged.evaluation"


@dataclass(frozen=True, slots=True, repr=False)
class Dataset(View):
    """Queries, and documents by id, which supply the texts of results that have none."""

    queries: Sequence[Query]
    documents: Mapping[str, Document] = field(default_factory=dict)

    def __post_init__(self) -> None:
        documents = need_by_ids(self.documents, "documents")
        set_fields(self, queries=as_list(self.queries), documents=documents)

    @classmethod
    def load(cls, path: Path | str, format_name: str | None = None) -> Dataset:
        """Return the data set of a file or a folder; see docs/datasets.md for the formats.

        Without a name, the suffix of the path decides the format: .json, .jsonl, .csv, .tsv,
        .qrels; a folder is in BEIR's format. Raises FileError.
        """
        return dataset_of(read_content(path, format_name), str(path))

    @classmethod
    def from_json(cls, path: Path | str) -> Dataset:
        """Return the data set of a file in Evret's layout. Raises FileError.

            {"queries": [{"query_id", "query_text", "expected_answers", "expected_doc_ids",
                          "expected_spans": [{"file", "start", "end"}], "negative_answers",
                          "metadata"}],
             "documents": [{"doc_id", "text", "metadata"}]}

        Other names are read too: "id" and "query"; "expected_text" and "expected_alternatives" for
        answers; "relevant_doc_ids" and "relevant_docs" for ids. Other fields are ignored, as are
        lists and objects in a query's metadata, repeated answers, ids and spans, and blank answers
        and ids.
        """
        return cls.load(path, "json")

    @classmethod
    def from_jsonl(cls, path: Path | str) -> Dataset:
        """Return the data set of a file with a query or a document per line. Raises FileError."""
        return cls.load(path, "jsonl")

    @classmethod
    def from_csv(cls, path: Path | str) -> Dataset:
        """Return the data set of a table with a query per row. Raises FileError.

        The columns are the fields of `from_json`, with lists as JSON. A cell of answers that is not
        a JSON list is one answer, even with commas. Other columns are metadata.
        """
        return cls.load(path, "csv")

    @classmethod
    def from_beir(cls, path: Path | str, split: str = "test") -> Dataset:
        """Return the data set of a BEIR folder, with its corpus. Raises FileError."""
        content = Content()
        read_beir(path, content, split)
        return dataset_of(content, str(path))

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, object]]) -> Dataset:
        """Return the data set of rows, such as Hugging Face `datasets` or a DataFrame's records.

        Columns are those of `from_csv`; lists may be Python lists. Raises FileError with the row.
        """
        content = Content()
        read_rows(rows, content)
        return dataset_of(content, "rows")

    def save(self, path: Path | str, format_name: str | None = None) -> list[str]:
        """Write the data set; return readable remarks on what the format can't hold.

        The format is chosen as in `load`. Raises FileError if it can't be written.
        """
        written_as = format_of(path, format_name)
        of = FORMATS[written_as]
        if of.write is None:
            known = ", ".join(each for each, of in FORMATS.items() if of.write is not None)
            raise FileError(str(path), None, f"{written_as} is only read; write one of {known}")
        with writing(path):
            of.write(Path(path), self.queries, list(self.documents.values()))
        if not of.holds:
            return []
        if not self.documents and (of.holds != _IDS or all(map(_is_ids_alone, self.queries))):
            return []
        return [f"{written_as} holds {of.holds}; the rest is left out"]

    def to_groups(
        self, results: Mapping[str, Sequence[Retrieved]], *, by_spans: bool | None = None
    ) -> list[QueryGroup]:
        """Return one group per query, in order; a query without results retrieved nothing.

        Groups have spans if `by_spans` is true, texts if false; with None, what the data set has,
        or texts if it has both. Raises MissingText for a result that can't be judged or matched.
        """
        joined = join_results(self, Results.of(results), by_spans=by_spans)
        return [group for _, group, _ in joined]


def join_results(
    dataset: Dataset, results: Mapping[str, Sequence[Retrieved]], *, by_spans: bool | None
) -> Iterator[tuple[Query, QueryGroup, Sequence[Retrieved]]]:
    """Yield each query with its group and its results, lazily; see `Dataset.to_groups`."""
    if by_spans is None:
        by_spans = not any(query.expected_answers for query in dataset.queries)
        by_spans = by_spans and any(query.expected_spans for query in dataset.queries)
    for query in dataset.queries:
        ranked = results.get(query.query_id, ())
        by_id, spanned = query.by_id, by_spans and not query.by_id
        texts, ids, spans = [], [], []
        for rank, result in enumerate(ranked):
            document = dataset.documents.get(result.doc_id) if result.doc_id is not None else None
            text = document.text if result.text is None and document is not None else result.text
            needed = "doc_id" if by_id else "span" if spanned else "text"
            if {"doc_id": result.doc_id, "span": result.span, "text": text}[needed] is None:
                raise MissingText(
                    f"query {query.query_id!r}, result {rank + 1} has no {needed!r}, by which this "
                    "query is measured; add it, or its document to the dataset"
                )
            texts.append(text or "")
            ids.append(f"retrieved_{rank}" if result.doc_id is None else result.doc_id)
            if result.span is not None:
                spans.append(result.span)
        group = QueryGroup(
            query=query.text,
            expected=() if by_id or spanned else query.expected_answers,
            retrieved=() if spanned else texts,
            query_id=query.query_id,
            document_ids=ids,
            relevant_document_ids=query.relevant_document_ids,
            spans=Spans(query.expected_spans, spans) if spanned else None,
            negatives=query.negative_answers,
            metadata=query.metadata,
            grades=query.grades,
        )
        yield query, group, ranked


def _is_ids_alone(query: Query) -> bool:
    others = query.expected_answers or query.expected_spans or query.negative_answers
    return query.by_id and not (query.text or others or query.metadata)


def dataset_of(content: Content, name: str) -> Dataset:
    """Return the data set of content read from `name`. Raises FileError if it has no query."""
    if not content.queries:
        raise FileError(name, None, "has no query")
    return Dataset(list(content.queries.values()), content.documents)
