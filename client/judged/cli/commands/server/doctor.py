"""`judged doctor`: whether everything is there to judge, and what to do about what is not."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec

from judged.cli.connection import Access, connect
from judged.cli.defaults import FILE_VARIABLE, PREFIX
from judged.cli.options.server import ServerFlags
from judged.cli.output.writer import new_table
from judged.cli.problems import Problem
from judged.values import ServerInfo

_EXTRAS = {
    "server": ("judged_server", "numpy", "pydantic_settings", "uvloop", "onnxruntime"),
    "cli": ("jinja2", "rich", "typer"),
}
_PACKAGES = ("judged", "grpcio", "protobuf")
_SECRET = ("TOKEN", "KEY", "SECRET", "PROXY")


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, and what to do about it; `status` is ok, note or problem."""

    check: str
    status: str
    found: str


def command(
    shared: ServerFlags,
) -> None:
    """Check that everything is there to judge.

    Ends with 2 where something is not.
    """
    out = shared.output()
    findings = [*_packages(), *_variables()]
    findings += _server(shared)
    view = new_table("check", "", "found")
    for column in view.columns[1:]:
        column.justify = "left"
        column.no_wrap = False
    for one in findings:
        view.add_row(one.check, one.status, one.found)
    out.show(view)
    problems = [one for one in findings if one.status == "problem"]
    out.write_json({"findings": [asdict(one) for one in findings], "problems": len(problems)})
    out.finish(not_assessed=bool(problems))


def _packages() -> Iterator[Finding]:
    yield Finding("Python", "ok", f"{platform.python_version()} on {platform.machine()}")
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    yield Finding("packages", "ok", versions)
    for extra, needed in _EXTRAS.items():
        missing = [name for name in needed if find_spec(name) is None]
        if missing:
            found = f"without {', '.join(missing)}; run pip install 'judged[{extra}]'"
            yield Finding(f"extra {extra}", "note", found)
        else:
            yield Finding(f"extra {extra}", "ok", "installed")


def _variables() -> Iterator[Finding]:
    """Yield what the environment sets; what may be a secret is named, not shown."""
    told = [
        f"{name}={'***' if any(part in name for part in _SECRET) else value}"
        for name, value in sorted(os.environ.items())
        if name.startswith(PREFIX)
    ]
    yield Finding("environment", "ok", " ".join(told) or f"no {PREFIX}* variable is set")
    if named := os.environ.get(FILE_VARIABLE):
        there = os.path.isfile(named)  # noqa: PTH113 - a name from outside, as it is
        step = "" if there else f"; name a file that is there with {FILE_VARIABLE}, or unset it"
        yield Finding("options file", "ok" if there else "problem", f"{named}{step}")


def _server(access: Access) -> Iterator[Finding]:
    where = access.named or "a private server"
    begun = time.monotonic()
    try:
        with connect(access) as server:
            took = time.monotonic() - begun
            info = server.info
    except Problem as problem:
        yield Finding("server", "problem", str(problem))
        return
    yield Finding("server", "ok", f"{where} answered in {took:.2f} s; version {info.version}")
    own = metadata.version("judged")
    if info.version != own:
        found = f"the server is {info.version}, the client {own}; install the same on both sides"
        yield Finding("versions", "note", found)
    yield from _offers(info)


def _offers(info: ServerInfo) -> Iterator[Finding]:
    there = [judge.kind for judge in info.judges if not judge.unavailable]
    yield Finding("judges", "ok", ", ".join(dict.fromkeys(there)))
    for judge in info.judges:
        if judge.unavailable:
            name = f"judge {judge.kind} {judge.profile}".rstrip()
            yield Finding(name, "note", judge.unavailable)
    for model in info.chat_models:
        if model.unavailable:
            yield Finding(f"model {model.name}", "problem", model.unavailable)
        else:
            yield Finding(f"model {model.name}", "ok", "configured; it was not asked")
