"""MLflow (or mlflow-skinny): judges and metrics as scorers of `mlflow.genai.evaluate`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mlflow.entities import AssessmentSource, Feedback, SpanType, Trace
from mlflow.genai.scorers import Scorer
from pydantic import PrivateAttr

from judged.adapters.judges.sample_judge import SampleJudge, need_text
from judged.client import Client
from judged.errors import WrongType
from judged.values import Context, Judge

_SOURCE = AssessmentSource(source_type="CODE", source_id="judged")
_NOT_IN_NAMES = re.compile(r"[^\w.\- :/]")
_TEXTS = ("page_content", "content", "text")
"""Fields with a document's text, in MLflow and the libraries that it traces."""


class JudgedMetric(Scorer):  # type: ignore[misc]  # Any where MLflow is not installed
    """A metric such as recall@5 of the retrieved texts against the expected ones.

    Retrieved texts are those in `outputs`: a list of texts or documents, or such a list under
    "retrieved_contexts"; else what the retriever spans of the trace returned. Expected are the
    `content` of "expected_retrieved_context", or "expected_response", in `expectations`. The query
    is the text of `inputs` under "query", or the only one. If verdicts are missing, MLflow records
    an error instead of a value. `name` is "recall_at_5" here: MLflow's names can't contain @.
    """

    _asking: SampleJudge = PrivateAttr()
    _metric: str = PrivateAttr()

    def __init__(
        self,
        client: Client,
        metric: str = "recall@5",
        judge: Judge | str | None = None,
        *,
        name: str | None = None,
    ) -> None:
        super().__init__(name=name or _NOT_IN_NAMES.sub("_", metric.replace("@", "_at_")))
        self._asking, self._metric = SampleJudge(client, judge), metric

    def __call__(
        self,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Any = None,  # noqa: ANN401 - MLflow's
        expectations: Mapping[str, Any] | None = None,
        trace: Trace | None = None,
    ) -> Feedback:
        """Return the metric of a row. Raises NoVerdict for a missing verdict."""
        retrieved = _retrieved(outputs, trace)
        expected = _expected(expectations or {})
        value = self._asking.measure(self._metric, _query(inputs or {}), expected, retrieved)
        why = f"{self._metric} is {value:.4f} over {len(retrieved)} retrieved texts"
        return Feedback(name=self.name, value=value, rationale=why, source=_SOURCE)


class JudgedMatch(Scorer):  # type: ignore[misc]  # Any where MLflow is not installed
    """Whether the judge finds that the text `outputs` matches the "expected_response".

    The query is found as in JudgedMetric.
    """

    _asking: SampleJudge = PrivateAttr()

    def __init__(
        self, client: Client, judge: Judge | str | None = None, *, name: str = "judged_match"
    ) -> None:
        super().__init__(name=name)
        self._asking = SampleJudge(client, judge)

    def __call__(
        self,
        *,
        inputs: Mapping[str, Any] | None = None,
        outputs: Any = None,  # noqa: ANN401 - MLflow's
        expectations: Mapping[str, Any] | None = None,
    ) -> Feedback:
        """Return the verdict of a row. Raises NoVerdict for a missing verdict."""
        (expected,) = _expected({**(expectations or {}), "expected_retrieved_context": None})
        context = Context(_query(inputs or {}), expected, need_text(outputs, "outputs"))
        score, relevant, signature = self._asking.score(context)
        why = f"score {score:.4f} by {signature}"
        return Feedback(name=self.name, value=relevant, rationale=why, source=_SOURCE)


def _query(inputs: Mapping[str, Any]) -> str:
    texts = {name: value for name, value in inputs.items() if isinstance(value, str)}
    if len(texts) > 1 and "query" not in texts:
        raise ValueError(f"inputs have several texts ({', '.join(texts)}); call the query 'query'")
    return texts.get("query", next(iter(texts.values()), ""))


def _expected(expectations: Mapping[str, Any]) -> list[str]:
    documents = expectations.get("expected_retrieved_context")
    if isinstance(documents, str):
        raise WrongType.of_field("expected_retrieved_context", "must be a list, not one text")
    if documents is not None:
        return [_text(document) for document in documents]
    response = expectations.get("expected_response")
    if response is None:
        raise ValueError(
            'expectations have neither "expected_retrieved_context" nor "expected_response"; '
            "add what should be found"
        )
    return [need_text(response, "expected_response")]


def _retrieved(outputs: Any, trace: Trace | None) -> list[str]:  # noqa: ANN401 - MLflow's
    if isinstance(outputs, Mapping):
        outputs = outputs.get("retrieved_contexts")
    if isinstance(outputs, Sequence) and not isinstance(outputs, str):
        return [_text(document) for document in outputs]
    spans = [] if trace is None else trace.search_spans(span_type=SpanType.RETRIEVER)
    if not spans:
        raise ValueError(
            'nothing was retrieved: outputs are no list and have no "retrieved_contexts", and the '
            "trace has no span of a retriever"
        )
    return [_text(document) for span in spans for document in span.outputs or ()]


def _text(document: Any) -> str:  # noqa: ANN401 - a text, or a document of some library
    if isinstance(document, str):
        return document
    found = next((document[name] for name in _TEXTS if name in document), None)
    if found is None:
        raise ValueError(f"a document has its text under none of {', '.join(_TEXTS)}")
    return str(found)
