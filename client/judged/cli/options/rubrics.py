"""The flags of `judged score`, and their way into rubrics and gates.

Whether a value is allowed is the server's to say; what it says of a field is turned back into a
flag here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from judged import InvalidArgument, JudgedError, NotFound, Rubric
from judged._inputs import read_number
from judged.cli.field_path import Key, read_path
from judged.cli.options.asking import ModelFlags
from judged.cli.options.judges import read_judge
from judged.cli.output.gates import Gate, Outcome, coverage_outcomes, hold_mean, not_assessed
from judged.cli.problems import Problem, did_you_mean
from judged.values import RubricSummary, ServerInfo

ANSWERS = "answers"
"""The judge whose parameters are those of every rubric."""
ANSWER_FIELDS = frozenset(
    {
        "query",
        "answer",
        "other_answer",
        "reference",
        "references",
        "contexts",
        "sources_used",
        "confidence",
    }
)
"""What a rubric that scores answers may read; one that reads more is for contexts."""

Rubrics = Annotated[
    list[str],
    typer.Option(
        "--rubric",
        metavar="ID[@VERSION]",
        help="Rubric to score by, see `judged judges`; may be repeated. With a version, another "
        "one of the server's is refused.",
    ),
]
MinScores = Annotated[
    list[str] | None,
    typer.Option(
        "--min-score",
        metavar="X|RUBRIC=X",
        help="A number: score from which an answer passes. RUBRIC=X, a gate: exit with 1 when the "
        "mean of the rubric is below X, scores that are missing counted as 0; may be repeated.",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=W,...",
        help="Weights of a rubric's dimensions, as in accuracy=2,completeness=1; a dimension left "
        "out counts for nothing.",
    ),
]
Details = Annotated[
    bool,
    typer.Option("--details", help="Give reasoning, claims, replies and usage with each score."),
]
PerItem = Annotated[
    bool, typer.Option("--per-item", help="Show the scores of every answer, not only the means.")
]


@dataclass(frozen=True, slots=True)
class RubricModelFlags(ModelFlags):
    """Which language model scores, and how it is asked."""

    judge_model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Language model, see `judged judges`.")
    ] = None
    judge_samples: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Samples of each score; by default 1 at temperature 0 and 3 above."
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What `--min-score` said: the threshold of an answer, and the gates on means."""

    threshold: float | None
    gates: Sequence[Gate]

    def outcomes(
        self, summaries: Sequence[RubricSummary], min_coverage: float | None
    ) -> list[Outcome]:
        """Return what became of every gate, with the coverage of what they are about."""
        found = {summary.rubric: summary for summary in summaries}
        gates = [_outcome(gate, found[gate.metric]) for gate in self.gates]
        gated = dict.fromkeys(gate.metric for gate in self.gates)
        if min_coverage is not None:
            gated = dict.fromkeys(found)
        for rubric in gated:
            counts = found[rubric].counts
            covered = [(counts.ok, counts.error + counts.abstained, "scores")]
            gates += coverage_outcomes(min_coverage, covered, rubric)
        return gates


def read_thresholds(texts: Sequence[str], rubrics: Sequence[str]) -> Thresholds:
    """Return the threshold and the gates of `--min-score`. Raises Problem."""
    rubrics = [_id(name) for name in rubrics]
    thresholds: list[float] = []
    gates = []
    for text in texts:
        rubric, equals, number = text.rpartition("=")
        rubric = _id(rubric)
        value = read_number(number)
        if value is None or (equals and not rubric):
            raise Problem(
                f"--min-score {text}: the threshold of an answer is written 0.7, a gate on a mean "
                "RUBRIC=X, as in faithfulness=0.8"
            )
        if not equals:
            thresholds.append(value)
        elif rubric not in rubrics:
            raise Problem(
                f"--min-score {text}: {rubric} is not scored; add --rubric {rubric}, or name one "
                f"of {', '.join(rubrics)}"
            )
        else:
            gates.append(Gate("--min-score", rubric, value))
    if len(thresholds) > 1:
        raise Problem(
            f"--min-score {thresholds[1]:g}: an answer's threshold is {thresholds[0]:g} already"
        )
    return Thresholds(thresholds[0] if thresholds else None, gates)


def _outcome(gate: Gate, summary: RubricSummary) -> Outcome:
    """Hold a rubric's mean against its threshold, with what is missing at the bottom of the scale.

    What is not assessable is not missing: there is nothing that could be scored.
    """
    counts, mean = summary.counts, summary.mean
    if mean is None:
        return not_assessed(gate, f"{gate.metric} has no mean, since no answer has a score")
    missing = counts.error + counts.abstained
    lower = mean * counts.ok / (counts.ok + missing) if missing else None
    return hold_mean(gate, mean, lower)


def _id(rubric: str) -> str:
    """Return a rubric's id without its version."""
    return rubric.partition("@")[0]


def check_rubrics(names: Sequence[str], info: ServerInfo) -> None:
    """Raise Problem for a rubric that is given twice or that the server does not offer."""
    if not any(judge.kind == ANSWERS for judge in info.judges):
        raise Problem(
            f"this server does not offer the judge {ANSWERS!r}, which scores and compares answers; "
            "`judged judges` lists what it offers; ask its operator, or name another --target"
        )
    known = {rubric.rubric: rubric.version for rubric in info.rubrics}
    fit = [rubric.rubric for rubric in info.rubrics if ANSWER_FIELDS.issuperset(rubric.fields)]
    for place, name in enumerate(names):
        rubric, pinned, version = name.partition("@")
        if rubric in map(_id, names[:place]):
            raise Problem(f"--rubric {name}: is given twice")
        if pinned and version != known.get(rubric, version):
            has = f"{rubric}@{known[rubric]}"
            raise Problem(f"--rubric {name}: this server has {has}; name that, or {rubric} alone")
        if known and rubric not in known:
            own = "; for one of yours, start the server with --rubrics-dir FOLDER"
            hint = did_you_mean(rubric, fit, own)
            has = ", ".join(fit) or "none that it offers"
            raise Problem(
                f"--rubric {name}: no rubric has this id; this server scores answers by {has}{hint}"
            )


def read_rubrics(
    names: Sequence[str],
    info: ServerInfo,
    threshold: float | None,
    parameters: Sequence[str],
    weights: str | None,
) -> list[Rubric]:
    """Return the rubrics that the flags ask for. Raises Problem."""
    check_rubrics(names, info)
    asked = read_judge(info, ANSWERS, None, None, parameters).parameters
    given = {} if weights is None else _read_weights(weights)
    weighted = _weighted([_id(name) for name in names], info, given)
    return [
        Rubric(name, threshold, asked, given if _id(name) in weighted else {}) for name in names
    ]


def _read_weights(text: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        weight = read_number(number)
        if not name or weight is None or weight < 0:
            raise Problem(
                f"--weights {text}: write name=weight with weights of 0 or more, as in "
                "accuracy=2,completeness=1"
            )
        if name in weights:
            raise Problem(f"--weights {text}: {name} is given twice")
        weights[name] = weight
    return weights


def _weighted(names: Sequence[str], info: ServerInfo, weights: Mapping[str, float]) -> set[str]:
    """Return the rubrics that the weights are for: those that have all the dimensions named."""
    if not weights:
        return set()
    dimensions = {r.rubric: list(r.dimensions) for r in info.rubrics if r.rubric in names}
    fit = {name for name, known in dimensions.items() if set(weights) <= set(known)}
    if fit:
        return fit
    listed = "; ".join(f"{name} has {', '.join(of)}" for name, of in dimensions.items() if of)
    unknown = ", ".join(weights)
    if not listed:
        raise Problem(f"--weights: no rubric of {', '.join(names)} has dimensions; leave it out")
    raise Problem(f"--weights: no rubric has all of {unknown}; {listed}")


def as_flag(error: JudgedError, names: Sequence[str]) -> Problem | None:
    """Return an error about a rubric in words of the command line; None for any other error."""
    if isinstance(error, NotFound) and error.reason == "UNKNOWN_RUBRIC":
        return Problem(f"--rubric: {error.message}")
    if not isinstance(error, InvalidArgument):
        return None
    match read_path(error.field):
        case ("rubrics", int(place), *_) if place >= len(names):
            return None
        case ("rubrics", int(), "parameters", Key(name)):
            flag = f"--param {name}"
        case ("rubrics", int(), ("min_score" | "weights") as field, *_):
            flag = "--min-score" if field == "min_score" else "--weights"
        case ("rubrics", int(place), "calibration", *_):
            flag = f"--rubric {names[place]}: --calibration"
        case ("rubrics", int(place), *_):
            flag = f"--rubric {names[place]}"
        case _:
            return None
    return Problem(f"{flag}: {error.message.removeprefix(f'{error.field}: ')}")
