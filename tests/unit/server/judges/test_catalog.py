from __future__ import annotations

import pytest
from judged_server import errors
from judged_server.domain import JudgeSpec
from judged_server.judges.catalog import JudgeCatalog
from judged_server.judges.lexical import ExactKind, TokenOverlapKind
from judged_server.judges.llm.judge import LlmKind
from judged_server.judges.panel import PanelKind
from judged_server.llm.caller import ModelCaller
from judged_server.llm.rubrics.rubric import load_builtin


@pytest.fixture
def catalog() -> JudgeCatalog:
    return JudgeCatalog([TokenOverlapKind(), ExactKind()], "token_overlap")


def bad(catalog: JudgeCatalog, **spec: object) -> errors.InvalidField:
    with pytest.raises(errors.InvalidField) as caught:
        catalog.choose(JudgeSpec(**spec))
    return caught.value


def test_an_empty_spec_is_the_default_judge(catalog: JudgeCatalog):
    signature = "token_overlap|profile:classic|min_tokens:2|query_boost:true|min_score:0.6|v2"
    assert catalog.choose(JudgeSpec()).identity.signature == signature


def test_the_same_spec_is_built_once(catalog: JudgeCatalog):
    spec = JudgeSpec("token_overlap", parameters={"min_tokens": 3})
    assert catalog.choose(spec) is catalog.choose(spec)


def test_values_that_are_equal_but_of_another_type_are_told_apart(catalog: JudgeCatalog):
    catalog.choose(JudgeSpec("token_overlap", parameters={"min_tokens": 1}))
    error = bad(catalog, kind="token_overlap", parameters={"min_tokens": True})
    assert error.field == 'judge.parameters["min_tokens"]'


def test_an_unknown_judge_is_told_what_there_is(catalog: JudgeCatalog):
    with pytest.raises(errors.UnknownJudge, match="token_overlap, exact"):
        catalog.choose(JudgeSpec("nobody"))
    with pytest.raises(errors.UnknownJudge, match="did you mean token_overlap"):
        catalog.choose(JudgeSpec("overlap"))
    with pytest.raises(errors.UnknownJudge):
        JudgeCatalog([ExactKind()], "token_overlap")


@pytest.mark.parametrize(("default", "asks"), [("exact", False), ("llm", True)])
def test_which_kinds_may_ask_models(default: str, asks: bool):
    kinds = [ExactKind(), PanelKind(), LlmKind(None, load_builtin(), ModelCaller())]
    catalog = JudgeCatalog(kinds, default)
    found = {kind: catalog.asks_models(kind) for kind in ("", "exact", "panel", "llm", "nobody")}
    assert found == {"": asks, "exact": False, "panel": True, "llm": True, "nobody": False}
