from __future__ import annotations

import numpy as np
import pytest
from judged.v1 import types_pb2
from judged_server import errors
from judged_server.api import judge_cache
from judged_server.api.judge_cache import KnownJudges
from judged_server.domain import CallerEmbeddings, QueryGroup
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.exact import ExactKind
from judged_server.judges.lexical.token_overlap import TokenOverlapKind
from judged_server.usecases.judge_batch import Engine
from judged_server.usecases.slices import SliceRunner

TEXTS = [QueryGroup("", "q", ["e"], ["r"])]


class Counting(Engine):
    """Counts how often it is asked for a judge, with vectors or without."""

    def __init__(self) -> None:
        super().__init__(JudgeCatalog((ExactKind(), TokenOverlapKind()), "exact"), SliceRunner())
        self.asked: list[str] = []

    def choose(self, spec, groups=(), field="judge"):
        self.asked.append(spec.kind)
        return super().choose(spec, groups, field)


def test_a_spec_is_read_once_and_specs_are_kept_apart():
    engine = Counting()
    known = KnownJudges(engine)
    specs = [
        types_pb2.JudgeSpec(),
        types_pb2.JudgeSpec(kind="exact", profile="normalized"),
        types_pb2.JudgeSpec(kind="exact", min_score=0.25),
        types_pb2.JudgeSpec(kind="token_overlap"),
    ]
    first = [known.choose(spec, TEXTS).identity for spec in specs]
    assert len(set(first)) == 4
    assert [known.choose(spec, TEXTS).identity for spec in specs] == first
    assert len(engine.asked) == 4


def test_what_is_wrong_is_told_each_time():
    known = KnownJudges(Counting())
    for _ in range(2):
        with pytest.raises(errors.UnknownJudge):
            known.choose(types_pb2.JudgeSpec(kind="no such"), TEXTS)


def test_groups_with_vectors_are_asked_for_each_time():
    engine = Counting()
    known = KnownJudges(engine)
    vectors = CallerEmbeddings(np.ones((1, 2), np.float32), np.ones((1, 2), np.float32))
    group = QueryGroup("", "q", (), (), embeddings=vectors)
    for groups in ([group], TEXTS, [group], TEXTS):
        known.choose(types_pb2.JudgeSpec(kind="exact"), groups)
    assert len(engine.asked) == 3


def test_the_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(judge_cache, "MOST_KNOWN", 3)
    engine = Counting()
    known = KnownJudges(engine)
    for bar in (0.1, 0.2, 0.3, 0.4, 0.4, 0.1):
        assert known.choose(types_pb2.JudgeSpec(min_score=bar), TEXTS).identity.min_score == bar
    assert len(engine.asked) == 5
