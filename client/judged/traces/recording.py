"""From verdicts and scores to judgements in a trace, and in its file as they come in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from judged.errors import InvalidArgument
from judged.traces.judgement import SLACK, Breakdown, Judgement, alike
from judged.traces.trace import Hashes, Item, Trace
from judged.values import (
    AnswerItem,
    AnswerScore,
    QueryGroup,
    RubricInfo,
    Source,
    Status,
    Verdict,
    VerdictError,
    Verdicts,
)

NOT_CACHED = "NOT_CACHED"

_VOTING = "llm"
"""The judge whose samples vote whatever the threshold; members of a panel have their own."""


def contexts_of(groups: Sequence[QueryGroup], hashes: Hashes) -> Iterator[Item]:
    """Yield the contexts of groups in the order of their verdicts.

    Groups that are matched by document id have none. Raises InvalidArgument for groups that bring
    spans or embeddings, which a trace can't hold.
    """
    for index, group in enumerate(groups):
        if group.by_id:
            continue
        brings = "spans" if group.spans is not None else "embeddings"
        if group.spans is not None or group.embeddings is not None:
            raise InvalidArgument.of_field(
                f"groups[{index}].{brings}",
                "can't be kept in a trace, which holds judgements of texts; leave the trace out",
            )
        for retrieved in group.retrieved:
            for expected in group.expected:
                texts = {"query": group.query, "expected_text": expected}
                given = {**texts, "retrieved_text": retrieved, "query_id": group.query_id}
                yield Item.of(given, hashes)


def answer_of(item: AnswerItem, hashes: Hashes) -> Item:
    """Return an answer as an item of a trace."""
    written = {
        "item_id": item.item_id,
        "query": item.query,
        "answer": item.answer,
        "references": list(item.references),
        "contexts": list(item.contexts),
        "other_answers": [item.other_answer] if item.other_answer else [],
        "sources_used": list(item.sources_used),
        "confidence": item.confidence,
    }
    return Item.of(written, hashes)


def record_verdicts(trace: Trace, groups: Sequence[QueryGroup], verdicts: Verdicts) -> None:
    """Put the verdicts of groups into a trace; details of verdicts, where there are, go along.

    What nobody judged, since it was to come from the verdict cache and was not there, is left out.
    """
    contexts = contexts_of(groups, trace.hashes)
    for context, verdict in zip(contexts, verdicts, strict=True):
        if not _is_gap(verdict.error):
            trace.put(context, _of_verdict(verdict, verdicts))


def record_scores(
    trace: Trace,
    items: Sequence[AnswerItem],
    scores: Sequence[AnswerScore],
    rubrics: Sequence[RubricInfo],
) -> None:
    """Put the scores of items into a trace; those that no judge gave are left out.

    `rubrics` are those of the server that gave them.
    """
    known = {item.item_id: answer_of(item, trace.hashes) for item in items}
    forms = {info.rubric: info.form for info in rubrics}
    for score in scores:
        if score.judge is not None and not _is_gap(score.error):
            trace.put(known[score.item_id], _of_score(score, forms.get(score.rubric, "")))


def _is_gap(error: VerdictError | None) -> bool:
    return error is not None and error.reason == NOT_CACHED


def _of_verdict(verdict: Verdict, verdicts: Verdicts) -> Judgement:
    detail, judge = verdict.detail, verdicts.judge
    asked = () if detail is None else detail.samples
    samples = len(asked) if verdicts.agreement else 0
    votes = [bool(each.relevant) if each.status is Status.OK else None for each in asked]
    majority = None
    if verdict.agreement is not None and judge.kind == _VOTING:
        valid = [vote for vote in votes if vote is not None]
        if valid:
            majority = 2 * sum(valid) > len(valid)
        elif verdict.relevant:
            majority = True
        elif verdict.score is not None and verdict.score + SLACK >= judge.min_score:
            majority = False  # what else kept it from being relevant
    return alike(
        Judgement,
        verdict,
        judge=judge,
        passed=verdict.relevant,
        samples=samples,
        majority=majority,
        rationale="" if detail is None else detail.rationale,
        model="" if detail is None else detail.model,
        votes=tuple(votes) if samples > 1 else (),
    )


def _of_score(score: AnswerScore, form: str) -> Judgement:
    majority = None
    if score.score is not None and form == "verdict":
        majority = score.score > 0.5  # the share of those who said yes; a tie has no score
    elif score.score is not None and form == "claims":
        majority = True  # claims were voted on, the whole was not
    return alike(
        Judgement,
        score,
        source=score.source or Source.COMPUTED,
        majority=majority,
        rationale=score.reasoning,
        breakdown=Breakdown.of(score),
        probability=None,  # which is that of a calibration, and no part of the judge
    )


class TraceFile:
    """A file of judgements that grows: what is kept stands beside what it has, as `--trace` does.

    `trace` is what the file holds. Pass it to `evaluate_answers`, or keep verdicts by yourself.
    """

    def __init__(self, path: Path | str, *, hashed: bool = False) -> None:
        """Read the file, if there is one; `hashed` writes no texts, only what finds them again.

        Raises FileError for a file that is no trace.
        """
        self._path = Path(path)
        self._hashed = hashed
        self.trace = Trace.read(path) if self._path.exists() else Trace(str(path))

    def keep_verdicts(self, groups: Sequence[QueryGroup], verdicts: Verdicts) -> None:
        """Put the verdicts of groups into the file; ask for details to keep rationales too.

        Raises FileError when it can't be written.
        """
        record_verdicts(self.trace, groups, verdicts)
        self.trace.write(self._path, hashed=self._hashed)

    def keep_scores(
        self,
        items: Sequence[AnswerItem],
        scores: Sequence[AnswerScore],
        rubrics: Sequence[RubricInfo],
    ) -> None:
        """Put the scores of items into the file; `rubrics` are those of the server.

        Raises FileError when it can't be written.
        """
        record_scores(self.trace, items, scores, rubrics)
        self.trace.write(self._path, hashed=self._hashed)
