"""Judges that are Python functions of the caller: nothing of theirs leaves the process."""

from __future__ import annotations

import hashlib
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judged.types import Context, JudgeIdentity, QueryGroup, Source, Status, VerdictError, Verdicts

JudgeFunction = Callable[[Context], bool | float | None]
"""Says of a context whether it is relevant, or how much from 0 to 1; None abstains."""

_INVALID_ARGUMENT, _INTERNAL = 3, 13


@dataclass(frozen=True, slots=True)
class LocalJudge:
    """A function that judges contexts here. A score counts as relevant from `min_score` on.

    Its signature has the function's name and a hash of its source, so that numbers of a changed
    judge are not taken for those of the old one; set `version` where what it decides by lies
    elsewhere, in a model or a file. An exception is the error of its context alone.
    """

    function: JudgeFunction
    name: str = ""
    version: str = ""
    min_score: float = 0.5

    @property
    def identity(self) -> JudgeIdentity:
        """What results name the judge by."""
        name = self.name or _name_of(self.function)
        source = _source_of(self.function)
        key = hashlib.sha256(f"{name}\n{self.version}\n{source}".encode()).hexdigest()
        parts = ["local", name, f"sha:{key[:8]}"]
        parts += [f"version:{self.version}"] * bool(self.version)
        signature = "|".join([*parts, f"min_score:{self.min_score:g}"])
        fingerprint = hashlib.sha256(f"{key}\n{self.min_score!r}".encode()).hexdigest()
        return JudgeIdentity("local", name, self.min_score, signature, key, fingerprint)

    def judge(self, groups: Sequence[QueryGroup]) -> Verdicts:
        """Return a verdict for each context of groups, retrieved-major."""
        relevant: list[bool] = []
        score: list[float] = []
        status: list[int] = []
        errors: dict[int, VerdictError] = {}
        offsets = [0]
        for group in groups:
            for retrieved in group.retrieved:
                for expected in group.expected:
                    context = Context(group.query, expected, retrieved)
                    said, error = self._ask(context)
                    if error is not None:
                        errors[len(status)] = error
                    status.append(int(_status(said, error)))
                    score.append(said or 0.0)
                    relevant.append(said is not None and said + 1e-9 >= self.min_score)
            offsets.append(len(status))
        n = len(status)
        source, flags = [int(Source.COMPUTED)] * n, [0] * n
        return Verdicts(
            *(relevant, score, status, source, flags, offsets, errors, self.identity), groups=groups
        )

    def _ask(self, context: Context) -> tuple[float | None, VerdictError | None]:
        try:
            said = self.function(context)
        except Exception as error:  # noqa: BLE001 - it is that context's error
            problem = f"{type(error).__name__}: {error}"
            return None, VerdictError(_INTERNAL, "JUDGE_FAILED", problem, retryable=False)
        if said is None:
            return None, VerdictError(0, "ABSTAINED", "the judge returned None", retryable=False)
        try:
            score = float(said)
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if not 0 <= score <= 1:
            rule = f"the judge returned {said!r}; return True, False, a score from 0 to 1, or None"
            return None, VerdictError(_INVALID_ARGUMENT, "INVALID_SCORE", rule, retryable=False)
        return score, None


def as_local(judge: object) -> LocalJudge | None:
    """Return the local judge that a function is, or that was given; None for judges of a server."""
    if isinstance(judge, LocalJudge):
        return judge
    return LocalJudge(judge) if callable(judge) else None


def _status(said: float | None, error: VerdictError | None) -> Status:
    if said is not None:
        return Status.OK
    abstained = error is not None and error.reason == "ABSTAINED"
    return Status.ABSTAINED if abstained else Status.ERROR


def _name_of(function: JudgeFunction) -> str:
    kind = type(function)
    name = getattr(function, "__qualname__", kind.__qualname__)
    return f"{getattr(function, '__module__', kind.__module__)}.{name}"


def _source_of(function: JudgeFunction) -> str:
    """Return the source of a function, or of an object's class; "" where there is none."""
    for part in (function, type(function)):
        try:
            return inspect.getsource(part)
        except (TypeError, OSError):
            continue
    return ""
