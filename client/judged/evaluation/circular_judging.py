"""Whether a language model would judge its own answers, or those of its relatives.

Models prefer answers of their own kind (Panickssery, Bowman, Feng (2024), "LLM evaluators recognize
and favor their own generations", arXiv 2404.13076). A family is told by rules, not by a list of
models:

- what stands before the last "/" or before a vendor's "." is a provider's, and so is a region;
- ":" and what follows is a tag, as in `llama3.1:8b`;
- a vendor's name in front of the model's is left out, as in `meta-llama-3`;
- the letters that the rest begins with are the stem: `gpt`, `claude`, `qwen`;
- a few stems belong to another one: `o3` to `gpt`, `mixtral` to `mistral`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from judged.errors import InvalidArgument
from judged.values import ChatModelInfo, Judge, Rubric, ServerInfo


class CircularJudging(UserWarning):
    """A judge's model is that of the system, or of its family: models favour their own kind."""

    __module__ = "judged.evaluation"


def judging_models(info: ServerInfo, judges: Iterable[Judge | Rubric]) -> Iterator[ChatModelInfo]:
    """Yield the models that judges ask, their members included, or that score by rubrics."""
    for judge in judges:
        kind = "answers" if isinstance(judge, Rubric) else judge.kind or info.default_judge
        if kind in {"llm", "answers"}:
            named = judge.parameters.get("model")
            for model in info.chat_models:
                if model.name == named if named else model.is_default:
                    yield model
        members: Any = () if isinstance(judge, Rubric) else judge.members
        yield from judging_models(info, (member.judge for member in members))


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
    asked = judge if isinstance(judge, Judge) else Judge(judge or "")
    tell_circular(system_models, judging_models(info, [asked]), "judge", strict=strict)


def tell_circular(
    systems: str | Iterable[str], models: Iterable[ChatModelInfo], field: str, *, strict: bool
) -> None:
    """Warn of every pair of related models; with `strict` raise InvalidArgument for the first."""
    for remark in circular_remarks(models_of(None, systems), models):
        if strict:
            raise InvalidArgument.of_field(field, remark)
        warnings.warn(remark, CircularJudging, stacklevel=4)


def circular_remarks(systems: Iterable[str], models: Iterable[ChatModelInfo]) -> Iterator[str]:
    """Yield a remark on each model of a system that is one of those which judge, or related."""
    judges = list(dict.fromkeys(model.model for model in models))
    for system in systems:
        family = family_of(system)
        for judge in judges:
            if not family or family != family_of(judge):
                continue
            same = bare_name(system) == bare_name(judge)
            what = "is" if same else f"is of the family {family!r}, as is"
            yield (
                f"the judge's model {judge} {what} that of the system, {system}: models favour "
                "answers of their own kind; judge with a model of another family"
            )


def models_of(source: object, named: str | Iterable[str] = ()) -> list[str]:
    """Return the models of a system: those named, and those that it says itself it is made of.

    It says so by an attribute `system_models`, as Results have it, or `system_model`.
    """
    own = getattr(source, "system_models", ()) or getattr(source, "system_model", ())
    lists = ([each] if isinstance(each, str) else each for each in (named, own))
    return list(dict.fromkeys(str(name) for names in lists for name in names))


_VENDORS = (
    "ai21|amazon|anthropic|cohere|deepseek-ai|google|meta|microsoft|mistral-ai|mistralai|moonshotai"
    "|nvidia|openai|x-ai|xai|zhipu"
)
_AHEAD = re.compile(rf"(?:\s*(?:(?:{_VENDORS})[-.]|(?:us|eu|apac|global)\.))+")
"""What stands before the name of a model, as in us.anthropic.claude."""
_RELATED = {
    "gpt": ("o", "chatgpt", "davinci", "text-davinci", "codex"),
    "mistral": ("mixtral", "ministral", "codestral", "magistral", "devstral", "pixtral"),
    "gemini": ("gemma", "palm", "bison", "chat-bison"),
    "llama": ("codellama", "vicuna", "alpaca"),
    "qwen": ("qwq", "qvq"),
    "nova": ("titan",),
}
_FAMILY_OF = {stem: family for family, stems in _RELATED.items() for stem in stems}
_DATED = re.compile(r"(?:[-@](?:\d{8}|\d{4}-\d{2}-\d{2}|\d{4}|latest|preview)\s*)+$")
_STEM = re.compile(r"text-davinci|chat-bison|[a-z]+")


def bare_name(model: str) -> str:
    """Return a model's name without provider, region, tag and date, in small letters."""
    name = model.lower().rpartition("/")[2].partition(":")[0]
    ahead = _AHEAD.match(name)
    return _DATED.sub("", name[ahead.end() if ahead else 0 :]).strip()


def family_of(model: str) -> str:
    """Return the family of a model by its name, "" for a name without letters in front."""
    found = _STEM.match(bare_name(model))
    return "" if found is None else _FAMILY_OF.get(found[0], found[0])
