from __future__ import annotations

import pytest
from judged_server.embedding.embedder import ModelEmbedder
from judged_server.embedding.tokenizer import WindowTokenizer
from judged_server.embedding.vector_cache import VectorCache

from tests.fakes.models import tiny_model
from tests.fakes.models.session import CARD, FakeSession
from tests.fakes.models.tiny_model import HIDDEN, WINDOW


@pytest.fixture
def session():
    return FakeSession()


@pytest.fixture
def make(session):
    made = []

    def build(workers=1, memory_bytes=0, tokenizer=None, batch_tokens=0, **options):
        tokenizer = tokenizer or WindowTokenizer(tiny_model.tokenizer(), WINDOW)
        session.workers, session.batch_tokens = workers, batch_tokens
        cache = VectorCache(HIDDEN, memory_bytes)
        made.append(ModelEmbedder(CARD, tokenizer, session, cache, **options))
        return made[-1]

    yield build
    session.gate.set()
    for embedder in made:
        embedder.close()
