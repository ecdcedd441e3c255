"""The semantic judge: cosines in order, texts embedded once, faults kept to their contexts."""

import math

import numpy as np
import pytest
from judged.values.choices import Flag, Status
from judged_server.domain import Group, JudgeSpec, Sides
from judged_server.embedding.base import Embedded, ModelCard
from judged_server.errors import ModelNotInstalled
from judged_server.judges import semantic
from judged_server.judges.semantic import SemanticKind
from judged_server.scheduling import concurrency

from tests.fakes.models.cards import others_than

CARD = ModelCard("fake", 2, 8, "a" * 64, "b" * 64, "mean", True, "fp32", "CPUExecutionProvider")


class FakeEmbedder:
    """Embeds "30" as the unit vector at 30 degrees; "zero", "nan", "fault", "30|90" as they say."""

    def __init__(self, card=CARD):
        self.card = card
        self.calls = []
        self.cancelled = False

    async def embed(self, texts, long_text, deadline=None):
        self.calls.append((list(texts), long_text))
        rows, offsets, flags, faults = [], [0], [], {}
        for number, text in enumerate(texts):
            flag = Flag.NONE
            if text == "fault":
                faults[number] = ("TEXT_TOO_LONG", "the text is too long")
            elif text == "broken":
                faults[number] = ("EMBEDDING_FAILED", "the model failed")
                rows.append((0.0, 0.0))
            else:
                parts = text.removesuffix("+").split("|")
                rows += [self._vector(part) for part in parts]
                flag |= Flag.WINDOWED if len(parts) > 1 else Flag.NONE
                flag |= Flag.TRUNCATED if text.endswith("+") else Flag.NONE
            flags.append(flag)
            offsets.append(len(rows))
        vectors = np.array(rows, np.float32).reshape(-1, 2)
        return Embedded(vectors, offsets, np.array(flags, np.uint8), faults)

    def _vector(self, text):
        special = {"zero": (0.0, 0.0), "nan": (math.nan, math.nan)}
        if text in special:
            return special[text]
        return math.cos(math.radians(float(text))), math.sin(math.radians(float(text)))


class FakeEmbedders:
    def __init__(self, *embedders):
        self._embedders = {embedder.card.name: embedder for embedder in embedders}

    def get(self, name):
        try:
            return self._embedders[name or "fake"]
        except KeyError:
            raise ModelNotInstalled(name, "run something") from None

    def cards(self):
        return tuple(embedder.card for embedder in self._embedders.values())


@pytest.fixture
def embedder():
    return FakeEmbedder()


@pytest.fixture
def judge(embedder):
    return _build(embedder)


def _build(embedder, min_score=None, **parameters):
    return SemanticKind(FakeEmbedders(embedder)).build(
        JudgeSpec("semantic", "", min_score, parameters)
    )


def _group(expected, retrieved, **options):
    return Group("q", "query", expected, retrieved, **options)


def _vectors(expected, retrieved):
    embeddings = Sides(np.array(expected, "f4"), np.array(retrieved, "f4"))
    return _group([], [], embeddings=embeddings)


def _cos(*degrees):
    return [math.cos(math.radians(angle)) for angle in degrees]


class TestScores:
    async def test_cells_are_retrieved_major_and_groups_in_order(self, judge):
        groups = [_group(["0", "30"], ["0", "60", "90"]), _group(["10"], ["20"])]
        columns = await judge.judge(groups)
        expected = _cos(0, 30, 60, 30, 90, 60, 10)
        np.testing.assert_allclose(columns.scores, expected, atol=1e-6)
        assert columns.scores.dtype == np.float64
        assert (columns.statuses, columns.flags, columns.faults) == (None, None, ())

    async def test_each_distinct_text_is_embedded_once_in_one_call(self, judge, embedder):
        await judge.judge([_group(["0", "30"], ["0", "0"]), _group(["30"], ["60"])])
        assert embedder.calls == [(["0", "30", "60"], "truncate")]

    async def test_the_best_pair_of_windows_counts(self, embedder):
        judge = _build(embedder, long_text="window_max")
        columns = await judge.judge([_group(["0|60", "90"], ["50|10", "90|45"])])
        np.testing.assert_allclose(columns.scores, _cos(10, 40, 15, 0), atol=1e-6)
        assert columns.flags.tolist() == [Flag.WINDOWED] * 4
        assert embedder.calls[0][1] == "window_max"

    async def test_groups_without_a_side_have_no_verdicts_and_no_work(self, judge, embedder):
        groups = [_group([], ["0"]), _group(["0"], []), _group([], [])]
        columns = await judge.judge(groups)
        assert columns.scores.shape == (0,)
        assert embedder.calls == []
        assert (await judge.judge([])).scores.shape == (0,)


class TestCallerEmbeddings:
    async def test_they_take_the_same_road_without_the_model(self, judge, embedder):
        columns = await judge.judge([_vectors([[1, 0], [3, 3]], [[0, 5], [2, 0], [-1, 0]])])
        expected = [0, math.sqrt(0.5), 1, math.sqrt(0.5), 0, 0]
        np.testing.assert_allclose(columns.scores, expected, atol=1e-7)
        assert embedder.calls == []


class TestFaults:
    async def test_a_texts_fault_is_that_of_its_contexts_alone(self, judge):
        groups = [_group(["0"], ["60"]), _group(["0", "fault"], ["broken", "60"])]
        columns = await judge.judge(groups)
        assert columns.statuses.tolist() == [
            Status.OK,
            Status.ERROR,
            Status.ERROR,
            Status.OK,
            Status.ERROR,
        ]
        np.testing.assert_allclose(columns.scores, [0.5, 0, 0, 0.5, 0], atol=1e-6)
        found = [(fault.index, fault.reason) for fault in columns.faults]
        assert found == [
            (1, "EMBEDDING_FAILED"),
            (2, "EMBEDDING_FAILED"),
            (4, "TEXT_TOO_LONG"),
        ]
        assert columns.faults[0].message == "retrieved text: the model failed"
        assert columns.faults[2].message == "expected text: the text is too long"

    async def test_nan_is_an_error_and_never_compared(self, judge):
        columns = await judge.judge([_group(["0", "nan"], ["0"])])
        assert columns.statuses.tolist() == [Status.OK, Status.ERROR]
        assert columns.scores.tolist() == [1.0, 0.0]
        assert columns.faults[0].reason == "EMBEDDING_FAILED"


class TestThreads:
    async def test_threads_change_nothing(self, judge, monkeypatch):
        groups = [_group([str(i), "0"], ["60", str(i + 1), "fault"]) for i in range(30)]
        groups.insert(5, _vectors([[1, 0]], [[0, 1], [1, 1]]))
        whole = await judge.judge(groups)
        monkeypatch.setattr(semantic, "INLINE_BYTES", 0)
        monkeypatch.setattr(concurrency, "INLINE_BYTES", 0)
        on_threads = await judge.judge(groups)
        np.testing.assert_array_equal(on_threads.scores, whole.scores)
        np.testing.assert_array_equal(on_threads.statuses, whole.statuses)
        assert on_threads.faults == whole.faults


class TestIdentity:
    def test_the_signature_says_which_model_and_how(self, judge):
        assert judge.identity.signature == (
            "semantic|model:fake|sha:aaaaaaaa|max_tokens:8|long_text:truncate|precision:fp32"
            "|provider:CPUExecutionProvider|min_score:0.75|v2"
        )

    def test_all_that_can_change_a_score_enters_the_key(self):
        cards = [CARD, *(card for _, card in others_than(CARD))]
        keys = {_build(FakeEmbedder(card)).identity.scoring_key for card in cards}
        assert len(keys) == len(cards) == 9

    def test_the_policy_enters_the_key_and_the_bar_does_not(self, embedder, judge):
        rejecting = _build(embedder, long_text="reject")
        assert rejecting.identity.scoring_key != judge.identity.scoring_key
        lower = _build(embedder, min_score=0.5)
        assert lower.identity.scoring_key == judge.identity.scoring_key
        assert lower.identity.fingerprint != judge.identity.fingerprint
