"""A call in work, where no server has made one."""

from typing import Any

from judged_server.api.requests import Call


def a_call(**facts: Any) -> Call:
    return Call("/judged.v1.JudgeService/BatchJudge", None, (), "id", True, 0.0, **facts)  # type: ignore[arg-type]
