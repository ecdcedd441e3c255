"""The embedding backends that this server can be told to use, each as flags of `judged-server`.

What the setting `embedding_backend` offers, but for `auto`, or what the command line of a benchmark
names. Each gets a server of its own that keeps no vectors, unless a benchmark says otherwise. A
backend that does not start here is not run, with the server's reason.
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
"""What runs without any extra, in fp32: the others are held against it."""


@dataclass(frozen=True, slots=True)
class Backend:
    """A name for figures, and the flags that choose the backend."""

    name: str
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunningBackend:
    """A server with one backend; `precision` and `provider` are what it says it runs."""

    name: str
    server: Server
    client: Client
    precision: str
    provider: str


def backends() -> list[Backend]:
    """Return what the settings offer, the reference first."""
    field = Settings.model_fields.get(SETTING)
    offered = [str(name) for name in typing.get_args(field.annotation)] if field else []
    others = [name for name in offered if name not in {"auto", REFERENCE}]
    flag = f"--{SETTING.replace('_', '-')}"
    reference = Backend(REFERENCE, (flag, REFERENCE) if REFERENCE in offered else ())
    return [reference, *(Backend(name, (flag, name)) for name in others)]


def add_backend_option(parser: argparse.ArgumentParser) -> None:
    """Let a command line name backends of its own."""
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
    """Return those that start, the reference first; the others go to `not_run`.

    Raises SystemExit when not even the first starts.
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
