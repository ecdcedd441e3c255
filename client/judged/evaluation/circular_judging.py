"""Whether a language model would judge its own answers, or those of its relatives."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence

from judged._inputs import as_list
from judged.errors import InvalidArgument
from judged.evaluation.model_families import related
from judged.values import Judge, PanelMember, Rubric, ServerInfo

_OF_MODELS = {"llm", "answers"}


class CircularJudging(UserWarning):
    """A judge's model is that of the system, or of its family: models favour their own kind."""

    __module__ = "judged.evaluation"


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


def circular_remarks(systems: Iterable[str], models: Sequence[str]) -> Iterator[str]:
    """Yield a remark on each model of a system that is one of those which judge, or related."""
    for pair in related(systems, models):
        what = "is" if pair.same else f"is of the family {pair.family!r}, as is"
        yield (
            f"the judge's model {pair.judge} {what} that of the system, {pair.system}: models "
            "favour answers of their own kind; judge with a model of another family"
        )


def check_circular(
    info: ServerInfo,
    judge: Judge | str | None,
    system_models: str | Iterable[str],
    *,
    strict: bool = False,
) -> None:
    """Warn with CircularJudging where a judge asks a model of a system, or one of its family.

    `info` is the server's, as `Client.server_info` returns it; `system_models` are the names of the
    language models that made the texts. The server's default judge is meant by None. With `strict`
    it is no warning: raises InvalidArgument at `judge`. The Evaluators do so by themselves.
    """
    asked = judge if isinstance(judge, Judge) else Judge(judge or info.default_judge)
    tell_circular(system_models, judging_models(info, asked), "judge", strict=strict)


def tell_circular(
    system_models: str | Iterable[str], models: Sequence[str], field: str, *, strict: bool
) -> None:
    """Warn of every pair of related models; with `strict` raise InvalidArgument for the first."""
    named = [system_models] if isinstance(system_models, str) else as_list(system_models)
    for remark in circular_remarks(named, models):
        if strict:
            raise InvalidArgument.of_field(field, remark)
        warnings.warn(remark, CircularJudging, stacklevel=4)


def models_of(source: object, named: str | Sequence[str] = ()) -> list[str]:
    """Return the models of a system: those named, and those that it says itself it is made of.

    It says so by an attribute `system_models`, as Results have it, or `system_model`.
    """
    own = getattr(source, "system_models", ()) or getattr(source, "system_model", ())
    lists = [[each] if isinstance(each, str) else list(each) for each in (named, own)]
    return list(dict.fromkeys(str(name) for names in lists for name in names))


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
