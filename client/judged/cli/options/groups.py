"""From the parameters of a command to its options.

A parameter whose type is a dataclass stands for all its fields, which several commands may share.
One whose type is an IntEnum of the contract takes its names, in small letters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import IntEnum, StrEnum
from functools import wraps
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as typer reads it, with the options of each group in the group's place."""
    types = get_type_hints(command, include_extras=True)
    options: list[inspect.Parameter] = []
    groups: dict[str, type] = {}
    choices: dict[str, type[IntEnum]] = {}

    def add(name: str, default: object, of: object) -> None:
        if (kind := _choice(of)) is not None:
            choices[name] = kind
            default, of = _by_names(kind, default, of)
        kept = inspect.Parameter.KEYWORD_ONLY
        options.append(inspect.Parameter(name, kept, default=default, annotation=of))

    for parameter in inspect.signature(command).parameters.values():
        of = types[parameter.name]
        if is_dataclass(of) and isinstance(of, type):
            groups[parameter.name] = of
            inner = get_type_hints(of, include_extras=True)
            for field in fields(of):
                add(field.name, field.default, inner[field.name])
        else:
            add(parameter.name, parameter.default, of)

    @wraps(command)
    def flat(**given: Any) -> None:  # noqa: ANN401 - as typer calls it
        for name, kind in choices.items():
            given[name] = given[name] and kind[given[name].name]
        for name, of in groups.items():
            given[name] = of(**{field.name: given.pop(field.name) for field in fields(of)})
        command(**given)

    flat.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    return flat


def _choice(of: object) -> type[IntEnum] | None:
    """Return the IntEnum that an option takes, None for other options."""
    if get_origin(of) is not Annotated:
        return None
    declared = get_args(of)[0]
    kinds = [kind for kind in get_args(declared) or [declared] if isinstance(kind, type)]
    return next((kind for kind in kinds if issubclass(kind, IntEnum)), None)


def _by_names(kind: type[IntEnum], default: Any, of: object) -> tuple[object, object]:  # noqa: ANN401 - a member
    """Return the default and the type of an option whose members go by names in small letters."""
    declared, *information = get_args(of)
    members = [(name, name.lower()) for name in kind.__members__]
    names: Any = StrEnum(kind.__name__, members)  # type: ignore[misc]  # no literal
    taken = names | None if NoneType in get_args(declared) else names
    default = names[default.name] if isinstance(default, kind) else default
    return default, Annotated[(taken, *information)]
