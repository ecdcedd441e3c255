from __future__ import annotations

import pytest
from judged_server.metrics.text.porter_stemmer import stem

PAIRS = """caresses caress  ponies poni  ties tie  cats cat  feed feed  agreed agre
    plastered plaster
    motoring motor  sing sing  conflated conflat  troubled troubl  sized size  hopping hop
    falling fall  hissing hiss  failing fail  filing file  happy happi  sky sky  enjoy enjoy
    relational relat  conditional condit  digitizer digit  conformabli conform
    vietnamization vietnam  triplicate triplic  formative form  electrical electr
    hopeful hope  goodness good  revival reviv  adjustment adjust  adoption adopt
    probate probat  rate rate  cease ceas  controll control  roll roll  dying die  news news
    geologi geolog  by by  is is"""
CASES = PAIRS.split()


@pytest.mark.parametrize(("word", "expected"), list(zip(CASES[::2], CASES[1::2], strict=True)))
def test_the_papers_examples(word, expected):
    assert stem(word) == expected
