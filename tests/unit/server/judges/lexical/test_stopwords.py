from __future__ import annotations

from judged_server.judges.lexical.texts import NEGATIONS, STOPWORDS


def test_the_lists_are_whole() -> None:
    assert len(STOPWORDS) == 179
    assert {"a", "you're", "yourselves", "mightn", "nor", "not", "no"} <= STOPWORDS
    assert {"never", "none", "without", "cannot", "would", "could"}.isdisjoint(STOPWORDS)
    assert sorted(NEGATIONS) == ["cannot", "never", "no", "none", "not", "without"]
