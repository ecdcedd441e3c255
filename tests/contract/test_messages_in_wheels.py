"""What is said to people names nothing that an installed wheel lacks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module that are no docstrings."""
    said = [n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in said:
            yield node.value


def test_no_message_names_a_file_of_the_documentation() -> None:
    sources = [p for part in ("client", "server") for p in (ROOT / part).rglob("*.py")]
    assert len(sources) > 100
    found = [
        f"{path.relative_to(ROOT)}: {text[:80]}"
        for path in sources
        if "_pb2" not in path.name
        for text in texts_of(ast.parse(path.read_text("utf-8")))
        if "docs/" in text and ".md" in text
    ]
    assert found == []
