"""The two retrievers that the demo compares. Each returns ranked document ids with scores."""

from __future__ import annotations

import bm25s
from judged import Client, QueryGroup

from benchmarks.demo.corpus import Corpus

Run = dict[str, dict[str, float]]


def bm25(corpus: Corpus, k: int) -> Run:
    """Return the top k passages of every question by BM25 (the bm25s library, its defaults)."""
    doc_ids = list(corpus.passages)
    index = bm25s.BM25()
    tokens = bm25s.tokenize(list(corpus.passages.values()), stopwords="en", show_progress=False)
    index.index(tokens, show_progress=False)
    queries = bm25s.tokenize(
        [question.text for question in corpus.questions], stopwords="en", show_progress=False
    )
    found, scores = index.retrieve(queries, k=k, show_progress=False)
    return {
        question.query_id: {
            doc_ids[doc]: float(score) for doc, score in zip(found[row], scores[row], strict=True)
        }
        for row, question in enumerate(corpus.questions)
    }


def embedding(corpus: Corpus, k: int, client: Client) -> Run:
    """Return the top k passages of every question by the cosine of their embeddings.

    The semantic judge scores a pair of texts by this cosine, so one group of all questions against
    all passages is a brute-force vector search.
    """
    doc_ids = list(corpus.passages)
    questions = corpus.questions
    group = QueryGroup(
        expected=[question.text for question in questions], retrieved=list(corpus.passages.values())
    )
    scores = client.judge([group], "semantic").score
    run: Run = {}
    for column, question in enumerate(questions):
        by_doc = dict(zip(doc_ids, scores[column :: len(questions)], strict=True))
        best = sorted(by_doc, key=by_doc.__getitem__, reverse=True)[:k]
        run[question.query_id] = {doc: by_doc[doc] for doc in best}
    return run
