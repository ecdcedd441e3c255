"""Whether a language model would judge its own answers, or those of its relatives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import typer

from judged import Judge, PanelMember, Rubric
from judged.cli.output.writer import Output
from judged.evaluation.model_families import related
from judged.types import ServerInfo

_OF_MODELS = {"llm", "answers"}


def judging_models(info: ServerInfo, judge: Judge) -> list[str]:
    """Return the models that a judge asks, its members included, as their providers name them."""
    return list(dict.fromkeys(_asked(info, judge)))


def scoring_models(info: ServerInfo, rubrics: Sequence[Rubric | str]) -> list[str]:
    """Return the models that score answers by some rubrics, as their providers name them."""
    judges = [
        Judge("answers", parameters={} if isinstance(each, str) else each.parameters)
        for each in rubrics
    ]
    return list(dict.fromkeys(name for judge in judges for name in _asked(info, judge)))


def tell_circular(out: Output, systems: Iterable[str], models: Sequence[str]) -> None:
    """Warn where a model of a system is one that judges, or of its family.

    A strict command ends there with 1, before anything is asked.
    """
    for pair in related(systems, models):
        what = "is" if pair.same else f"is of the family {pair.family!r}, as is"
        out.warn(
            f"the judge's model {pair.judge} {what} that of the system, {pair.system}: models "
            "favour answers of their own kind; judge with a model of another family"
        )
        if out.strict:
            out.note("nothing was asked, because of --strict")
            raise typer.Exit(1)


def _asked(info: ServerInfo, judge: Judge) -> Iterator[str]:
    kind = judge.kind or info.default_judge
    if kind in _OF_MODELS:
        named = judge.parameters.get("model")
        for model in info.chat_models:
            if model.name == named or (named is None and model.is_default):
                yield model.model
    for member in judge.members:
        inner = member.judge if isinstance(member, PanelMember) else member
        yield from _asked(info, Judge(inner) if isinstance(inner, str) else inner)
