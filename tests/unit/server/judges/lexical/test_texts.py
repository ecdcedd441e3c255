from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from judged_server.domain import QueryGroup
from judged_server.judges.lexical import texts as module
from judged_server.judges.lexical.texts import PUBLISHED, Texts

from tests.unit.server.judges.reference import group_lists, judge_of, scores_of


@pytest.mark.parametrize("profile", ["classic", "weighted", "unicode"])
@pytest.mark.parametrize(("cells", "size"), [(1, 1), (7, 20), (40, 3)])
@given(asked=group_lists)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cutting_changes_no_score(profile: str, cells: int, size: int, asked, monkeypatch) -> None:
    judge = judge_of("token_overlap", profile, min_tokens=1)
    whole = judge.score(asked)
    with monkeypatch.context() as patch:
        patch.setattr(module, "TILE_CELLS", cells)
        patch.setattr(module, "BATCH_SIZE", size)
        cut = judge.score(asked)
    assert cut.scores.tolist() == whole.scores.tolist()
    assert (cut.flags is None) == (whole.flags is None)
    if cut.flags is not None:
        assert cut.flags.tolist() == whole.flags.tolist()


def test_each_distinct_text_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    original = type(PUBLISHED).tokens

    def tokens(form, texts):
        seen.extend(texts)
        return original(form, texts)

    monkeypatch.setattr(type(PUBLISHED), "tokens", tokens)
    asked = [
        QueryGroup("1", "q", ["a b", "c d"], ["a b", "e f"]),
        QueryGroup("2", "q", ["a b"], ["c d", "c d"]),
    ]
    assert scores_of(judge_of("token_overlap", "classic"), asked) == [1, 0, 0, 0, 0, 0]
    assert sorted(seen) == ["a b", "c d", "e f", "q"]


def test_a_large_group_is_cut_along_both_sides() -> None:
    words = [f"w{i}" for i in range(40)]
    expected = [" ".join(words[i : i + 20]) for i in range(20)]
    retrieved = [" ".join(words[i : i + 18]) for i in range(22)]
    group = QueryGroup("", "", expected * 40, retrieved * 40)
    scores = judge_of("token_overlap", "classic").score([group]).scores.reshape(880, 800)
    for r in (0, 5, 879):
        for e in (0, 3, 799):
            low, high = max(e % 20, r % 22), min(e % 20 + 20, r % 22 + 18)
            inside = e % 20 <= r % 22 <= e % 20 + 2
            shared = max(0, high - low)
            share = 1 if inside else shared / 20 if shared >= 2 else 0
            assert scores[r, e] == share
    texts = Texts([group], PUBLISHED)
    tiles = list(texts._tiles())
    assert len({tile.start for tile in tiles}) == len(tiles) > 1
    assert sum(len(tile.expected) * len(tile.retrieved) for tile in tiles) == 800 * 880
