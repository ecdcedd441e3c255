"""Generates the synchronous client from the asynchronous one: async is written, sync is derived.

What differs between the two is written by hand, as pairs of names such as `async_sleep` and
`sleep`, in `_transport/primitives.py` and `connection.py`.

    python proto/sync.py           regenerate in place
    python proto/sync.py --check   exit 1 when what is committed is stale
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "client/judged"
GENERATED = {
    "_transport/async_calls.py": "_transport/calls.py",
    "aio.py": "client.py",
}
HEAD = "# Generated from client/judged/{source} by proto/sync.py. Do not edit.\n"
RULES = (
    (r"\basync (?=def |for |with )", ""),
    (r"\bawait ", ""),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\basync_(?=[a-z])", ""),
    (r"\b__a(?=(enter|exit)__)", "__"),
    (r"\baclosing\b", "closing"),
    (r"\bjudged\.aio\b", "judged.client"),
    (r"\bgrpc\.aio\.Channel\b", "grpc.Channel"),
    (r"\basynchronous", "synchronous"),
)


def derived(source: str) -> str:
    """Return the synchronous form of a module."""
    text = (CLIENT / source).read_text()
    for pattern, replacement in RULES:
        text = re.sub(pattern, replacement, text)
    text = HEAD.format(source=source) + text
    for command in (["check", "--select=I,F401", "--fix"], ["format"]):
        name = str(CLIENT / GENERATED[source])
        ruff = [Path(sys.executable).with_name("ruff"), *command, "--quiet"]
        text = subprocess.run(
            [*ruff, "--stdin-filename", name, "-"],
            input=text,
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    return text


def main() -> int:
    """Generate or check; return the exit status."""
    stale = 0
    for source, target in GENERATED.items():
        file, text = CLIENT / target, derived(source)
        if file.is_file() and file.read_text() == text:
            continue
        if "--check" in sys.argv:
            print(f"stale: {file.relative_to(ROOT)}; run `make proto`", file=sys.stderr)
            stale = 1
        else:
            file.write_text(text)
    return stale


if __name__ == "__main__":
    sys.exit(main())
