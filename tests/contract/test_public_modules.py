"""Exceptions show the module that callers import them from, and public types no private one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

import judged
import pytest
from judged.errors import JudgedError

NAMES = "aio arrow canary client errors evaluation labelling report testing traces"
PUBLIC = [f"judged.{name}" for name in NAMES.split()]


def kinds_of(module: str) -> set[type]:
    """Return the classes that a module exports: its `__all__`, else what stands in it."""
    loaded = import_module(module)
    names = getattr(loaded, "__all__", None)
    if names is None:
        found = (kind for name, kind in vars(loaded).items() if not name.startswith("_"))
        return {kind for kind in found if isinstance(kind, type) and kind.__module__ == module}
    return {kind for name in names if isinstance(kind := getattr(loaded, name), type)}


def errors() -> set[type]:
    """Return the exceptions that public modules export, and all that are a JudgedError."""
    for found in walk_packages(judged.__path__, "judged."):
        if not found.name.startswith(("judged.adapters", "judged.cli", "judged.pytest_plugin")):
            import_module(found.name)  # some need an extra, and have no errors for callers
    left: list[type] = [JudgedError]
    for kind in left:
        left += kind.__subclasses__()
    ours = {kind for kind in left if not kind.__module__.startswith(("judged.adapters", "tests"))}
    exported = {kind for module in PUBLIC for kind in kinds_of(module)}
    return ours | {kind for kind in exported if issubclass(kind, BaseException)}


def test_errors_show_where_they_are_imported_from() -> None:
    found = errors()
    assert len(found) > 20
    elsewhere = {kind for kind in found if kind.__module__ not in PUBLIC}
    assert not elsewhere, "set __module__ in the class to the package that exports it"
    for kind in found:
        assert getattr(import_module(kind.__module__), kind.__name__) is kind


@pytest.mark.parametrize("module", ["judged", *PUBLIC])
def test_types_are_importable_from_the_module_that_they_show(module: str) -> None:
    """A dataclass keeps the module of its file: its annotations are names of that file."""
    kinds = kinds_of(module)
    assert kinds
    for kind in kinds:
        assert getattr(import_module(kind.__module__), kind.__name__) is kind
        assert not any(part.startswith("_") for part in kind.__module__.split(".")), kind
