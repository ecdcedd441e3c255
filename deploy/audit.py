"""Checks what the image installs for known vulnerabilities, with pip-audit and PyPI's advisories.

    python deploy/audit.py [--where-reachable]

Exits 1 if there is one without a valid exception in deploy/accepted-vulnerabilities.txt. If the
advisories can't be reached it prints "not run" and exits 1 too, or 0 with --where-reachable.
"""

# ruff: noqa: INP001, S603, T201 - a script that runs a command and prints

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

DEPLOY = Path(__file__).resolve().parent
LOCK = DEPLOY / "requirements.lock"
ACCEPTED = DEPLOY / "accepted-vulnerabilities.txt"
PIP_AUDIT = Path(sys.executable).with_name("pip-audit")


def accepted(text: str, today: date) -> list[str]:
    """Return the ids whose exception is still valid; lines are `ID YYYY-MM-DD why`."""
    found = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            vulnerability, until, _why = line.split(maxsplit=2)
            if date.fromisoformat(until) >= today:
                found.append(vulnerability)
    return found


def audit(report: str, known: list[str]) -> tuple[list[str], list[str]]:
    """Return the vulnerabilities in a pip-audit report, and the packages it could not look up."""
    found, unknown = [], []
    for package in json.loads(report)["dependencies"]:
        name = package["name"]
        if "skip_reason" in package:
            unknown.append(name)
            continue
        for each in package["vulns"]:
            if not {each["id"], *each["aliases"]} & set(known):
                fixed = ", ".join(each["fix_versions"]) or "no release yet"
                found.append(f"{name} {package['version']}: {each['id']}, fixed in {fixed}")
    return found, unknown


def main(arguments: list[str]) -> int:
    """Run the script; return the exit status."""
    command = [
        str(PIP_AUDIT),
        "--requirement",
        str(LOCK),
        "--require-hashes",
        "--disable-pip",
        "--format",
        "json",
        "--progress-spinner",
        "off",
        "--timeout",
        "15",
    ]
    if not PIP_AUDIT.exists():
        print("pip-audit: not run; it is not installed here; `make audit` installs it")
        return 1
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    not_run = 0 if arguments == ["--where-reachable"] else 1
    if not done.stdout.startswith("{"):
        last = done.stderr.strip().splitlines()[-1:]
        print("pip-audit: not run; PyPI's advisories can't be reached", *last, sep="\n")
        return not_run
    known = accepted(ACCEPTED.read_text(), datetime.now(UTC).date())
    found, unknown = audit(done.stdout, known)
    for each in found:
        print(each)
    if found:
        print("pip-audit: run `make lock`, or accept one for a time in", ACCEPTED.name)
        return 1
    if unknown:
        print(f"pip-audit: not run for {len(unknown)} releases: pip's index here has no advisories")
        print("for them; run it where pypi.org can be reached:", *unknown)
        return not_run
    print("pip-audit: no known vulnerability in what the image installs")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
