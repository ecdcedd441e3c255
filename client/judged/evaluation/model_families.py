"""Which models are related, by their names alone: who judges should not be who answered.

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
from collections.abc import Iterable
from dataclasses import dataclass

_VENDORS = {
    *("ai21", "amazon", "anthropic", "cohere", "deepseek-ai", "google", "meta", "microsoft"),
    *("mistral-ai", "mistralai", "moonshotai", "nvidia", "openai", "x-ai", "xai", "zhipu"),
}
_REGIONS = {"us", "eu", "apac", "global"}
_RELATED = {
    "gpt": ("o", "chatgpt", "davinci", "text-davinci", "codex"),
    "mistral": ("mixtral", "ministral", "codestral", "magistral", "devstral", "pixtral"),
    "gemini": ("gemma", "palm", "bison", "chat-bison"),
    "llama": ("codellama", "vicuna", "alpaca"),
    "qwen": ("qwq", "qvq"),
    "nova": ("titan",),
}
_FAMILY_OF = {stem: family for family, stems in _RELATED.items() for stem in stems}
_DATED = re.compile(r"[-@](\d{8}|\d{4}-\d{2}-\d{2}|\d{4}|latest|preview)$")
_STEM = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Related:
    """A model that answered and one that is to judge it; `same` says they are one model."""

    system: str
    judge: str
    family: str
    same: bool


def bare_name(model: str) -> str:
    """Return a model's name without provider, region, tag and date, in small letters."""
    name = model.lower().rpartition("/")[2].partition(":")[0].strip()
    before = None
    while name != before:  # a name may have several of them
        before = name
        vendor, dot, rest = name.partition(".")
        if dot and (vendor in _VENDORS or vendor in _REGIONS):  # us.anthropic.claude-...
            name = rest
        for vendor in _VENDORS:
            name = name.removeprefix(f"{vendor}-")
        name = _DATED.sub("", name).strip()
    return name


def family_of(model: str) -> str:
    """Return the family of a model by its name, "" for a name without letters in front."""
    name = bare_name(model)
    for stem, family in _FAMILY_OF.items():
        if "-" in stem and name.startswith(stem):
            return family
    found = _STEM.match(name)
    return "" if found is None else _FAMILY_OF.get(found[0], found[0])


def related(systems: Iterable[str], judges: Iterable[str]) -> list[Related]:
    """Return the pairs of a system's and a judge's model that are of one family."""
    names = list(judges)
    return [
        Related(system, judge, family_of(system), bare_name(system) == bare_name(judge))
        for system in systems
        for judge in names
        if family_of(system) and family_of(system) == family_of(judge)
    ]
