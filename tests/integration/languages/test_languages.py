"""The recipes of docs/proto.md, as a reader runs them: stubs for other languages, and programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "proto.md").read_text(encoding="utf-8")
ADDRESS = "127.0.0.1:8470"
JARS = Path("/usr/share/java")
GO_SOURCES = Path("/usr/share/gocode")
JUDGED = "[true] [0.8333333333333334]"
JAVA_LIBRARIES = {
    "protobuf": "libprotobuf-java",
    "grpc-netty": "libgrpc-java",
    "netty-all": "libnetty-java",
    "perfmark-api": "libperfmark-java",
    "gson": "libgoogle-gson-java",
    "proto-google-common-protos": "libgoogle-common-protos-java",
    "geronimo-annotation-1.3-spec": "libgeronimo-annotation-1.3-spec-java",
}

JAVA_PROGRAM = """
import com.google.protobuf.Any;
import com.google.rpc.BadRequest;
import judged.v1.*;
import io.grpc.*;
import io.grpc.protobuf.StatusProto;
import java.util.List;
import java.util.concurrent.TimeUnit;

public class Judge {{
  public static void main(String[] arguments) throws Exception {{
{snippet}
  }}
}}
"""


def snippet(heading: str, language: str) -> str:
    """Return the first block in that language below the heading."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(rf"^```{language}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)
    assert found, f"docs/proto.md: {heading} has no block in {language}"
    return found[1]


def needs(*tools: str, packages: str) -> None:
    """Skip the test where a tool is missing."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not run: {', '.join(missing)} (apt-get install {packages})")


def needs_file(path: Path, packages: str) -> None:
    if not path.exists():
        pytest.skip(f"not run: no {path} (apt-get install {packages})")


def run(command: Sequence[str | Path], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout.strip()


def generate(heading: str, folder: Path) -> Path:
    """Run the recipe below the heading; return the folder of what it made."""
    (folder / "proto").symlink_to(ROOT / "proto")
    recipe = "".join(
        line for line in snippet(heading, "sh").splitlines(True) if "go install" not in line
    )
    run(["bash", "-euc", recipe], folder)
    return folder / "gen"


def names(folder: Path, pattern: str) -> set[str]:
    return {path.name for path in folder.rglob(pattern)}


class TestGo:
    def test_every_file_is_generated_into_one_package(self, tmp_path: Path) -> None:
        self.generate(tmp_path)
        sources = {f"{path.stem}.pb.go" for path in (ROOT / "proto/judged/v1").glob("*.proto")}
        made = names(tmp_path / "gen/judged/v1", "*.go")
        assert made == sources | {"judge_service_grpc.pb.go", "statistics_service_grpc.pb.go"}

    def test_the_package_compiles(self, tmp_path: Path) -> None:
        needs("go", packages="golang-go")
        for library in ("grpc", "protobuf"):
            path = GO_SOURCES / "src/google.golang.org" / library
            needs_file(path, f"golang-google-{library}-dev")
        module = tmp_path / "src/example.com/you"
        module.mkdir(parents=True)
        self.generate(module)
        run(
            ["go", "build", "example.com/you/gen/judged/v1"],
            tmp_path,
            GOPATH=f"{tmp_path}:{GO_SOURCES}",
            GO111MODULE="off",
            GOFLAGS="",
            GOCACHE=str(tmp_path / "cache"),
        )

    def generate(self, folder: Path) -> None:
        packages = "protobuf-compiler protoc-gen-go protoc-gen-go-grpc"
        needs("protoc", "protoc-gen-go", "protoc-gen-go-grpc", packages=packages)
        generate("Go", folder)


class TestJava:
    def generate(self, folder: Path) -> Path:
        needs("protoc", "grpc_java_plugin", packages="protobuf-compiler-grpc-java-plugin")
        return generate("Java", folder)

    def test_classes_are_generated_into_their_package(self, tmp_path: Path) -> None:
        made = names(self.generate(tmp_path) / "judged/v1", "*.java")
        assert {"JudgeServiceGrpc.java", "BatchJudgeRequest.java", "ErrorReason.java"} <= made

    @pytest.mark.timeout(240)
    def test_the_program_judges(self, tmp_path: Path, server_address: str) -> None:
        needs("javac", "java", packages="openjdk-17-jdk-headless")
        for jar, package in JAVA_LIBRARIES.items():
            needs_file(JARS / f"{jar}.jar", package)
        sources = [str(path) for path in self.generate(tmp_path).rglob("*.java")]
        program = JAVA_PROGRAM.format(snippet=snippet("Java", "java"))
        (tmp_path / "Judge.java").write_text(program.replace(ADDRESS, server_address))
        jars = f"classes:{JARS}/*"
        run(["javac", "-nowarn", "-d", "classes", "-cp", jars, "Judge.java", *sources], tmp_path)
        assert run(["java", "-cp", jars, "Judge"], tmp_path) == JUDGED


class TestCpp:
    def test_the_program_compiles(self, tmp_path: Path) -> None:
        needs("protoc", "grpc_cpp_plugin", packages="protobuf-compiler-grpc")
        needs("g++", packages="g++")
        needs_file(Path("/usr/include/grpcpp/grpcpp.h"), "libgrpc++-dev")
        generate("C++", tmp_path)
        (tmp_path / "judge.cc").write_text(snippet("C++", "cpp"))
        run(["g++", "-std=c++17", "-fsyntax-only", "-Igen", "judge.cc"], tmp_path)


class TestRuby:
    def test_the_program_judges(self, tmp_path: Path, server_address: str) -> None:
        needs("protoc", "grpc_ruby_plugin", packages="protobuf-compiler-grpc")
        needs("ruby", packages="ruby-grpc")
        probe = ["ruby", "-e", "require 'grpc'"]
        if subprocess.run(probe, capture_output=True, check=False).returncode:
            pytest.skip("not run: Ruby without gRPC (apt-get install ruby-grpc)")
        generate("Ruby", tmp_path)
        program = snippet("Ruby", "ruby").replace(ADDRESS, server_address)
        (tmp_path / "judge.rb").write_text(program)
        assert run(["ruby", "judge.rb"], tmp_path) == JUDGED


class TestThoseThatAreOnlyGenerated:
    def test_php(self, tmp_path: Path) -> None:
        needs("protoc", "grpc_php_plugin", packages="protobuf-compiler-grpc")
        made = names(generate("PHP", tmp_path) / "Judged/V1", "*.php")
        assert {"JudgeServiceClient.php", "BatchJudgeRequest.php"} <= made

    def test_csharp(self, tmp_path: Path) -> None:
        needs("protoc", packages="protobuf-compiler")
        assert "JudgeService.cs" in names(generate("C#", tmp_path), "*.cs")


STATUS = "judged/internal/v1/status.proto"


def test_the_mirror_of_status_generates_as_it_is(tmp_path: Path) -> None:
    needs("protoc", "protoc-gen-go", packages="protobuf-compiler protoc-gen-go")
    for option in ("java_out", "cpp_out", "ruby_out", "php_out", "csharp_out"):
        (tmp_path / option).mkdir()
        run(["protoc", "-I", ROOT / "proto", f"--{option}={option}", STATUS], tmp_path)
    run(["protoc", "-I", ROOT / "proto", "--go_out=.", STATUS], tmp_path)
    # A Go package below a folder "internal" can't be imported by those who generate it.
    (made,) = tmp_path.rglob("*.pb.go")
    assert "internal" not in made.relative_to(tmp_path).parts
