"""Writes the reference of the Python API, docs/python/, from the docstrings of its public names.

python docs/reference.py           write the pages
python docs/reference.py --check   exit 1 when the committed pages are stale
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import ForwardRef

PAGES = Path(__file__).resolve().parent / "python"
WIDTH = 100
_MODULES = re.compile(r"\b(?:typing|collections\.abc|judged(?:\.\w+)*)\.(?=[A-Z])")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class Page:
    """A page: the public names of some modules. Those of a page before are not told again."""

    file: str
    title: str
    first: str
    modules: tuple[str, ...]


CONTENTS = (
    Page(
        "client.md",
        "Client",
        "One method a call of the service. `AsyncClient` has the same ones, to be awaited; its "
        "`judge_stream` and `stream_scores` are iterated over with `async for`.",
        ("judged.client", "judged.aio", "judged.credentials"),
    ),
    Page("errors.md", "Errors", "What calls raise.", ("judged.errors",)),
    Page(
        "types.md",
        "Types",
        "What goes into calls and comes out. Results are frozen; what `judged` itself does not "
        "export is imported from `judged.types`. Most results have `to_dict()` and `to_rows()`, "
        "which JSON and pandas take.",
        ("judged.types",),
    ),
    Page(
        "evaluation.md",
        "Evaluation",
        "Data sets, retrievers and systems, evaluated: `from judged.evaluation import ...`. "
        "The functions that take a `client` are in `judged.evaluation.aio` too, for an "
        "`AsyncClient`. "
        "Reports of results: `from judged.report import ...`. Assertions on them: `from "
        "judged.testing import ...`.",
        ("judged.evaluation", "judged.report", "judged.testing"),
    ),
    Page(
        "traces.md",
        "Traces",
        "Judgements kept in a file, and replays: `from judged.traces import ...`.",
        ("judged.traces",),
    ),
    Page(
        "canary.md",
        "Canary",
        "Fixed items that show when a judge changes: `from judged.canary import ...`.",
        ("judged.canary",),
    ),
    Page(
        "labelling.md",
        "Labelling",
        "Items drawn for people to label, and the labels: `from judged.labelling import ...`.",
        ("judged.labelling",),
    ),
)


def names_of(module: str) -> list[str]:
    """Return the public names of a module: its __all__, else what it defines itself."""
    loaded = importlib.import_module(module)
    if hasattr(loaded, "__all__"):
        return list(loaded.__all__)
    return [
        name
        for name, value in vars(loaded).items()
        if not name.startswith("_")
        and getattr(value, "__module__", "") == module
        and (inspect.isclass(value) or inspect.isfunction(value))
    ]


def write_page(page: Page, told: set[str]) -> str:
    """Return a page; the names on it are added to those that were told."""
    parts = [f"# {page.title}", page.first]
    for module in page.modules:
        loaded = importlib.import_module(module)
        for name in names_of(module):
            value = getattr(loaded, name)
            if name in told or inspect.ismodule(value):
                continue
            told.add(name)
            parts += entry(name, value)
    return "\n\n".join(parts) + "\n"


def entry(name: str, value: object) -> Iterator[str]:
    """Yield the parts of one public name."""
    yield f"## {name}"
    if isinstance(value, type):
        yield from class_entry(name, value)
    elif inspect.isfunction(value):
        yield code(f"{name}{signature(value)}")
        yield text_of(value)
    else:
        yield code(f"{name} = {_MODULES.sub('', repr(value))}")


def class_entry(name: str, value: type) -> Iterator[str]:
    """Yield the parts of a class: how it is made, what it is, its members."""
    if issubclass(value, Enum):
        yield text_of(value)
        yield "\n".join(
            ["| Member | Value |", "|---|---|", *(f"| `{m.name}` | {m.value!r} |" for m in value)]
        )
        return
    if issubclass(value, Exception):
        yield code(f"class {name}({value.__bases__[0].__name__})")
    elif not getattr(value, "_is_protocol", False):
        yield code(f"{name}{signature(value)}")
    if text := text_of(value):
        yield text
    for member, found in members(value):
        if isinstance(found, property):
            yield f"### {name}.{member}"
            yield text_of(found.fget)
        else:
            yield f"### {name}.{member}()"
            function = found.__func__ if isinstance(found, classmethod | staticmethod) else found
            yield code(f"{member}{signature(function)}")
            yield text_of(function)


def members(value: type) -> Iterator[tuple[str, object]]:
    """Yield the public methods and properties of a class, and of the connection it may be."""
    if value.__name__ == "AsyncClient":
        return
    seen: set[str] = set()
    for base in value.__mro__:
        if base is not value and not base.__module__.startswith("judged._transport"):
            continue
        for name, found in vars(base).items():
            bare = found.__func__ if isinstance(found, classmethod | staticmethod) else found
            if name.startswith("_") or name in seen:
                continue
            if (inspect.isfunction(bare) or isinstance(found, property)) and text_of(
                found.fget if isinstance(found, property) else bare
            ):
                seen.add(name)
                yield name, found


def signature(value: object) -> str:
    """Return the signature without self, a parameter a line where one line does not hold it."""
    try:
        found = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return "()"
    listed: list[str] = []
    starred = False
    for parameter in found.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        starred = starred or parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            listed.append("*")
            starred = True
        listed.append(_parameter(parameter))
    returns = found.return_annotation
    end = (
        ""
        if returns in (found.empty, "None") or inspect.isclass(value)
        else f" -> {_type(returns)}"
    )
    line = f"({', '.join(listed)}){end}"
    if len(line) < WIDTH - 30:
        return line
    return "(\n" + "".join(f"    {each},\n" for each in listed) + f"){end}"


def _parameter(parameter: inspect.Parameter) -> str:
    told = parameter.name
    if parameter.kind is parameter.VAR_POSITIONAL:
        told = f"*{told}"
    elif parameter.kind is parameter.VAR_KEYWORD:
        told = f"**{told}"
    if parameter.annotation is not parameter.empty:
        told += f": {_type(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return told
    default = parameter.default
    if (
        dataclasses.is_dataclass(default)
        and not isinstance(default, type)
        and default == type(default)()
    ):
        return f"{told} = {type(default).__name__}()"
    shown = str(default) if isinstance(default, Enum) else repr(default)
    return f"{told} = {'...' if shown == '<factory>' else _ADDRESS.sub('', shown)}"


def _type(annotation: object) -> str:
    if isinstance(annotation, ForwardRef):  # of a NamedTuple
        annotation = annotation.__forward_arg__
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def text_of(value: object) -> str:
    """Return the docstring of a value as a text; none where dataclasses made it."""
    text = getattr(value, "__doc__", None) or ""
    generated = dataclasses.is_dataclass(value) and text.startswith(
        f"{getattr(value, '__name__', '')}("
    )
    return "" if generated else inspect.cleandoc(text)


def code(text: str) -> str:
    """Return a block of Python."""
    return f"```python\n{text}\n```"


def pages() -> dict[str, str]:
    """Return all pages by file name."""
    told: set[str] = set()
    return {page.file: write_page(page, told) for page in CONTENTS}


def main() -> int:
    """Write or check; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only, change nothing")
    check = parser.parse_args().check
    made = pages()
    there = {path.name: path.read_text(encoding="utf-8") for path in PAGES.glob("*.md")}
    stale = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    if check:
        for name in stale:
            print(f"stale: docs/python/{name}; run `make reference` and commit it", file=sys.stderr)
        return 1 if stale else 0
    PAGES.mkdir(exist_ok=True)
    for name in stale:
        if name in made:
            (PAGES / name).write_text(made[name], encoding="utf-8")
        else:
            (PAGES / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
