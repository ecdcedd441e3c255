from __future__ import annotations

import numpy as np
import pytest
from judged_server.domain import QueryGroup
from judged_server.judges.lexical.texts import Texts
from judged_server.judges.lexical.token_overlap import longest_phrases
from judged_server.judges.lexical.tokens import PUBLISHED


@pytest.mark.parametrize(
    ("expected", "retrieved", "length"),
    [
        ("one two three four five", "one two three four five", 4),
        ("one two three four", "ONE\n two  three\u00a0four!", 4),
        ("one two three four", "one two three, four", 3),
        ("one two three four", "three four one two", 2),
        ("one two three four", "four three two one", 0),
        ("one two one two", "one two one", 3),
        ("one two", "someone twofold", 2),
        ("a b", "xa by", 2),
        ("one, two", "one two", 2),
        ("one two", "one, two", 0),
        ("one", "one", 0),
        ("", "one two", 0),
    ],
)
def test_longest_phrase(expected: str, retrieved: str, length: int) -> None:
    texts = Texts([QueryGroup("", "", [expected, "other text"], [retrieved])], PUBLISHED)
    (batch,) = texts._batches()
    content = np.ones(len(batch.term_tokens))
    asked = np.array([True, False])
    assert longest_phrases(texts, batch, content, asked).tolist() == [length, 0]
    assert longest_phrases(texts, batch, content, ~asked & False).tolist() == [0, 0]
