"""The snippets of docs/migration.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from judged import Client

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "migration.md").read_text(encoding="utf-8")


def run_snippet(section: str, client: Client, **names: Any) -> Any:
    """Run the Python of a section with a client in place of its own; return what it `found`."""
    code = re.search(rf"^## {section}\n.*?```python\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE)[1]
    opened = 'with Client("127.0.0.1:8470") as client:\n'
    assert opened in code
    variables = {**names, "client": client}
    exec(code.replace(opened, "if True:\n"), variables)  # noqa: S102 - our own page
    return variables["found"]
