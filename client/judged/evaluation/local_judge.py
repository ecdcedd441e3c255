"""Judges that are Python functions of the caller: nothing of theirs leaves the process."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

from judged.errors import InvalidArgument, WrongType
from judged.evaluation.recorded import RecordedJudge
from judged.values import (
    Context,
    Flag,
    Judge,
    JudgeIdentity,
    QueryGroup,
    RubricInfo,
    Source,
    Status,
    Verdict,
    VerdictError,
    Verdicts,
)

JudgeFunction = Callable[[Context], bool | float | None]
"""Says of a context whether it is relevant, or how much from 0 to 1; None abstains."""


class JudgeObject(Protocol):
    """An object that judges contexts, as Evret's judges do."""

    def judge(self, context: Any, /) -> bool | float | None:  # noqa: ANN401 - Evret's has a class of its own
        """Return what a JudgeFunction does."""
        ...


_INVALID_ARGUMENT, _INTERNAL = 3, 13


@dataclass(frozen=True)
class LocalJudge:
    """A function, or an object with a method `judge`, that judges contexts here.

    A score counts as relevant from `min_score` on. With `max_grade` the function returns grades
    from 0 to max_grade, which are the gains of metrics that weigh them; the score is the grade
    divided by max_grade.

    Its signature has the function's name and a hash of its source, and of what an object holds in
    plain values, so that numbers of a changed judge are not taken for those of the old one; set
    `version` where what it decides by lies elsewhere, in a model or a file. An exception is the
    error of its context alone.
    """

    function: JudgeFunction | JudgeObject
    name: str = ""
    version: str = ""
    min_score: float = 0.5
    max_grade: int = 0

    @cached_property
    def identity(self) -> JudgeIdentity:
        """What results name the judge by: as it is first asked, however its file is edited."""
        function, kind = self.function, type(self.function)
        module = getattr(function, "__module__", kind.__module__)
        name = self.name or f"{module}.{getattr(function, '__qualname__', kind.__qualname__)}"
        grades = [str(self.max_grade)] if self.max_grade else []
        made_of = "\n".join([name, self.version, _source_of(function), *grades])
        key = hashlib.sha256(made_of.encode()).hexdigest()
        version = [f"version:{self.version}"] if self.version else []
        parts = [*version, *(f"max_grade:{top}" for top in grades), f"min_score:{self.min_score:g}"]
        signature = "|".join(["local", name, f"sha:{key[:8]}", *parts])
        fingerprint = hashlib.sha256(f"{key}\n{self.min_score!r}".encode()).hexdigest()
        return JudgeIdentity(
            "local", name, self.min_score, signature, key, fingerprint, self.max_grade
        )

    def verdicts(self, groups: Sequence[QueryGroup], _: Sequence[RubricInfo] = ()) -> Verdicts:
        """Return a verdict for each context of groups, retrieved-major."""
        if any(group.spans is not None for group in groups):
            rule = (
                "a function judges texts, and the data set expects spans; name the judge span, "
                "or give its queries expected_answers"
            )
            raise InvalidArgument.of_field("judge", rule)
        verdicts = [
            self._ask(Context(group.query, expected, retrieved))
            for group in groups
            for retrieved in group.retrieved
            for expected in group.expected
        ]
        sizes = (len(group.expected) * len(group.retrieved) for group in groups)
        offsets = list(accumulate(sizes, initial=0))
        return Verdicts.of(verdicts, offsets, self.identity, groups=groups)

    def _ask(self, context: Context) -> Verdict:
        try:
            judges = self.function if callable(self.function) else self.function.judge
            said = judges(context)
        except Exception as error:  # noqa: BLE001 - it is that context's error
            return _missing(_INTERNAL, "JUDGE_FAILED", f"{type(error).__name__}: {error}")
        if said is None:
            return _missing(0, Status.ABSTAINED.name, "the judge returned None")
        top = self.max_grade or 1
        try:
            score = float(said) / top
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if 0 <= score <= 1:
            relevant = score + 1e-9 >= self.min_score
            return Verdict(Status.OK, relevant, score, Source.COMPUTED, Flag.NONE, None)
        rule = f"the judge returned {said!r}; return True, False, None or a score from 0 to {top}"
        if score > 1 and not self.max_grade:
            rule += "; for grades name the highest, LocalJudge(..., max_grade=3)"
        return _missing(_INVALID_ARGUMENT, "INVALID_SCORE", rule)


def _missing(code: int, reason: str, message: str) -> Verdict:
    status = Status.ERROR if code else Status.ABSTAINED
    error = VerdictError(code, reason, message, retryable=False)
    return Verdict(status, None, None, Source.COMPUTED, Flag.NONE, error)


AnyJudge = Judge | RecordedJudge | JudgeFunction | JudgeObject | str | None


def as_judge(judge: AnyJudge) -> Judge | RecordedJudge | str | None:
    """Return a judge with a function or an object as the LocalJudge that it is.

    Raises WrongType for what is no judge.
    """
    if judge is None or isinstance(judge, Judge | str | RecordedJudge):
        return judge
    if callable(judge) or callable(getattr(judge, "judge", None)):
        return LocalJudge(judge)
    rule = (
        "must be a judge's name, a Judge, a function of a Context or an object with a method judge"
    )
    raise WrongType.of_field("judge", f"{rule}, not {type(judge).__name__}")


def _source_of(function: JudgeFunction | JudgeObject) -> str:
    """Return the source of a function, or of an object's class and the plain values it holds.

    "" where there is no source.
    """
    for part in (function, type(function)):
        try:
            source = inspect.getsource(part)  # type: ignore[arg-type]  # it raises TypeError
        except (TypeError, OSError):
            continue
        held = {} if part is function else getattr(function, "__dict__", {})
        plain = {name: v for name, v in held.items() if isinstance(v, str | int | float | None)}
        return source + "".join(f"\n{name}={plain[name]!r}" for name in sorted(plain))
    return ""
