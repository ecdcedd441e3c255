"""Runs a server for each embedding backend, chosen by flags of `judged-server`.

The backends are the values of the setting `embedding_backend`, except `auto`, or those named on a
benchmark's command line. Each has its own server, without a vector cache unless the benchmark sets
one. A backend that does not start here is reported as not run, with the server's reason.
"""

from __future__ import annotations

import argparse
import typing
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from judged import Client
from judged_server.settings import Settings

from benchmarks.harness import Server, serving
from benchmarks.peers.environments import NotRun

SETTING = "embedding_backend"
REFERENCE = "onnxruntime"
"""The backend that needs no extra, in fp32: others are compared with it."""


@dataclass(frozen=True, slots=True)
class Backend:
    """The backend's name in figures, and the flags that choose it."""

    name: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunningBackend:
    """A server with one backend; it reports its `precision` and `provider`."""

    name: str
    server: Server
    client: Client
    precision: str
    provider: str


def backends() -> list[Backend]:
    """Return the backends of the settings, the reference first."""
    field = Settings.model_fields.get(SETTING)
    offered = [str(name) for name in typing.get_args(field.annotation)] if field else []
    others = [name for name in offered if name not in {"auto", REFERENCE}]
    flag = f"--{SETTING.replace('_', '-')}"
    reference = Backend(REFERENCE, (flag, REFERENCE) if REFERENCE in offered else ())
    return [reference, *(Backend(name, (flag, name)) for name in others)]


def add_backend_option(parser: argparse.ArgumentParser) -> None:
    """Add the option --backend to a benchmark's command line."""
    parser.add_argument(
        "--backend",
        action="append",
        type=_named,
        metavar="NAME=FLAGS",
        help="a backend and the flags of judged-server that choose it, the reference first; may be "
        "repeated; by default all that the server offers",
    )


@contextmanager
def running(backend: Backend, *flags: str) -> Iterator[RunningBackend]:
    """Yield a server with this backend, ready and warm. Raises NotRun when it does not start."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(
                serving("judged_server", "--log-level", "warning", *backend.flags, *flags)
            )
        except SystemExit as problem:
            lines = str(problem).strip().splitlines() or ["it did not start"]
            raise NotRun(lines[-1].removeprefix("judged_server: ")[:300]) from None
        client = stack.enter_context(Client(server.address))
        model = next((m for m in client.server_info().models if m.is_default), None)
        if model is None:
            raise NotRun("the embedding model is not installed; run `make setup`")
        yield RunningBackend(
            backend.name, server, client, model.precision, model.execution_provider
        )


def start_all(
    stack: ExitStack, chosen: Sequence[Backend] | None, not_run: dict[str, str], *flags: str
) -> list[RunningBackend]:
    """Return the backends that start, the reference first; add the others to `not_run`.

    Raises SystemExit if the first does not start.
    """
    found: list[RunningBackend] = []
    for backend in chosen or backends():
        try:
            found.append(stack.enter_context(running(backend, *flags)))
        except NotRun as problem:
            print(f"{backend.name}: not run ({problem})")
            not_run[backend.name] = str(problem)
            if not found:
                raise SystemExit(str(problem)) from None
    return found


def _named(text: str) -> Backend:
    name, equals, flags = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError("is NAME=FLAGS, such as onnxruntime= with no flags")
    return Backend(name, tuple(flags.split()))
