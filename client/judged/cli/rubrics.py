"""The options of commands that score answers, and the rubrics, panels and gates that they make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from judged import Rubric
from judged._inputs import read_number
from judged.cli.frame import opt
from judged.cli.gates import coverage_outcomes, hold_mean, not_assessed
from judged.cli.judging import AskingOptions, ModelOptions, read_calibration, read_judge
from judged.cli.output import Gate, Outcome
from judged.cli.problems import Places, Problem, did_you_mean
from judged.evaluation.answers.score_panel import (
    MEMBERS,
    Combine,
    replace_model,
)
from judged.values import RubricSummary, ServerInfo

ANSWERS = "answers"
"""The judge whose parameters are those of every rubric."""
ANSWER_FIELDS = frozenset(
    {
        *("query", "answer", "other_answer", "reference", "references", "contexts"),
        *("sources_used", "confidence"),
    }
)
"""What a rubric that scores answers may read; one that reads more is for contexts."""


@dataclass(kw_only=True)
class ScoringOptions(ModelOptions, AskingOptions):
    """Which language model scores, and how it is asked."""

    judge_model: str | None = opt("NAME", "Language model, see `judged judges`.")
    judge_samples: int | None = opt(
        "N", "Samples of each score; by default 1 at temperature 0 and 3 above."
    )


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
        for rubric in gated if min_coverage is None else found:
            counts = found[rubric].counts
            covered = [(counts.ok, counts.error + counts.abstained, "scores")]
            gates += coverage_outcomes(min_coverage, covered, rubric)
        return gates


def read_thresholds(texts: Sequence[str], rubrics: Sequence[str]) -> Thresholds:
    """Return the threshold and the gates of `--min-score`. Raises Problem."""
    rubrics = [id_of(name) for name in rubrics]
    thresholds: list[float] = []
    gates = []
    for text in texts:
        rubric, equals, number = text.rpartition("=")
        rubric = id_of(rubric)
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


def id_of(rubric: str) -> str:
    """Return a rubric's id without its version."""
    return rubric.partition("@")[0]


def places_of_rubrics(names: Sequence[str]) -> Places:
    """Return what the rubrics of a request are known as."""
    return {
        r"rubrics\[(\d+)\]\.calibration.*": lambda n: f"--rubric {names[int(n)]}: --calibration",
        r"rubrics\[(\d+)\](?:\.(?:rubric|id|version))?": lambda n: f"--rubric {names[int(n)]}",
    }


def read_rubrics(
    names: Sequence[str],
    info: ServerInfo,
    threshold: float | None,
    parameters: Sequence[str],
    weights: str | None = None,
) -> list[Rubric]:
    """Return the rubrics that the flags ask for. Raises Problem."""
    if not any(judge.kind == ANSWERS for judge in info.judges):
        raise Problem(
            f"this server does not offer the judge {ANSWERS!r}, which scores and compares answers; "
            "`judged judges` lists what it offers; ask its operator, or name another --target"
        )
    known = {rubric.rubric: rubric for rubric in info.rubrics}
    for place, name in enumerate(names):
        if id_of(name) in map(id_of, names[:place]):
            raise Problem(f"--rubric {name}: is given twice")
        if known and id_of(name) not in known:
            here = [r.rubric for r in info.rubrics if ANSWER_FIELDS.issuperset(r.fields)]
            own = "; for one of yours, start the server with --rubrics-dir FOLDER"
            raise Problem(
                f"--rubric {name}: no rubric has this id; this server scores answers by "
                f"{', '.join(here) or 'none that it offers'}{did_you_mean(id_of(name), here, own)}"
            )
    asked = read_judge(info, ANSWERS, None, None, parameters).parameters
    given = {} if weights is None else _read_weights(weights)
    has = {id_of(name): list(known[id_of(name)].dimensions) for name in names if known}
    fit = {name for name, dimensions in has.items() if set(given) <= set(dimensions)}
    if given and not fit:
        listed = "; ".join(f"{name} has {', '.join(of)}" for name, of in has.items() if of)
        if not listed:
            raise Problem(f"--weights: no rubric of {', '.join(has)} has dimensions; leave it out")
        raise Problem(f"--weights: no rubric has all of {', '.join(given)}; {listed}")
    return [Rubric(name, threshold, asked, given if id_of(name) in fit else {}) for name in names]


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


def with_calibrations(
    rubrics: Sequence[Rubric], info: ServerInfo, given: Sequence[str]
) -> list[Rubric]:
    """Return the rubrics with the calibrations that the flags name. Raises Problem."""
    found = {rubric.id: rubric for rubric in rubrics}
    for text in given:
        name, equals, source = text.partition("=")
        if not equals or name not in found:
            if len(found) > 1:
                raise Problem(
                    f"--calibration {text}: say which rubric it is of, RUBRIC=FILE, one of "
                    f"{', '.join(found)}"
                )
            (name,), source = found, text
        if found[name].calibration is not None:
            raise Problem(f"--calibration {text}: {name} has one already")
        found[name] = replace(found[name], calibration=read_calibration(info, source))
    return [*found.values()]


def by_model(
    rubrics: Sequence[Rubric], models: Sequence[str], info: ServerInfo
) -> list[list[Rubric]]:
    """Return the rubrics as each member of a panel is asked by them, else as they are.

    Raises Problem for a member that the server lacks.
    """
    known = [model.name for model in info.chat_models]
    for name in models:
        if known and name not in known:
            raise Problem(
                f"--member {name}: no language model is called that; this server has "
                f"{', '.join(known)}{did_you_mean(name, known)}"
            )
    if not models:
        return [list(rubrics)]
    return [[replace_model(rubric, model) for rubric in rubrics] for model in models]


def check_panel(options: ScoringOptions, members: Sequence[str], combine: Combine | None) -> None:
    """Raise Problem for a panel that can't be asked, or where there is none to combine."""
    if not members:
        if combine is not None:
            raise Problem(f"--combine {combine}: is for a panel; name its models by --member")
        return
    low, high = MEMBERS
    if not low <= len(members) <= high:
        raise Problem(
            f"--member {members[0]}: a panel has {low} to {high} models, not {len(members)}; for "
            "one alone say --judge-model"
        )
    for place, name in enumerate(members):
        if name in members[:place]:
            raise Problem(f"--member {name}: is given twice; it would count twice")
    if any(text.partition("=")[0] == "model" for text in options.parameters()):
        raise Problem("--member: takes the place of --judge-model; leave that out")
