"""The flags of a panel of language models that scores answers, and the panel that they name.

How the members' scores become one is in `evaluation.answers.score_panel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from judged import AnswerItem, Asking, Client, Rubric
from judged.cli.options.traces import FLAG
from judged.cli.problems import Problem, did_you_mean
from judged.evaluation.answers.score_panel import (
    MEMBERS,
    Combine,
    PanelScores,
    replace_model,
    score_by_panel,
)
from judged.values import ServerInfo

PanelModels = Annotated[
    list[str] | None,
    typer.Option(
        "--member",
        metavar="MODEL",
        help="Language model of a panel, in place of --judge-model, see `judged judges`; repeat it "
        "for each, from 2 to 16.",
    ),
]
CombineFlag = Annotated[
    Combine | None,
    typer.Option(
        "--combine",
        case_sensitive=False,
        help="How the scores of the members become one; mean by default.",
    ),
]


@dataclass(frozen=True, slots=True)
class ScorePanel:
    """The models of a panel, and how their scores are combined; without models, none is asked."""

    models: Sequence[str]
    combine: Combine

    def by_model(self, rubrics: Sequence[Rubric], info: ServerInfo) -> list[list[Rubric]]:
        """Return the rubrics as each member is asked by them, as they are without members.

        Raises Problem for a member that the server lacks.
        """
        known = [model.name for model in info.chat_models]
        for name in self.models:
            if known and name not in known:
                raise Problem(
                    f"--member {name}: no language model is called that; this server has "
                    f"{', '.join(known)}{did_you_mean(name, known)}"
                )
        if not self.models:
            return [list(rubrics)]
        return [[replace_model(rubric, model) for rubric in rubrics] for model in self.models]

    def scores(
        self,
        client: Client,
        items: Sequence[AnswerItem],
        rubrics: Sequence[Rubric],
        *,
        include_replies: bool,
        asking: Asking | None,
        timeout: float,
        progress: Callable[[int, int], object] | None,
    ) -> PanelScores:
        """Return the panel's scores, without members those of the model that the rubrics name."""
        if self.models:
            return score_by_panel(
                *(items, rubrics, self.models),
                client=client,
                combine=self.combine,
                include_replies=include_replies,
                asking=asking,
                timeout=timeout,
                progress=progress,
            )
        scores = client.score_answers(
            *(items, rubrics),
            include_replies=include_replies,
            asking=asking,
            timeout=timeout,
            progress=progress,
        )
        return PanelScores(scores, {})


def read_panel(
    members: Sequence[str] | None,
    combine: Combine | None,
    parameters: Sequence[str],
    *,
    calibrated: bool,
    traced: bool,
) -> ScorePanel:
    """Return the panel that the flags name, without models where they name none. Raises Problem."""
    if not members:
        if combine is not None:
            raise Problem(f"--combine {combine}: is for a panel; name its models by --member")
        return ScorePanel((), Combine.MEAN)
    low, high = MEMBERS
    if not low <= len(members) <= high:
        raise Problem(
            f"--member {members[0]}: a panel has {low} to {high} models, not {len(members)}; for "
            "one alone say --judge-model"
        )
    for place, name in enumerate(members):
        if name in members[:place]:
            raise Problem(f"--member {name}: is given twice; it would count twice")
    if any(text.partition("=")[0] == "model" for text in parameters):
        raise Problem("--member: takes the place of --judge-model; leave that out")
    if calibrated:
        raise Problem("--calibration: is that of one model's scores; leave it out with --member")
    if traced:
        raise Problem(
            f"--member: a trace keeps the scores of one model; leave out --trace and {FLAG}. To "
            "ask no model again, say --cache-only"
        )
    return ScorePanel(members, combine or Combine.MEAN)
