from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def test_the_readme_example_prints_what_the_readme_says(server_address: str):
    code, output = re.search(r"```python\n(.*?)```\s+```\n(.*?)```", README, re.DOTALL).groups()
    assert '"127.0.0.1:8470"' in code
    here = code.replace("127.0.0.1:8470", server_address)
    printed = subprocess.run(
        [sys.executable, "-c", here], capture_output=True, text=True, check=True
    )
    assert printed.stdout == output
