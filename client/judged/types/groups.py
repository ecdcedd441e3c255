"""What is to be judged: contexts, and queries with their texts or spans of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from judged._inputs import as_id, as_ids, as_list, need_each, need_grades, refuse_set, set_fields
from judged._views import short_repr
from judged.types.embeddings import Embeddings


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a file: from the character `start`, counted from 0, up to, not including, `end`."""

    file: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Spans:
    """The spans that stand for the texts of a group, the retrieved ones best rank first."""

    expected: Sequence[Span] = ()
    retrieved: Sequence[Span] = ()

    def __post_init__(self) -> None:
        for name in ("expected", "retrieved"):
            object.__setattr__(self, name, need_each(getattr(self, name), name, (Span,), "Span"))


@dataclass(frozen=True, slots=True)
class Context:
    """One thing to judge."""

    query: str
    expected_text: str
    retrieved_text: str


@dataclass(frozen=True, slots=True, repr=False)
class QueryGroup:
    """One query with expected and retrieved texts: every pair of them is a context.

    Verdicts come retrieved-major: all expected texts for retrieved[0], then for retrieved[1].
    `document_ids` names the retrieved documents; `relevant_document_ids` makes `evaluate` match
    by id instead of judging; ids are text or whole numbers, compared as text. Embeddings or spans
    may stand for the texts. Without `expected` a judge whose rubric shows no expected text judges
    each retrieved text by itself. `negatives` are texts that should not be found, on which
    `evaluate` reports. `grades` of documents by their ids, 0 for those judged not relevant, say
    more than `relevant_document_ids`, which are then those above 0.
    """

    query: str = ""
    expected: Sequence[str] = ()
    retrieved: Sequence[str] = ()
    query_id: str = ""
    document_ids: Sequence[str] = ()
    relevant_document_ids: Sequence[str] = ()
    embeddings: Embeddings | None = None
    spans: Spans | None = None
    negatives: Sequence[str] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)
    grades: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.query_id) is not str:
            set_fields(self, query_id=as_id(self.query_id))
        for name in ("retrieved", "document_ids"):
            refuse_set(getattr(self, name), name)
        for name in ("expected", "retrieved", "negatives"):
            values = getattr(self, name)
            if type(values) not in (list, tuple):
                object.__setattr__(self, name, as_list(values))
        for name in ("document_ids", "relevant_document_ids"):
            if getattr(self, name) != ():
                object.__setattr__(self, name, as_ids(getattr(self, name)))
        if self.grades:
            relevant, grades = need_grades(self.relevant_document_ids, self.grades)
            set_fields(self, relevant_document_ids=relevant, grades=grades)

    def __repr__(self) -> str:
        return short_repr(self)

    @property
    def by_id(self) -> bool:
        """Whether results are matched by document id, and not judged."""
        return bool(self.relevant_document_ids or self.grades)

    @property
    def n_expected(self) -> int:
        """The number of expected texts, or of what stands for them."""
        if self.expected:
            return len(self.expected)
        if self.spans is not None:
            return len(self.spans.expected)
        return self.embeddings.n_expected if self.embeddings is not None else 0

    @property
    def open_ended(self) -> bool:
        """Whether texts were retrieved, and no text or one blank text says what was expected."""
        if not self.retrieved or self.by_id or any(self.expected):
            return False
        return len(self.expected) <= 1 and self.embeddings is None and self.spans is None

    @property
    def n_retrieved(self) -> int:
        """The number of retrieved texts, or of what stands for them."""
        if self.retrieved:
            return len(self.retrieved)
        if self.spans is not None:
            return len(self.spans.retrieved)
        return self.embeddings.n_retrieved if self.embeddings is not None else 0
