from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import pytest
from judged.values.choices import ClaimVerdict, Status
from judged_server.judges.llm.scoring import find_claims
from judged_server.llm.chat import ParsedReply, Reason
from judged_server.llm.rubrics.rubric import FieldValue, Rubric, load_builtin

RUBRIC = load_builtin()["faithfulness"]
FIELDS = {"query": "q", "answer": "a", "contexts": ("c",)}

YES = ParsedReply(Status.OK, checked=ClaimVerdict.SUPPORTED, reasoning="there")
NO = ParsedReply(Status.OK, checked=ClaimVerdict.CONTRADICTED, reasoning="not so")
UNSURE = ParsedReply(Status.OK, checked=ClaimVerdict.NOT_ENOUGH_INFO)
FAILED = ParsedReply(Status.ERROR, reason=Reason.TIMEOUT, message="late", retryable=True)
REFUSED = ParsedReply(Status.ABSTAINED, reason=Reason.REFUSED, message="no")


class ScriptedEnquiry:
    """Answers from a table: the claims, then what each sample of each claim's check says."""

    def __init__(self, listed: ParsedReply, checks: Mapping[tuple[str, int], ParsedReply]) -> None:
        self.listed = listed
        self.checks = checks
        self.asked: list[tuple[str, int, int]] = []

    async def ask(
        self, fields: Mapping[str, FieldValue], number: int, place: int, step: Rubric
    ) -> ParsedReply:
        assert set(fields) == set(step.fields)
        claim = str(fields.get("claim", ""))
        self.asked.append((claim, number, place))
        return self.checks[claim, number] if step.form == "verification" else self.listed


async def found(samples: int, **checks: Sequence[ParsedReply]):
    listed = ParsedReply(Status.OK, reasoning="why", claims=tuple(checks))
    table = {(claim, n): each[n] for claim, each in checks.items() for n in range(samples)}
    session = ScriptedEnquiry(listed, table)
    finding = await find_claims(session, RUBRIC, FIELDS, samples)
    places = [place for _, _, place in session.asked]
    assert sorted(places) == list(range(1 + len(table)))
    return finding


@pytest.mark.parametrize("samples", [1, 2, 3, 4, 5])
async def test_samples_vote_on_each_claim(samples: int):
    """All votes: a verdict has more than half of the valid samples, which are at least half."""
    for votes in product([YES, NO, UNSURE, FAILED, REFUSED], repeat=samples):
        finding = await found(samples, one=votes)
        valid = [vote for vote in votes if vote.status is Status.OK]
        winners = [vote for vote in (YES, NO, UNSURE) if 2 * valid.count(vote) > len(valid)]
        if not valid:
            expected = Status.ERROR if FAILED in votes else Status.ABSTAINED
            assert finding.status is expected
        elif not winners or 2 * len(valid) < samples:
            assert finding.status is Status.ABSTAINED
            assert finding.fault.reason == "NO_QUORUM"
        else:
            (winner,) = winners
            assert finding.status is Status.OK
            assert finding.score == (winner is YES)
            assert finding.agreement == pytest.approx(valid.count(winner) / len(valid))


async def test_a_check_that_the_cache_lacks_leaves_no_score():
    lacks = ParsedReply(Status.ERROR, reason=Reason.NOT_CACHED, message="not cached")
    finding = await found(3, one=[YES, YES, YES], two=[YES, lacks, YES])
    assert finding.status is Status.ERROR
    assert finding.fault.reason == "NOT_CACHED"
