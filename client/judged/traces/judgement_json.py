"""The JSON of one judgement: its keys, and what they must hold.

What a judgement means is in `judgement`.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from judged.evaluation.datasets.files import Record
from judged.traces.breakdown import read_breakdown, write_breakdown
from judged.traces.judgement import SLACK, Judgement
from judged.traces.keys import decision, named, refuse_unknown, sha256, share
from judged.values import Flag, JudgeIdentity, Source, Status, VerdictError

_KEYS = frozenset(
    {
        *("judge", "profile", "rubric", "rubric_version", "signature", "scoring_key"),
        *("fingerprint", "min_score", "status", "passed", "score", "source", "flags", "samples"),
        *("majority", "agreement", "rationale", "model", "error", "breakdown"),
        *("probability", "stage", "max_grade", "votes"),
    }
)
_FLAGS = [flag.name for flag in Flag if flag.name is not None]


def write_judgement(judgement: Judgement) -> dict[str, Any]:
    """Return the JSON object of a judgement."""
    judge, error, rubric = judgement.judge, judgement.error, judgement.rubric
    fields: dict[str, Any] = {
        "judge": judge.kind,
        "profile": judge.profile,
        "rubric": None if rubric is None else rubric[0],
        "rubric_version": None if rubric is None else rubric[1],
        "signature": judge.signature,
        "scoring_key": judge.scoring_key,
        "fingerprint": judge.fingerprint,
        "min_score": judge.min_score,
        "status": judgement.status.name,
        "passed": judgement.passed,
        "score": judgement.score,
        "source": judgement.source.name,
        "flags": [flag.name for flag in Flag if flag & judgement.flags],
        "samples": judgement.samples,
        "majority": judgement.majority,
        "agreement": judgement.agreement,
        "rationale": judgement.rationale,
        "model": judgement.model,
        "error": None if error is None else asdict(error),
    }
    if judgement.probability is not None:
        fields["probability"] = judgement.probability
    if judgement.stage is not None:
        fields["stage"] = judgement.stage
    if judgement.judge.max_grade:
        fields["max_grade"] = judgement.judge.max_grade
    if judgement.votes:
        fields["votes"] = list(judgement.votes)
    if judgement.breakdown is not None:
        fields["breakdown"] = write_breakdown(judgement.breakdown)
    return fields


def read_judgement(record: Record, name: str) -> Judgement:
    """Return the judgement that an item has under a name. Raises FileError with line and key."""
    refuse_unknown(record, _KEYS)
    judge = JudgeIdentity(
        record.text("judge"),
        record.optional_text("profile") or "",
        share(record, "min_score", needed=True) or 0.0,
        record.text("signature"),
        sha256(record, "scoring_key"),
        sha256(record, "fingerprint"),
        0 if record.get("max_grade") is None else record.position("max_grade"),
    )
    status = named(record, "status", Status)
    ok = status is Status.OK
    breakdown = record.record("breakdown")
    judgement = Judgement(
        judge,
        status,
        passed=decision(record, "passed", needed=ok),
        score=share(record, "score", needed=ok),
        source=named(record, "source", Source),
        flags=_flags(record),
        samples=record.position("samples"),
        majority=decision(record, "majority"),
        agreement=share(record, "agreement"),
        rationale=record.optional_text("rationale") or "",
        model=record.optional_text("model") or "",
        error=_error(record),
        breakdown=None if breakdown is None else read_breakdown(breakdown),
        probability=share(record, "probability"),
        stage=None if record.get("stage") is None else record.position("stage"),
        votes=_votes(record),
    )
    _check_verdict(record, judgement)
    _check_judge(record, judgement, name)
    return judgement


def _check_verdict(record: Record, judgement: Judgement) -> None:
    if judgement.status is not Status.OK:
        for key in ("passed", "score", "majority", "agreement", "probability", "stage"):
            if getattr(judgement, key) is not None:
                raise record.error(f"has {key!r}, but its status is {judgement.status.name}")
        return
    score, threshold = judgement.score, judgement.judge.min_score
    if judgement.passed and (score or 0.0) + SLACK < threshold:
        raise record.error(
            f"has 'passed' true, but its score {score} is below its threshold {threshold}"
        )
    if judgement.passed and judgement.majority is False:
        raise record.error("has 'passed' true, but 'majority' false")


def _check_judge(record: Record, judgement: Judgement, name: str) -> None:
    """Raise FileError when the keys that say which judge it was contradict each other."""
    if judgement.name != name:
        raise record.error(f"has the signature of {judgement.name!r}")
    named = judgement.rubric[:2] if judgement.rubric is not None else (None, None)
    for key, value in zip(("rubric", "rubric_version"), named, strict=True):
        if record.optional_text(key) != value:
            raise record.error(f"has another {key!r} than its 'signature', which says {value!r}")


def _votes(record: Record) -> tuple[bool | None, ...]:
    votes = record.get("votes")
    if votes is None:
        return ()
    if not isinstance(votes, list) or not all(v is None or isinstance(v, bool) for v in votes):
        raise record.error("has 'votes' that are not a list of true, false and null")
    if len(votes) != record.position("samples"):
        raise record.error("has 'votes' of another number than 'samples'")
    return tuple(votes)


def _flags(record: Record) -> Flag:
    flags = Flag.NONE
    for name in record.texts("flags"):
        if name not in _FLAGS:
            known = ", ".join(_FLAGS)
            raise record.error(f"has 'flags' with {name!r}; they must be among {known}")
        flags |= Flag[name]
    return flags


def _error(record: Record) -> VerdictError | None:
    error = record.record("error")
    if error is None:
        return None
    refuse_unknown(error, {"code", "reason", "message", "retryable"})
    return VerdictError(
        error.position("code"),
        error.text("reason"),
        error.text("message"),
        decision(error, "retryable", needed=True) or False,
    )
