"""Every call that HTTP takes has a recipe in docs/http.md, which a test then runs."""

from __future__ import annotations

from pathlib import Path

from judged.v1 import judge_service_pb2, statistics_service_pb2

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "http.md").read_text(encoding="utf-8")


def test_every_call_with_one_request_has_a_recipe() -> None:
    for file in (judge_service_pb2, statistics_service_pb2):
        for service in file.DESCRIPTOR.services_by_name.values():
            for method in service.methods:
                has = f"http://127.0.0.1:8471/v1/{method.name}\n" in PAGE
                assert has is not method.client_streaming, f"docs/http.md: {method.name}"
