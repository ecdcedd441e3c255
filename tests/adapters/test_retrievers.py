"""Retrievers of other libraries, real ones in this process, under our Evaluator."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest
from judged import Client, InvalidArgument
from judged.evaluation import Evaluator

from tests.adapters.corpus import DATASET, TEXTS, WORDS, check, embed, rank


def langchain_vectors() -> Any:
    from judged.adapters.retrievers.langchain import LangChainRetriever
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    class Words(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [embed(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return embed(text)

    store = InMemoryVectorStore(Words())
    store.add_documents([Document(id=name, page_content=text) for name, text in TEXTS.items()])
    return LangChainRetriever(store.as_retriever())


def langchain_custom() -> Any:
    from judged.adapters.retrievers.langchain import LangChainRetriever
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            ranked = rank(query)
            return [Document(TEXTS[name], metadata={"doc_id": name}) for name in ranked]

    zero = Document("a", metadata={"id": 0, "doc_id": "file"})
    assert LangChainRetriever(RunnableLambda(lambda _: [zero])).retrieve("q", 1)[0].doc_id == "0"
    return LangChainRetriever(Shelf())


def llama_index() -> Any:
    from judged.adapters.retrievers.llama_index import LlamaIndexRetriever
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.schema import TextNode

    class Words(BaseEmbedding):
        def _get_query_embedding(self, query: str) -> list[float]:
            return embed(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return embed(query)

        def _get_text_embedding(self, text: str) -> list[float]:
            return embed(text)

    nodes = [TextNode(id_=name, text=text) for name, text in TEXTS.items()]
    index = VectorStoreIndex(nodes, embed_model=Words())
    return LlamaIndexRetriever(index.as_retriever())


def haystack_documents() -> Any:
    from haystack import Document
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(
        [Document(id=name, content=text, embedding=embed(text)) for name, text in TEXTS.items()]
    )
    return store


def haystack_bm25() -> Any:
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from judged.adapters.retrievers.haystack import HaystackRetriever

    return HaystackRetriever(InMemoryBM25Retriever(haystack_documents()))


def haystack_embedding() -> Any:
    from haystack import component
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
    from judged.adapters.retrievers.haystack import HaystackRetriever

    @component
    class Words:
        @component.output_types(embedding=list[float])
        def run(self, text: str) -> dict[str, list[float]]:
            return {"embedding": embed(text)}

    return HaystackRetriever(InMemoryEmbeddingRetriever(haystack_documents()), Words())


def qdrant() -> Any:
    from judged.adapters.retrievers.qdrant import QdrantRetriever
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    vectors = models.VectorParams(size=len(WORDS), distance=models.Distance.COSINE)
    client.create_collection("library", vectors_config=vectors)
    client.upsert(
        "library",
        [
            models.PointStruct(id=int(name[1:]), vector=embed(text), payload={"text": text})
            for name, text in TEXTS.items()
        ],
    )
    return QdrantRetriever(client, "library", embed)


def chroma() -> Any:
    import chromadb
    from judged.adapters.retrievers.chroma import ChromaRetriever

    settings = chromadb.Settings(anonymized_telemetry=False)
    collection = chromadb.EphemeralClient(settings).create_collection("library")
    vectors = [embed(text) for text in TEXTS.values()]
    collection.add(list(TEXTS), embeddings=vectors, documents=list(TEXTS.values()))
    return ChromaRetriever(collection, lambda queries: [embed(query) for query in queries])


def lance() -> Any:
    import lancedb
    from judged.adapters.retrievers.lancedb import LanceRetriever

    folder = tempfile.mkdtemp()
    rows = [{"id": name, "text": text, "vector": embed(text)} for name, text in TEXTS.items()]
    return LanceRetriever(lancedb.connect(folder).create_table("library", rows), embed)


def milvus() -> Any:
    from judged.adapters.retrievers.milvus import MilvusRetriever
    from pymilvus import MilvusClient

    client = MilvusClient(f"{tempfile.mkdtemp()}/library.db")
    for metric in ("COSINE", "L2"):
        client.create_collection(
            metric, len(WORDS), id_type="string", max_length=9, metric_type=metric
        )
        rows = [{"id": name, "text": text, "vector": embed(text)} for name, text in TEXTS.items()]
        client.insert(metric, rows)
    return MilvusRetriever(client, "COSINE", lambda queries: [embed(query) for query in queries])


def milvus_by_l2() -> Any:
    from judged.adapters.retrievers.milvus import MilvusRetriever

    by_cosine = milvus()
    return MilvusRetriever(by_cosine._client, "L2", by_cosine._embed)


def pyterrier() -> Any:
    import pandas as pd
    import pyterrier as pt
    from judged.adapters.retrievers.pyterrier import PyTerrierRetriever

    def search(queries: Any) -> Any:
        rows = [
            {"qid": query.qid, "query": query.query, "docno": name, "score": -float(place)}
            for query in queries.itertuples()
            for place, name in enumerate(rank(query.query))
        ]
        return pt.model.add_ranks(pd.DataFrame(rows[::-1]))

    return PyTerrierRetriever(pt.apply.generic(search) % 3, TEXTS)


def bm25s_index() -> Any:
    import bm25s
    from judged.adapters.retrievers.bm25s import Bm25sRetriever

    index = bm25s.BM25()
    index.index(bm25s.tokenize(list(TEXTS.values()), show_progress=False), show_progress=False)
    with pytest.raises(InvalidArgument, match="1 ids for"):
        Bm25sRetriever(index, list(TEXTS.values()), ["d1"])
    with pytest.raises(InvalidArgument, match=r"texts: 1 texts for an index of \d+ documents"):
        Bm25sRetriever(index, ["fewer than were indexed"])
    return Bm25sRetriever(index, list(TEXTS.values()), list(TEXTS))


@pytest.mark.parametrize(
    "make",
    [
        langchain_vectors,
        langchain_custom,
        llama_index,
        haystack_bm25,
        haystack_embedding,
        qdrant,
        chroma,
        lance,
        bm25s_index,
        milvus,
        milvus_by_l2,
        pyterrier,
    ],
)
def test_a_retriever_of_the_library_is_measured(client: Client, make: Callable[[], Any]) -> None:
    # Qdrant's ids are numbers or UUIDs.
    rename = (lambda name: name[1:]) if make is qdrant else str
    check(client, make(), rename, finds_few=make is haystack_bm25)


def test_a_vector_index_of_llama_index_is_asked_for_k() -> None:
    retriever = llama_index()  # of which similarity_top_k is 2 by default
    assert [len(retriever.retrieve("books", k)) for k in (3, 1, 4)] == [3, 1, 4]


def test_runs_of_pyterrier_are_read_as_results(client: Client) -> None:
    import pandas as pd
    from judged.adapters.retrievers.pyterrier import read_run

    rows = [("q1", "d3", "10", 7.0), ("q1", "d1", "9", 8.0)]
    rows += [("q2", "d2", "0", 1.5), ("q3", "d4", "0", 1.0)]
    run = pd.DataFrame(rows, columns=["qid", "docno", "rank", "score"])
    with_texts = run.assign(text=[TEXTS[docno] for docno in run["docno"]])
    for found in (read_run(run, TEXTS), read_run(with_texts)):
        assert [one.doc_id for one in found["q1"]] == ["d1", "d3"]
        assert found["q1"][0].text == TEXTS["d1"]
        result = Evaluator(client).evaluate(found, DATASET, ["mrr@3"], "exact")
        assert result["mrr@3"].mean == 1.0
    with pytest.raises(ValueError, match="needs the columns qid, docno and rank"):
        read_run(run.drop(columns="rank"))


class Recorded(BaseHTTPRequestHandler):
    """Answers searches as Elasticsearch 9 and OpenSearch 3 do: what they send for such a body."""

    asked: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        size = int(self.headers["content-length"])
        body = json.loads(self.rfile.read(size))
        self.asked.append((self.path, body))
        ranked = rank(body["query"]["match"]["text"])
        hits = [
            {
                "_index": "library",
                "_id": name,
                "_score": 2.0 - rank,
                "_source": {"text": TEXTS[name]},
            }
            for rank, name in enumerate(ranked[: body["size"]])
        ]
        reply = {"took": 1, "timed_out": False, "hits": {"max_score": 2.0, "hits": hits}}
        raw = json.dumps(reply).encode()
        self.send_response(200)
        kind = "application/vnd.elasticsearch+json; compatible-with=9"
        self.send_header(
            "content-type", kind if "elastic" in str(self.headers) else "application/json"
        )
        self.send_header("x-elastic-product", "Elasticsearch")
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorded() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Recorded) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.parametrize("library", ["elasticsearch", "opensearch"])
def test_search_engines_are_asked_by_their_own_clients(
    client: Client, recorded: str, library: str
) -> None:
    """Against recorded replies: not run against a real server, which is no Python package."""
    from judged.adapters.retrievers.search_engines import SearchIndexRetriever

    connected: Any
    if library == "elasticsearch":
        from elasticsearch import Elasticsearch

        connected = Elasticsearch(recorded)
    else:
        from opensearchpy import OpenSearch

        connected = OpenSearch(recorded)
    retriever = SearchIndexRetriever(connected, "library")
    found = Evaluator(client).evaluate(retriever, DATASET, ["mrr@3"], "exact")
    assert found["mrr@3"].mean == 1.0
    path, body = Recorded.asked[-1]
    assert path.startswith("/library/_search")
    assert (body["size"], list(body["query"])) == (3, ["match"])
