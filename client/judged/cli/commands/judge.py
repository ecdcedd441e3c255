"""`judged judge`: a verdict for every line of a file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TextIO

from judged import Client, Flag, Judge, Source, Status, Verdict, Verdicts
from judged._batching.judging import PASSING, failed_verdicts
from judged._files import json_line
from judged._inputs import as_id
from judged._views import plural
from judged.cli.frame import Document, arg, flag, opt
from judged.cli.inputs import (
    Line,
    blocks_of_contexts,
    check_expectations,
    count_lines,
    fold_lines,
    missing_line,
    of_lines,
    places_of_lines,
    read_contexts,
)
from judged.cli.judging import (
    AskingOptions,
    CascadeOptions,
    NamedTrace,
    kept_trace,
    open_replay,
    refuse_missing,
    refuse_other,
    replayed,
    tell_circular,
    tell_kept,
)
from judged.cli.output import STDOUT, Output, Progress, open_output
from judged.cli.problems import explained
from judged.cli.tables import Tally, detail_document, report_estimate, usage_document
from judged.evaluation import FileError
from judged.evaluation.circular_judging import judging_models
from judged.traces import TraceFile
from judged.values import JudgeIdentity
from judged.values.verdicts import vote_agreement

_LEAST_S = 0.001
_ANSWERS = (
    *("status", "relevant", "score", "probability", "stage", "agreement", "source", "flags"),
    *("error", "detail"),
)
_QRELS = ".qrels"
_IDS = ("query_id", "doc_id")


@dataclass(kw_only=True)
class JudgeCommand(CascadeOptions, AskingOptions, NamedTrace):
    """Judge every line of a file and print it with its verdict.

    With --output FILE lines are read as they are sent and not held, unless they are standard input,
    FILE is a judgment list, or --json, --trace, --judge none, --estimate, --cache-only or
    --max-cost need all at once.

    Examples:
    judged judge contexts.jsonl --judge semantic --min-score 0.7
    judged judge contexts.jsonl --judge token_overlap --profile unicode --output judged.jsonl
    """

    contexts: str = arg(
        "CONTEXTS.jsonl",
        "Lines of {query, expected_text, retrieved_text}, expected_alternatives if there are any; "
        "- reads standard input.",
    )
    min_score: float | None = opt("X", "Score from which a verdict is relevant.")
    details: bool = flag("Tell how the model of --judge llm came to each verdict.")
    output: str = opt(
        "FILE|-",
        "Where the judged lines go; FILE.qrels gets a judgment list for trec_eval.",
        STDOUT,
        writes=True,
    )

    def run(self, out: Output) -> Document | None:
        """Judge, and write the lines."""
        refuse_other(self.kind)
        whole = self.json is not None or self.trace is not None or self.replays or self.estimate
        whole = whole or self.cache_only or self.max_cost is not None
        whole = whole or self.output.endswith(_QRELS) or STDOUT in (self.contexts, self.output)
        held = list(read_contexts(self.contexts)) if whole else []
        counted = count_lines(held if whole else read_contexts(self.contexts))
        if self.output.endswith(_QRELS):
            _check_ids(self.contexts, held)
        kept = kept_trace(self, out)
        tally, replaced = Tally(), set[str]()
        found: Iterable[tuple[Sequence[Line], Verdicts]]
        with (
            self.asking("judging", counted.contexts, self.places()) as (server, progress),
            ExitStack() as opened,
        ):
            if self.replays:
                replay = open_replay(
                    *(self, out, server, self.parameters(), self.min_score),
                    details=self.details,
                    timeout=self.timeout,
                )
                groups = fold_lines(held)
                with replayed(self, out, replay, missing_line(self.contexts, held, groups)):
                    found = [(held, replay.all_verdicts(groups, server.info.rubrics))]
            else:
                spec = self.spec(server.info, self.min_score)
                check_expectations(out, self.contexts, spec, counted, server.client)
                tell_circular(out, counted.system_models, judging_models(server.info, spec))
                if self.estimate:
                    groups = fold_lines(held)
                    with explained(places_of_lines(self.contexts, held, groups) | self.places()):
                        would = server.client.estimate(groups, spec, asking=self.how_asked())
                    return report_estimate(out, would)
                blocks = [held] if whole else blocks_of_contexts(self.contexts)
                found = self._ask(server.client, spec, blocks, kept, progress, counted.contexts)
            file: TextIO | None = None
            for lines, each in found:
                refuse_missing(each)
                verdicts = of_lines(lines, each)
                tally.add(verdicts)
                replaced.update(name for line in lines for name in line.fields if name in _ANSWERS)
                if not whole:
                    file = file or opened.enter_context(open_output(self.output, "--output"))
                    file.writelines(map(json_line, _judged(lines, verdicts)))
        if self.output.endswith(_QRELS):
            _write_qrels(out, self.output, held, verdicts)
        elif whole and not (self.output == STDOUT and out.takes_stdout):
            with open_output(self.output, "--output") as lines_file:
                lines_file.writelines(map(json_line, _judged(held, verdicts)))
        tally.tell(out)
        if replaced:
            names = ", ".join(name for name in _ANSWERS if name in replaced)
            out.warn(f"the input has fields that the verdict replaced: {names}")
        if not out.writes_json:
            return None
        return {
            "verdicts": list(_judged(held, verdicts)),
            "counts": tally.counts.to_dict(),
            "signature": verdicts.judge.signature,
            **usage_document(verdicts.usage),
        }

    def _ask(
        self,
        client: Client,
        spec: Judge,
        blocks: Iterable[list[Line]],
        kept: TraceFile | None,
        progress: Progress | None,
        total: int,
    ) -> Iterator[tuple[Sequence[Line], Verdicts]]:
        """Yield each block with its verdicts: errors where the server leaves for good after one."""
        ends, done = time.monotonic() + self.timeout, 0
        judge: JudgeIdentity | None = None
        for lines in blocks:
            groups = fold_lines(lines)
            with explained(places_of_lines(self.contexts, lines, groups) | self.places()):
                try:
                    verdicts = client.judge(
                        *(groups, spec),
                        include_details=self.details or kept is not None,
                        asking=self.how_asked(),
                        timeout=max(ends - time.monotonic(), _LEAST_S),
                        progress=_from(done, total, progress),
                    )
                except PASSING as error:
                    if judge is None:
                        raise
                    verdicts = failed_verdicts(groups, error, judge)
            if kept is not None:
                kept.keep_verdicts(groups, verdicts)
                tell_kept(kept)
            judge, done = verdicts.judge, done + len(verdicts)
            yield lines, verdicts if self.details else replace(verdicts, details={})


def judged_line(line: Line, verdict: Verdict, judge: JudgeIdentity) -> dict[str, Any]:
    """Return a line with its verdict; a field of the input that has an answer's name gives way."""
    fields = {name: value for name, value in line.fields.items() if name not in _ANSWERS}
    fields["status"] = Status(verdict.status).name
    fields["relevant"] = verdict.relevant
    fields["score"] = verdict.score
    if verdict.probability is not None:
        fields["probability"] = verdict.probability
    if verdict.stage is not None:
        fields["stage"] = verdict.stage
    if (agreement := vote_agreement(verdict, judge)) is not None:
        fields["agreement"] = agreement
    fields["source"] = Source(verdict.source).name
    if verdict.flags:
        fields["flags"] = [flag.name for flag in Flag if flag & verdict.flags]
    if verdict.error is not None:
        fields["error"] = {"reason": verdict.error.reason, "message": verdict.error.message}
    if verdict.detail is not None:
        fields["detail"] = detail_document(verdict.detail)
    return fields


def _judged(lines: Sequence[Line], verdicts: Verdicts) -> Iterator[dict[str, Any]]:
    for line, verdict in zip(lines, verdicts, strict=True):
        yield judged_line(line, verdict, verdicts.judge)


def _from(done: int, total: int, progress: Progress | None) -> Progress | None:
    """Return what to tell of the next block when `done` contexts of `total` are judged."""
    return None if progress is None else lambda more, _: progress(done + more, total)


def _check_ids(name: str, lines: Sequence[Line]) -> None:
    """Raise FileError for a line without the ids of a judgment list, or with those of another."""
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        query_id, doc_id = (_id(name, line, field) for field in _IDS)
        first = seen.setdefault((query_id, doc_id), line.number)
        if first != line.number:
            problem = f"judges {doc_id!r} for query {query_id!r} again, as line {first} does"
            raise FileError(name, line.number, f"{problem}; a judgment list has one grade of each")


def _write_qrels(out: Output, path: str, lines: Sequence[Line], verdicts: Verdicts) -> None:
    """Write `query 0 document grade` for each verdict; warn of what the list can't hold.

    The grade is the judge's, where it gives some, else 1 for relevant and 0 for not.
    """
    missing = rounded = 0
    rows = []
    for line, verdict in zip(lines, verdicts, strict=True):
        if verdict.relevant is None:
            missing += 1
            continue
        grade = float(verdict.relevant) if verdict.grade is None else verdict.grade
        whole = int(grade + 0.5)
        rounded += grade != whole
        rows.append(f"{line.fields['query_id']} 0 {line.fields['doc_id']} {whole}\n")
    with open_output(path, "--output") as file:
        file.writelines(rows)
    if missing:
        out.warn(
            f"{plural(missing, 'line', 'lines')} without a verdict left out of {path}, where they "
            "count as not judged"
        )
    if rounded:
        what = plural(rounded, "grade", "grades")
        out.warn(f"{what} of {path} rounded to whole numbers, the means of several samples")


def _id(name: str, line: Line, field: str) -> str:
    value = as_id(line.fields.get(field))
    if not isinstance(value, str):
        problem = f"has no {field!r}, which a judgment list is made of; give each line both ids"
    elif value.split() != [value]:
        problem = f"has {field!r} with white space, at which TREC's columns end"
    else:
        return value
    raise FileError(name, line.number, problem)
