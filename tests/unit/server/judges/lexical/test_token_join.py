from __future__ import annotations

import numpy as np
from hypothesis import given
from judged_server.judges.lexical.texts import Texts
from judged_server.judges.lexical.tokens import PUBLISHED

from tests.unit.server.judges.reference import contains, contexts, group_lists, normal, tokens


@given(group_lists)
def test_sums_over_shared_tokens(asked) -> None:
    texts = Texts(asked, PUBLISHED)
    sets = [tuple(set(tokens(text)) for text in context) for context in contexts(asked)]
    same = [
        normal(expected) == normal(retrieved) or contains(normal(expected), normal(retrieved))
        for _, expected, retrieved in contexts(asked)
    ]
    seen = []
    for batch in texts._batches():
        seen += batch.target.tolist()
        lengths = texts.tokens.lengths[batch.term_tokens].astype(float)
        shared, of_query = batch.shared(), batch.shared(batch.in_query)
        letters, expected = batch.shared(lengths), batch.in_expected(lengths)
        for place, context in enumerate(batch.target.tolist()):
            q, e, r = sets[context]
            assert shared[place] == len(e & r)
            assert of_query[place] == len(q & e & r)
            assert letters[place] == sum(map(len, e & r))
            assert expected[batch.expected_of[place]] == sum(map(len, e))
            assert batch.may_contain[place] or not same[context]
        everything = np.ones(len(batch.target), np.bool_)
        for place, expected_text, retrieved_text in batch.pairs(everything):
            pair = contexts(asked)[batch.target[place]][1:]
            assert (texts.texts[expected_text], texts.texts[retrieved_text]) == pair
    assert sorted(seen) == list(range(len(sets)))
