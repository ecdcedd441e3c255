"""Generates from proto/ what is committed: Python stubs under client/judged, and openapi.json.

Owns the pinned toolchain. The code comes from a low grpcio-tools, because stubs refuse to run on
a protobuf or grpcio older than the one that made them; the types come from a new mypy-protobuf,
because older ones type the asynchronous stubs as synchronous. The two can't share an environment,
so each gets its own below .venv.

    python proto/generate.py           regenerate in place
    python proto/generate.py --check   exit 1 when what is committed is stale
"""

from __future__ import annotations

import argparse
import filecmp
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from openapi import document

ROOT = Path(__file__).resolve().parent.parent
PROTO = ROOT / "proto"
TARGET = ROOT / "client"
OPENAPI = ROOT / "server/judged_server/http_api/openapi.json"
PACKAGES = ("judged/v1", "judged/internal/v1")
TOOLCHAINS = {
    "toolchain-code": "grpcio-tools==1.74.0",
    "toolchain-types": "mypy-protobuf==5.1.0",
}
INIT = '"""Generated from proto/{package} by proto/generate.py. Do not edit."""\n'


def toolchain(name: str) -> Path:
    """Return the bin folder of a pinned tool's environment, made on first use."""
    home = ROOT / ".venv" / name
    marker = home / "requirement.txt"
    requirement = TOOLCHAINS[name]
    if not marker.is_file() or marker.read_text() != requirement:
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, requirement, "setuptools<81"], check=True)
        marker.write_text(requirement)
    return home / "bin"


def generate(out: Path) -> None:
    """Write all stubs and package files below `out`."""
    code, types = toolchain("toolchain-code"), toolchain("toolchain-types")
    sources = sorted(str(p.relative_to(PROTO)) for p in PROTO.rglob("*.proto"))
    for package in PACKAGES:
        (out / package).mkdir(parents=True, exist_ok=True)
        (out / package / "__init__.py").write_text(INIT.format(package=package))
    (out / "judged/internal/__init__.py").write_text(INIT.format(package="judged/internal"))
    services = [s for s in sources if s.endswith("_service.proto")]
    common = [str(code / "python"), "-W", "ignore", "-m", "grpc_tools.protoc", f"-I{PROTO}"]
    runs = (
        (f"--python_out={out}", sources),
        (f"--grpc_python_out={out}", services),
        (f"--mypy_out={out}", sources),
        (f"--mypy_grpc_out={out}", services),
    )
    plugins = [
        f"--plugin=protoc-gen-mypy={types / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={types / 'protoc-gen-mypy_grpc'}",
    ]
    for option, files in runs:
        subprocess.run([*common, *plugins, option, *files], check=True, env=dict(os.environ))


def openapi() -> bytes:
    """Return the OpenAPI document of the contract, comments included."""
    python = toolchain("toolchain-code") / "python"
    sources = sorted(str(p.relative_to(PROTO)) for p in (PROTO / "judged/v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "descriptors")
        options = [f"-I{PROTO}", f"--descriptor_set_out={out}", "--include_source_info"]
        command = [str(python), "-W", "ignore", "-m", "grpc_tools.protoc", *options, *sources]
        subprocess.run(command, check=True)
        return document(FileDescriptorSet.FromString(out.read_bytes()))


def generated_files(base: Path) -> set[Path]:
    """Return the paths, relative to `base`, of everything that generate() owns there."""
    found = {Path("judged/internal/__init__.py")} if (base / "judged/internal").is_dir() else set()
    for package in PACKAGES:
        found |= {p.relative_to(base) for p in (base / package).glob("*.py*") if p.is_file()}
    return found


def stale(fresh: Path) -> list[str]:
    """Return the files below TARGET that differ from `fresh`, are missing or are left over."""
    names = generated_files(fresh) | generated_files(TARGET)
    return sorted(
        str(name)
        for name in names
        if not (fresh / name).is_file()
        or not (TARGET / name).is_file()
        or not filecmp.cmp(fresh / name, TARGET / name, shallow=False)
    )


def main() -> int:
    """Generate or check; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only, change nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        fresh = Path(scratch)
        generate(fresh)
        if arguments.check:
            different = [f"client/{name}" for name in stale(fresh)]
            if not OPENAPI.is_file() or OPENAPI.read_bytes() != openapi():
                different.append(str(OPENAPI.relative_to(ROOT)))
            for name in different:
                print(f"stale: {name}", file=sys.stderr)
            if different:
                print("run `make proto` and commit the result", file=sys.stderr)
            return 1 if different else 0
        for package in PACKAGES:
            shutil.rmtree(TARGET / package, ignore_errors=True)
        shutil.copytree(fresh, TARGET, dirs_exist_ok=True)
        OPENAPI.write_bytes(openapi())
    return 0


if __name__ == "__main__":
    sys.exit(main())
