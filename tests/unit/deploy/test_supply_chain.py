"""What the image installs is locked by hashes, and asked about; deploy/lock.py, deploy/audit.py."""

from __future__ import annotations

import json
import re
import sys
from datetime import date
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
PIN = re.compile(r"^([a-z0-9-]+)==([^ ]+) ", re.MULTILINE)


def script(name: str) -> ModuleType:
    spec = spec_from_file_location(name, ROOT / "deploy" / f"{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lock, audit = script("lock"), script("audit")
LOCKS = sorted(path.name for path in lock.requirements())


def wanted(name: str) -> list[str]:
    return lock.requirements()[ROOT / "deploy" / name]


def test_the_locks_are_of_what_the_project_asks_for():
    assert lock.stale() == [], "run: make lock"


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_all_that_is_asked_for(name: str):
    pins: dict[str, list[str]] = {}
    for package, version in PIN.findall((ROOT / "deploy" / name).read_text()):
        pins.setdefault(package, []).append(version)
    for line in wanted(name):
        requirement = Requirement(line)
        versions = pins[canonicalize_name(requirement.name)]
        assert any(requirement.specifier.contains(version) for version in versions), line


@pytest.mark.parametrize("name", LOCKS)
def test_every_release_of_a_lock_has_hashes(name: str):
    text = (ROOT / "deploy" / name).read_text()
    releases = re.split(r"\n(?=\S)", text.strip())[1:]
    assert releases
    assert not [each for each in releases if "--hash=sha256:" not in each]


@pytest.mark.parametrize("change", ["another>=1", ""])
def test_a_lock_is_stale_once_something_else_is_asked_for(monkeypatch, change: str):
    changed = {
        path: [*names, change] if change else names[1:]
        for path, names in lock.requirements().items()
    }
    monkeypatch.setattr(lock, "requirements", lambda: changed)
    assert len(lock.stale()) == len(LOCKS)


def test_the_image_is_installed_by_the_locks():
    steps = (ROOT / "deploy/image-steps.sh").read_text()
    installs = re.findall(r"-m pip install (.*)", steps)
    assert installs
    for each in installs:
        assert each.startswith("$locked/") or "--no-index" in each, each
    assert "--require-hashes --only-binary=:all:" in steps
    for name in LOCKS:
        assert f"deploy/{name}" in (ROOT / "Dockerfile").read_text()
        assert f"!deploy/{name}" in (ROOT / ".dockerignore").read_text()


REPORT = {
    "dependencies": [
        {
            "name": "aiohttp",
            "version": "3.0",
            "vulns": [
                {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["3.1"]},
                {"id": "PYSEC-2", "aliases": ["CVE-2"], "fix_versions": []},
            ],
        },
        {"name": "numpy", "version": "2.0", "vulns": []},
        {"name": "unheard-of", "skip_reason": "not on PyPI"},
    ]
}


def test_what_is_known_and_not_accepted_is_told():
    found, unknown = audit.audit(json.dumps(REPORT), ["CVE-2"])
    assert found == ["aiohttp 3.0: PYSEC-1, fixed in 3.1"]
    assert unknown == ["unheard-of"]


def test_what_was_accepted_counts_until_its_day():
    text = "# comment\n\nCVE-1 2026-01-31 we call no server\nCVE-2 2026-02-28 nor that\n"
    assert audit.accepted(text, date(2026, 1, 31)) == ["CVE-1", "CVE-2"]
    assert audit.accepted(text, date(2026, 2, 1)) == ["CVE-2"]
    audit.accepted(audit.ACCEPTED.read_text(), date(2026, 1, 1))  # it can be read


def fake_pip_audit(tmp_path: Path, prints: str) -> Path:
    path = tmp_path / "pip-audit"
    path.write_text(f"#!{sys.executable}\nprint({prints!r})\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("prints", "needed", "where_reachable", "said"),
    [
        (json.dumps(REPORT), 1, 1, "PYSEC-2"),
        (json.dumps({"dependencies": REPORT["dependencies"][1:]}), 1, 0, "not run for 1"),
        (json.dumps({"dependencies": REPORT["dependencies"][1:2]}), 0, 0, "no known"),
        ("no network", 1, 0, "not run; PyPI's advisories can't be reached"),
    ],
)
def test_an_audit_that_could_not_be_made_passes_only_where_it_may(
    monkeypatch, tmp_path, capsys, prints, needed, where_reachable, said
):
    monkeypatch.setattr(audit, "PIP_AUDIT", fake_pip_audit(tmp_path, prints))
    assert audit.main([]) == needed
    assert said in capsys.readouterr().out
    assert audit.main(["--where-reachable"]) == where_reachable
