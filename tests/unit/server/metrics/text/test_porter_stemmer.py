from __future__ import annotations

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


def test_the_papers_examples():
    assert [stem(word) for word in CASES[::2]] == CASES[1::2]
