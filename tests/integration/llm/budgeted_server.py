"""A server with a budget, and work for its language model that the cache has not seen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from judged._convert import read_reason
from judged.v1 import groups_pb2, scores_pb2
from judged.v1 import judge_service_pb2 as pb

from tests.fakes.providers.scripted_provider import Answer, Asked, Said, ScriptedProvider
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server

_RETRIEVED = re.compile(r'name="retrieved_text">\n(.*)\n')
CLAIMS = [f"the sky has the colour number {n}" for n in range(5)]


def say(asked: Asked) -> Said:
    """Answer every form of rubric; a retrieved text "slow" takes ten minutes."""
    schema = asked.body["response_format"]["json_schema"]["schema"]
    reply: dict[str, Any] = {}
    for name, held in schema["properties"].items():
        if name == "claims":
            reply[name] = CLAIMS
        elif "enum" in held:
            reply[name] = held["enum"][0]
        else:
            reply[name] = 0.9 if held["type"] == "number" else "it is so, as the text says"
    rendered = _RETRIEVED.findall(asked.user)
    slow = bool(rendered) and json.loads(rendered[0]) == "slow"
    return Answer(json.dumps(reply), delay_s=600.0 if slow else 0.0)


@contextmanager
def budgeted_server(
    provider: ScriptedProvider, folder: Path, budget: str = ""
) -> Iterator[ServerProcess]:
    """Yield a server with a priced model, and with these lines more of its file of models."""
    folder.mkdir(exist_ok=True)
    models = {"small": priced(1.0, 2.0)}
    config = llm_config(folder, provider, models, currency="EUR", rest=budget)
    with running_server("--llm-config", config, "--llm-cache", "memory") as ready:
        yield ready


def groups(word: str, n: int) -> list[groups_pb2.QueryGroup]:
    """A group of n contexts about a word of the test's own: the cache has not seen them."""
    texts = [f"the retrieved text of {word}, number {i}, 1234567890 {{}}" for i in range(n)]
    return [groups_pb2.QueryGroup(query="q?", expected=["an expected text"], retrieved=texts)]


def work(word: str, n: int, max_cost: float | None = None, **judge: Any) -> pb.BatchJudgeRequest:
    return pb.BatchJudgeRequest(
        groups=groups(word, n),
        judge=groups_pb2.JudgeSpec(kind="llm", **judge),
        asking=groups_pb2.AskingOptions(max_cost=max_cost),
    )


def answers(word: str, n: int, *rubrics: str) -> pb.ScoreAnswersRequest:
    items = [
        scores_pb2.AnswerItem(
            item_id=str(i),
            query=f"why is {word} blue?",
            answer=f"{word} number {i} is blue because it is.",
            references=["it scatters light"],
            contexts=["a context about light", "another one: 1, 2, 3"],
        )
        for i in range(n)
    ]
    return pb.ScoreAnswersRequest(
        items=items, rubrics=[scores_pb2.RubricSpec(rubric=name) for name in rubrics]
    )


def reasons(reply: pb.BatchJudgeResponse) -> set[str]:
    return {read_reason(error.reason) for error in reply.verdicts.errors}
