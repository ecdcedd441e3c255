"""The targets over what fuzzing begins with, and that each of them can see a broken promise."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judged.values.choices import Status
from judged_server.llm.chat import ChatReply, ParsedReply
from judged_server.llm.parsing import read
from judged_server.llm.rubrics.rubric import Rubric

from tests.fuzz import targets
from tests.fuzz.__main__ import fuzzed
from tests.fuzz.corpora import seeds
from tests.fuzz.targets import TARGETS, Broken

YES = b'{"reasoning": "it is so", "verdict": "yes"}'
VERDICT = next(n for n, step in enumerate(targets.ASKED) if step.form == "verdict")


@pytest.mark.parametrize("name", TARGETS)
def test_every_promise_holds_of_the_seeds_and_of_seeds_with_a_wrong_byte(name: str) -> None:
    draw = random.Random(1)
    begun = seeds(name)
    assert begun
    for raw in begun:
        TARGETS[name](raw)
        wrong = bytearray(raw)
        for _ in range(3):
            wrong[draw.randrange(len(wrong))] = draw.randrange(256)
        TARGETS[name](bytes(wrong))
        TARGETS[name](raw[: draw.randrange(len(raw))])


@cache
def pieces(target: str) -> list[bytes]:
    """The words and signs that seeds are made of, and what some readers stumble over."""
    odd = [b"\xed\xa0\x80", b"\xff", b"\x00", b"NaN", b"1e400", b"9" * 99, b"[" * 400]
    words = (re.findall(rb"\w+|\s|[^\w\s]", seed) for seed in seeds(target))
    return sorted({*chain.from_iterable(words), *odd})


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
def test_every_promise_holds_of_what_seeds_are_made_of(name: str, data: st.DataObject) -> None:
    part = st.sampled_from(pieces(name)) | st.binary(max_size=3)
    chosen = data.draw(st.binary(min_size=3, max_size=3))  # what is asked, and how
    TARGETS[name](chosen + b"".join(data.draw(st.lists(part, max_size=12))))
    TARGETS[name](b"".join(data.draw(st.lists(part, max_size=12))))


def test_the_seeds_of_replies_reach_every_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached: set[tuple[Status, str, str | None]] = set()

    def noted(said: ChatReply, step: Rubric, *, structured: bool) -> ParsedReply:
        found = read(said, step, structured=structured)
        contents = (
            (found.dimensions, "dimensions"),
            (found.claims, "claims"),
            (found.checked, "check"),
        )
        content = next((name for content, name in contents if content), "")
        reached.add((found.status, content, found.reason))
        return found

    monkeypatch.setattr(targets, "read", noted)
    for raw in seeds("reply"):
        targets.reply(raw)
    assert {content for _, content, _ in reached} == {"claims", "check", "dimensions", ""}
    assert {status for status, _, _ in reached} == {Status.OK, Status.ERROR, Status.ABSTAINED}
    assert len({reason for _, _, reason in reached}) >= 5


LIES: dict[str, Callable[[ParsedReply], ParsedReply]] = {
    "another verdict": lambda found: found._replace(yes=not found.yes),
    "a verdict without one": lambda _: ParsedReply(Status.OK, yes=True, score=1.0),
    "a score out of bounds": lambda found: found._replace(score=1.5),
    "reasoning without bounds": lambda found: found._replace(reasoning="x" * 3000),
    "a lone surrogate": lambda found: found._replace(reasoning="\ud800"),
    "no reason": lambda _: ParsedReply(Status.ABSTAINED),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_reader_that_lies_is_seen(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "read", lambda *a, **k: LIES[lie](read(*a, **k)))
    said = b"perhaps" if lie == "a verdict without one" else YES
    with pytest.raises((Broken, UnicodeEncodeError)):
        targets.reply(bytes([VERDICT, 1]) + said)


def test_a_target_runs_under_atheris(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("atheris", reason="it has no wheel for this Python here")
    monkeypatch.setattr("tests.fuzz.__main__.OUT", tmp_path)
    assert fuzzed("retry_after", ("-runs=2000",), 1)
    assert "every promise held" in capsys.readouterr().out
