"""Weaviate's own client, over HTTP and gRPC, against a server that answers as Weaviate 1.34 does.

Not run against a real Weaviate: it is a program in Go that no Python package brings, and its
embedded mode downloads it from GitHub.
"""

from __future__ import annotations

import json
import struct
import threading
import uuid
from collections.abc import Iterator
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
import weaviate
from judged import Client
from judged.adapters.retrievers.weaviate import WeaviateRetriever
from weaviate.proto.v1 import (  # its own stubs, which fit the installed protobuf
    health_weaviate_pb2,
    properties_pb2,
    search_get_pb2,
    weaviate_pb2_grpc,
)

from tests.adapters.corpus import TEXTS, WORDS, check, embed, rank, shared

NAMES = {name: str(uuid.uuid5(uuid.NAMESPACE_OID, name)) for name in TEXTS}


class Rest(BaseHTTPRequestHandler):
    """What a client asks when it connects: no OpenID, and the version."""

    def do_GET(self) -> None:
        known = {"/v1/meta": {"version": "1.34.0", "hostname": "http://[::]:8080", "modules": {}}}
        body = json.dumps(known.get(self.path, {})).encode()
        self.send_response(200 if self.path in known else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Search(weaviate_pb2_grpc.WeaviateServicer):
    """Ranks the texts for a vector by their cosine, for words by the words that they share."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def Search(self, request: Any, _: Any) -> Any:
        self.asked.append(request)
        by_words = request.HasField("bm25_search")
        if by_words:
            ranked = rank(request.bm25_search.query)
            scores = [shared(request.bm25_search.query, TEXTS[name]) for name in ranked]
        else:
            near = request.near_vector
            raw = near.vectors[0].vector_bytes if near.vectors else near.vector_bytes
            vector = struct.unpack(f"<{len(WORDS)}f", raw)
            likeness = {
                name: sum(a * b for a, b in zip(vector, embed(text), strict=True))
                for name, text in TEXTS.items()
            }
            ranked = sorted(TEXTS, key=lambda name: -likeness[name])
            scores = [1 - likeness[name] for name in ranked]
        results = []
        for name, score in list(zip(ranked, scores, strict=True))[: request.limit]:
            numbers: dict[str, Any] = (
                {"score": score, "score_present": True}
                if by_words
                else {"distance": score, "distance_present": True}
            )
            fields = {"text": TEXTS[name], "doc_id": name}
            asked = request.properties.non_ref_properties
            properties = properties_pb2.Properties(
                fields={key: properties_pb2.Value(text_value=fields[key]) for key in asked}
            )
            results.append(
                search_get_pb2.SearchResult(
                    metadata=search_get_pb2.MetadataResult(
                        id=NAMES[name], id_as_bytes=uuid.UUID(NAMES[name]).bytes, **numbers
                    ),
                    properties=search_get_pb2.PropertiesResult(
                        non_ref_props=properties, target_collection=request.collection
                    ),
                )
            )
        return search_get_pb2.SearchReply(took=0.001, results=results)


@pytest.fixture
def search() -> Search:
    return Search()


@pytest.fixture
def connected(search: Search) -> Iterator[Any]:
    """Weaviate's client, connected with all its checks."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    weaviate_pb2_grpc.add_WeaviateServicer_to_server(search, server)
    health = health_weaviate_pb2.WeaviateHealthCheckResponse
    check_health: Any = grpc.unary_unary_rpc_method_handler(
        lambda *_: health(status=health.SERVING), response_serializer=health.SerializeToString
    )
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": check_health})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with ThreadingHTTPServer(("127.0.0.1", 0), Rest) as rest:
        threading.Thread(target=rest.serve_forever, daemon=True).start()
        with weaviate.connect_to_local("127.0.0.1", rest.server_address[1], port) as client:
            yield client
        rest.shutdown()
    server.stop(0).wait()


def test_a_collection_is_searched_by_vectors(client: Client, connected: Any, search: Any) -> None:
    collection = connected.collections.use("Library")
    check(client, WeaviateRetriever(collection, embed), NAMES.__getitem__)
    (request,) = {(one.collection, one.limit) for one in search.asked}
    assert request == ("Library", 3)


def test_a_collection_is_searched_by_words_and_known_by_a_property(
    client: Client, connected: Any
) -> None:
    collection = connected.collections.use("Library")
    check(client, WeaviateRetriever(collection, id_property="doc_id"))


def test_scores_fall_with_rank(connected: Any) -> None:
    collection = connected.collections.use("Library")
    for retriever in (WeaviateRetriever(collection, embed), WeaviateRetriever(collection)):
        scores = [one.score for one in retriever.retrieve("a late book", 4)]
        assert scores == sorted(scores, reverse=True)
        assert len(set(scores)) > 1
