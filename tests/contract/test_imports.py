"""No module imports one that imports it, deferred and typing imports included."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def imports_of(package: Path) -> dict[str, set[str]]:
    """Return the modules of a package by name, each with those of the package that it imports."""
    files = {
        ".".join((package.name, *path.relative_to(package).with_suffix("").parts)): path
        for path in package.rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in files.items()}
    found: dict[str, set[str]] = {}
    for name, path in modules.items():
        imported = found[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names} & modules.keys()
            elif isinstance(node, ast.ImportFrom) and node.module in modules:
                of_package = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= (of_package & modules.keys()) or {str(node.module)}
    return found


@pytest.mark.parametrize("package", [Path("server/judged_server"), Path("client/judged")])
def test_no_imports_go_round_in_a_circle(package: Path) -> None:
    graph = imports_of(ROOT / package)
    assert len(graph) > 100
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))
