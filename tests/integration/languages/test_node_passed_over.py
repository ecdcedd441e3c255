"""What Node's libraries pass over in silence, and that the guards of docs/proto.md tell it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.integration.node_programs import FOLDER, PROTO, ROOT, install, run

PAGE = (ROOT / "docs" / "proto.md").read_text(encoding="utf-8")
TYPED = """
import type {{ BatchJudgeRequest }} from "./gen/judged/v1/BatchJudgeRequest";
import type {{ MetricOptions }} from "./gen/judged/v1/MetricOptions";

export const asking: BatchJudgeRequest = {{ asking: {{ cache: {cache} }} }};
export const judge: BatchJudgeRequest = {{ judge: {{ {field}: 0.5 }} }};
export const options: MetricOptions = {{ verdicts: {{ matching: {matching} }} }};
"""


@pytest.fixture(scope="module")
def report(server_address: str) -> dict[str, Any]:
    program = FOLDER / "passed_over.mjs"
    printed: dict[str, Any] = json.loads(run([install(), program, server_address, PROTO]))
    return printed


class TestCheck:
    def test_is_what_the_page_shows(self) -> None:
        code = (FOLDER / "check.mjs").read_text()
        (rendered,) = (block for block in blocks("js") if "function check(" in block)
        assert rendered in code

    @pytest.mark.parametrize("name", ["good", "full_mode"])
    def test_passes_what_is_sent_as_it_is(self, report: dict[str, Any], name: str) -> None:
        assert report["checks"][name] is None

    @pytest.mark.parametrize(
        ("name", "path"),
        [
            ("enum_name", "asking.cache"),
            ("field_name", "judge.minimum_score"),
            ("camel_case", "judge.minScore"),
            ("in_a_list", "groups[1].document_id[0]"),
            ("not_a_boolean", "include_details"),
            ("short_mode", "options.verdicts.matching"),
        ],
    )
    def test_names_what_would_be_lost(self, report: dict[str, Any], name: str, path: str) -> None:
        assert report["checks"][name].startswith(f"request.{path}: ")


class TestLargeReplies:
    def test_are_refused_by_the_client_unless_it_allows_them(self, report: dict[str, Any]) -> None:
        assert report["large_reply"] == "RESOURCE_EXHAUSTED"
        assert report["large_reply_with_a_higher_limit"] == "OK"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    install()
    folder = tmp_path_factory.mktemp("typescript")
    (folder / "node_modules").symlink_to(FOLDER / "node_modules")
    (folder / "proto").symlink_to(PROTO)
    (recipe,) = (block for block in blocks("sh") if "proto-loader-gen-types" in block)
    generate = recipe[recipe.index("npx ") :].replace("npx ", "npx --no-install ")
    run(["bash", "-euc", generate], folder)
    return folder


class TestGeneratedTypes:
    def compile(self, folder: Path, **names: str) -> None:
        (folder / "program.ts").write_text(TYPED.format(**names))
        compiler = folder / "node_modules" / "typescript" / "bin" / "tsc"
        options = shlex.split("--noEmit --strict --skipLibCheck --types node --target es2022")
        modules = ("--module", "nodenext", "--moduleResolution", "nodenext")
        run([install(), compiler, *options, *modules, "program.ts"], folder)

    def test_take_full_names(self, folder: Path) -> None:
        cache, matching = '"CACHE_MODE_ONLY"', '"MATCHING_MODE_MAXIMUM"'
        self.compile(folder, cache=cache, field="min_score", matching=matching)

    def test_refuse_all_others(self, folder: Path) -> None:
        with pytest.raises(AssertionError) as caught:
            self.compile(folder, cache='"ONLY"', field="minScore", matching='"MAXIMUM"')
        lines = re.findall(r"program\.ts\((\d+),", str(caught.value))
        assert lines == ["5", "6", "7"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
