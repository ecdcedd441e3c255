"""Judged lines for the tests of labelling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def line(number: int, **more: Any) -> dict[str, Any]:
    """A judged line whose score rises with its number; from 5 on it is relevant."""
    return {
        "id": f"i{number}",
        "query_id": f"q{number // 2}",
        "query": f"what is number {number}",
        "expected_text": "the retrieval of documents",
        "retrieved_text": "Retrieval of many documents, then words",
        "status": "OK",
        "relevant": number >= 5,
        "score": number / 10,
        **more,
    }


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path
