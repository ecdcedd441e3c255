"""Traces made by chance."""

from hypothesis import strategies as st
from judged import Flag, Source, Status
from judged.traces import Breakdown, Item, Judgement, Trace
from judged.values import JudgeIdentity, VerdictError
from judged.values.choices import ClaimVerdict
from judged.values.scores import DimensionScore, VerifiedClaim

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
words = st.text("abcdefgh_", min_size=1, max_size=6)
keys = st.text("0123456789abcdef", min_size=64, max_size=64)
scores = st.floats(0, 1)


claims = st.builds(VerifiedClaim, texts, st.sampled_from(ClaimVerdict), texts)
breakdowns = st.builds(
    Breakdown,
    st.lists(st.builds(DimensionScore, words, st.none() | scores, scores), max_size=2),
    st.none() | scores,
    st.lists(claims, max_size=2),
    st.lists(texts, max_size=2),
)


def identities():
    def made(kind, profile, rubric, version, threshold, key, fingerprint):
        parts = [f"profile:{profile}"] if profile else []
        parts += [f"rubric:{rubric}@{version}", "sha:0123abcd"] if rubric else []
        signature = "|".join([kind, *parts, f"min_score:{threshold:.12g}", "v1"])
        return JudgeIdentity(kind, profile, threshold, signature, key, fingerprint)

    optional = st.one_of(st.just(""), words)
    return st.builds(made, words, optional, optional, words, scores, keys, keys)


@st.composite
def judgements(draw):
    judge = draw(identities())
    status = draw(st.sampled_from(Status))
    common = {
        "source": draw(st.sampled_from(Source)),
        "flags": Flag(draw(st.integers(0, 7))),
        "samples": draw(st.integers(0, 9)),
        "rationale": draw(texts),
        "model": draw(texts),
        "breakdown": draw(st.none() | breakdowns),
    }
    n = common["samples"]
    votes = st.lists(st.none() | st.booleans(), min_size=n, max_size=n)
    common["votes"] = draw(st.just(()) | votes.filter(bool)) if n else ()
    if status is not Status.OK:
        parts = draw(st.integers(0, 16)), draw(words), draw(texts), draw(st.booleans())
        error = VerdictError(*parts)
        return Judgement(judge, status, error=error, **common)
    score = draw(scores)
    passed = score + 1e-9 >= judge.min_score and draw(st.booleans())
    agreement = draw(st.none() | scores)
    return Judgement(judge, status, passed, score, agreement=agreement, **common)


@st.composite
def items(draw):
    fields = {}
    if is_answer := draw(st.booleans()):
        fields["item_id"] = draw(texts.filter(bool))
    names = ("query", "answer") if is_answer else ("query", "expected_text", "retrieved_text")
    for name in (*names, *(("references", "contexts") if is_answer else ())):
        fields[name] = draw(texts if name in names else st.lists(texts, max_size=3))
    return Item.of(fields if is_answer else {**fields, "query_id": draw(texts)})


@st.composite
def traces(draw):
    trace = Trace()
    for item in draw(st.lists(items(), max_size=4)):
        for judgement in draw(st.lists(judgements(), min_size=1, max_size=3)):
            trace.put(item, judgement)
    return trace
