"""The vote, proved by listing every outcome of up to seven samples."""

from __future__ import annotations

from itertools import product
from math import ceil, isclose

import pytest
from judged.values.choices import Status
from judged_server.judges.llm.scoring import voted
from judged_server.llm.chat import ParsedReply, Reason

YES = ParsedReply(Status.OK, yes=True, score=1.0, reasoning="it is")
NO = ParsedReply(Status.OK, yes=False, score=0.0, reasoning="it is not")
ABSTAINED = ParsedReply(Status.ABSTAINED, reason=Reason.UNPARSABLE)
FAILED = ParsedReply(Status.ERROR, reason=Reason.TIMEOUT)
KINDS = (YES, NO, ABSTAINED, FAILED)


@pytest.mark.parametrize("n", range(1, 8))
def test_every_outcome_of_n_samples(n: int):
    for samples in product(KINDS, repeat=n):
        vote = voted(samples)
        yes_votes, noes = samples.count(YES), samples.count(NO)
        valid = yes_votes + noes
        if not valid:
            failed = FAILED in samples
            assert vote.status is (Status.ERROR if failed else Status.ABSTAINED)
            assert vote.fault.reason is (Reason.TIMEOUT if failed else Reason.UNPARSABLE)
        elif yes_votes == noes or valid < ceil(n / 2):
            assert (vote.status, vote.fault.reason) == (Status.ABSTAINED, Reason.NO_QUORUM)
        else:
            assert (vote.status, vote.fault) == (Status.OK, None)
            assert vote.yes is (yes_votes > noes)
            assert isclose(vote.score, yes_votes / valid)
            assert isclose(vote.agreement, max(yes_votes, noes) / valid)
            assert vote.reasoning == ("it is" if yes_votes > noes else "it is not")


def test_the_score_is_the_mean_of_the_valid_samples():
    sure, unsure = (
        ParsedReply(Status.OK, yes=True, score=0.9),
        ParsedReply(Status.OK, yes=True, score=0.6),
    )
    assert isclose(voted([sure, FAILED, unsure]).score, 0.75)


def test_a_sample_that_the_cache_lacks_leaves_no_verdict():
    """With it the vote might have gone the other way, under the same fingerprint."""
    lacks = ParsedReply(Status.ERROR, reason=Reason.NOT_CACHED)
    for others in product(KINDS, repeat=3):
        for place in range(4):
            vote = voted([*others[:place], lacks, *others[place:]])
            assert (vote.status, vote.fault.reason) == (Status.ERROR, Reason.NOT_CACHED)
