"""`judged ci`: a pull request's result held against main's, as a comment, annotations, a status.

On main `--save` keeps the result as the baseline, on a branch of the repository. On a pull request
the result is compared with it by paired tests; the status is 1 where a metric is worse.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judged import IntervalOptions, MetricOptions
from judged._files import parse_json, read_bytes
from judged.cli import baselines
from judged.cli.documents import compare_documents, parse_report
from judged.cli.frame import Document, arg, flag, opt
from judged.cli.gates import AnySignature
from judged.cli.output import Output, open_output, say
from judged.cli.problems import Problem
from judged.cli.server import ResultCommand
from judged.report import Report, make_report, to_html
from judged.report.comment import BaselineAge, headline, lost, to_comment, worse
from judged.report.texts import visible

_STALE_DAYS = 30.0
MOST = 10
"""GitHub shows ten annotations of a step."""
_ID = re.compile(rb'"(?:query_id|id)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')


@dataclass(kw_only=True)
class CiCommand(ResultCommand, AnySignature):
    """Hold a result against main's: what moved, and how certain.

    Examples:
    judged ci result.json --save
    judged ci result.json --dataset dataset.json --comment comment.md --report report.html
    """

    result: str = arg("RESULT.json", "Document of judged evaluate --json.")
    save: bool = flag("Keep the result as the baseline; run this on main.")
    name: str = opt("NAME", "Which baseline, where there are several.", "result")
    baseline: str | None = opt(
        "FILE", "Compare with this document instead of the one kept with --save.", reads=True
    )
    dataset: str | None = opt("FILE", "Data set whose lines are annotated.", reads=True)
    comment: str | None = opt("FILE", "Write the comment, as Markdown.", writes=True)
    report: str | None = opt("FILE.html", "Write the report of both results.", writes=True)
    code_quality: str | None = opt("FILE", "Write GitLab's code quality report.", writes=True)
    github: bool = flag("Print annotations as GitHub Actions reads them.")
    alpha: float = opt(
        "A",
        "How often a pull request that changes nothing may be called different, by all metrics "
        "together.",
        0.05,
        low=0.0001,
        high=0.5,
    )
    max_age: float = opt("DAYS", "Age from which a baseline is stale.", _STALE_DAYS, low=0)
    remote: str = opt("NAME", "Git remote.", "origin")
    main: str = opt("NAME", "The branch to compare with.", "main")
    branch: str = opt("NAME", "Branch that baselines are kept on.", baselines.BRANCH)

    def run(self, out: Output) -> Document | None:
        """Keep the result, or compare it."""
        content = read_bytes(self.result)
        now = parse_report(content, self.result)
        if self.save:
            of = baselines.save(self.name, content, self.remote, self.branch)
            say(
                f"kept {self.result} as the baseline {self.name!r} of commit {of[:10]} on "
                f"{self.branch}"
            )
            return None
        if self.code_quality is not None and self.dataset is None:
            raise Problem("--code-quality: needs --dataset FILE, whose lines it is about")
        before, age = self._before()
        compared: list[dict[str, Any]] = []
        source = self.baseline or f"the baseline {self.name!r}"
        if before is not None:
            found = compare_documents(
                *(out, self, ["main", "pull request"], [parse_report(before, source), now]),
                MetricOptions(interval=IntervalOptions(confidence=1 - self.alpha)),
                allow=self.allow_other_signature,
            )
            compared = [one.to_dict() for one in found.comparisons]
            for one in found.comparisons:
                out.warn(*(f"{one.metric}: {warning}" for warning in one.warnings))
        if age is not None and age.stale:
            out.warn(f"{age}, older than --max-age {self.max_age:g}; run judged ci --save on main")
        made = make_report(
            parse_json(content, self.result, None),
            None if before is None else parse_json(before, source, None),
            compared,
            title="Pull request beside main",
            names=("pull request", "main"),
        )
        if self.comment is not None:
            with open_output(self.comment, "--comment") as file:
                file.write(to_comment(made, age))
        if self.report is not None:
            with open_output(self.report, "--report") as file:
                file.write(to_html(made))
            say(f"wrote {self.report}")
        if self.dataset is not None:
            self._annotate(made, self.dataset)
        out.show(headline(made), *([] if age is None else [str(age)]))
        out.worse = bool(worse(made))
        return _document(made, age)

    def _before(self) -> tuple[bytes | None, BaselineAge | None]:
        """Return the document to compare with, and how old it is."""
        now = datetime.now(UTC)
        if self.baseline is not None:
            content, file = read_bytes(self.baseline), Path(self.baseline)
            changed = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            days = (now - changed).total_seconds() / 86400
            return content, BaselineAge(None, days, None, days > self.max_age, self.baseline)
        kept = baselines.read(self.name, self.remote, self.main, self.branch)
        if kept is None:
            return None, None
        days = kept.age_days(now)
        return kept.document, BaselineAge(kept.commit, days, kept.behind, days > self.max_age)

    def _annotate(self, made: Report, dataset: str) -> None:
        """Tell forges of queries that got worse, at their lines of the data set."""
        annotations = [
            Annotation(query_id, f"{metric} of query {query_id} fell from {was:.4f} to {now:.4f}")
            for query_id, metric, was, now in lost(made)
        ]
        lines = lines_of_queries(read_bytes(dataset))
        whole, root = Path(dataset).resolve(), baselines.repository()
        inside = whole.is_relative_to(root)
        path = whole.relative_to(root).as_posix() if inside else dataset
        if self.github:
            for line in for_github(path, lines, annotations):
                sys.stderr.write(f"{visible(line)}\n")
        if self.code_quality is not None:
            with open_output(self.code_quality, "--code-quality") as file:
                json.dump(for_gitlab(path, lines, annotations), file, indent=1)


def _document(made: Report, age: BaselineAge | None) -> Document:
    return {
        "headline": headline(made),
        "worse": [one.metric for one in worse(made)],
        "differences": [
            {
                "metric": one.metric,
                "n": one.n,
                "baseline": one.baseline_mean,
                "mean": one.run_mean,
                "difference": one.difference,
                "lower": one.lower,
                "upper": one.upper,
                "p": one.p,
                "effect": one.effect,
                "it_is": one.verdict,
            }
            for one in made.differences
        ],
        "baseline": None if age is None else asdict(age),
    }


@dataclass(frozen=True, slots=True)
class Annotation:
    """What is to be said of a query at its line."""

    query_id: str
    message: str


def lines_of_queries(content: bytes) -> dict[str, int]:
    """Return the line, from 1, on which each id stands in a data set; the first where it repeats.

    It reads JSON as text, so that lines are known, whichever way the file is laid out.
    """
    found: dict[str, int] = {}
    line, read = 1, 0
    for match in _ID.finditer(content):
        line += content.count(b"\n", read, match.start())
        read = match.start()
        try:
            value = json.loads(match[1])
        except ValueError:
            continue
        found.setdefault(str(value), line)
    return found


def for_github(path: str, lines: Mapping[str, int], annotations: Iterable[Annotation]) -> list[str]:
    """Return workflow commands that annotate the file."""
    return [
        f"::warning file={_property(path)},line={lines.get(one.query_id, 1)},"
        f"title={_property('judged: ' + one.query_id)}::{_message(one.message)}"
        for one in list(annotations)[:MOST]
    ]


def for_gitlab(
    path: str, lines: Mapping[str, int], annotations: Iterable[Annotation]
) -> list[dict[str, Any]]:
    """Return a code quality report, which GitLab shows beside the changed lines."""
    return [
        {
            "description": one.message,
            "check_name": "judged",
            "fingerprint": _digest(path, one),
            "severity": "minor",
            "location": {"path": path, "lines": {"begin": lines.get(one.query_id, 1)}},
        }
        for one in annotations
    ]


def _digest(path: str, one: Annotation) -> str:
    return hashlib.sha256(f"{path}\0{one.query_id}\0{one.message}".encode()).hexdigest()


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
