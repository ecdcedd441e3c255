"""Options that several commands share, declared once as the fields of a dataclass.

A parameter of a command whose type is such a dataclass stands for all its options.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as typer reads it, with the options of each group in the group's place."""
    types = get_type_hints(command, include_extras=True)
    options: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    for parameter in inspect.signature(command).parameters.values():
        of = types[parameter.name]
        if is_dataclass(of) and isinstance(of, type):
            groups[parameter.name] = of
            inner = get_type_hints(of, include_extras=True)
            options += [
                _option(field.name, field.default, inner[field.name]) for field in fields(of)
            ]
        else:
            options.append(_option(parameter.name, parameter.default, of))

    @wraps(command)
    def flat(**given: Any) -> None:  # noqa: ANN401 - as typer calls it
        for name, of in groups.items():
            given[name] = of(**{field.name: given.pop(field.name) for field in fields(of)})
        command(**given)

    flat.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return flat


def _option(name: str, default: object, of: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=of)
