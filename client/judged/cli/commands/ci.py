"""`judged ci`: a pull request's result held against main's, as a comment, annotations, a status.

On main `--save` keeps the result as the baseline, on a branch of the repository. On a pull request
the result is compared with it by paired tests; the status is 1 where a metric is worse.

A branch of its own needs no service but Git's remote, works alike on every forge, and leaves the
history of the code alone. A file on it is a result document; the commit says of which commit.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from judged import IntervalOptions, MetricOptions
from judged._files import parse_json, read_bytes
from judged.cli.documents import compare_documents, parse_report
from judged.cli.frame import Document, arg, flag, opt
from judged.cli.gates import AnySignature
from judged.cli.output import Output, Problem, open_output, say
from judged.cli.server import ResultCommand
from judged.report import Report, make_report, to_html
from judged.report.content import verdict_of
from judged.report.markdown import BaselineAge, headline, lost, to_comment, worse
from judged.report.texts import visible
from judged.values import RunComparison
from judged.values.intervals import ends_of

BRANCH = "judged-baseline"
_TIMEOUT_S = 120.0
_OF = re.compile(r"^Baseline-Of: ([0-9a-f]{7,64})$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
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
    branch: str = opt("NAME", "Branch that baselines are kept on.", BRANCH)

    def run(self, out: Output) -> Document | None:
        """Keep the result, or compare it."""
        content = read_bytes(self.result)
        now = parse_report(content, self.result)
        if self.save:
            of = save_baseline(self.name, content, self.remote, self.branch)
            say(
                f"kept {self.result} as the baseline {self.name!r} of commit {of[:10]} on "
                f"{self.branch}"
            )
            return None
        if self.code_quality is not None and self.dataset is None:
            raise Problem("--code-quality: needs --dataset FILE, whose lines it is about")
        before, age = self._before()
        compared: Sequence[RunComparison] = ()
        source = self.baseline or f"the baseline {self.name!r}"
        if before is not None:
            found = compare_documents(
                *(out, self, ["main", "pull request"], [parse_report(before, source), now]),
                MetricOptions(interval=IntervalOptions(confidence=1 - self.alpha)),
                allow=self.allow_other_signature,
            )
            compared = found.comparisons
            for one in compared:
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
        kept = read_baseline(self.name, self.remote, self.main, self.branch)
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
        whole, root = Path(dataset).resolve(), repository()
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
                "difference": one.difference.value,
                **ends_of(one.difference.interval),
                "p": one.permutation.p_holm,
                "effect": one.effect_size,
                "it_is": verdict_of(one),
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


@dataclass(frozen=True, slots=True)
class Baseline:
    """A result document of the branch, the commit it was made of, and when.

    `behind` is how many commits the remote's main branch has since, None where that is not known.
    """

    document: bytes
    commit: str
    made: datetime
    behind: int | None = None

    def age_days(self, now: datetime) -> float:
        """Return how old it is."""
        return (now - self.made).total_seconds() / 86400


def file_name(name: str) -> str:
    """Return the name of the file that holds a baseline. Raises Problem."""
    if not _NAME.fullmatch(name):
        raise Problem(f"--name {name}: may have letters, digits, dots, dashes and underscores only")
    return f"{name}.json"


def read_baseline(name: str, remote: str, main: str, branch: str = BRANCH) -> Baseline | None:
    """Return a baseline of the remote's branch; None where there is none yet. Raises Problem."""
    if not _git("ls-remote", "--heads", remote, f"refs/heads/{branch}").strip():
        return None
    _git("fetch", "--quiet", "--no-tags", "--depth=1", remote, f"refs/heads/{branch}")
    tip = _git("rev-parse", "FETCH_HEAD").decode().strip()
    if not _git("ls-tree", "--name-only", tip, "--", file_name(name)).strip():
        return None
    # Each save is a commit, but of several names only the last one's commit is at the tip.
    document = _git("show", f"{tip}:{file_name(name)}")
    told = _git("show", f"{tip}:{file_name(name)}.of").decode()
    of, made = _OF.search(told), told.partition("Made: ")[2].strip()
    if of is None or not made:
        raise Problem(f"{branch}: {file_name(name)}.of is not what judged ci --save writes")
    return Baseline(document, of[1], datetime.fromisoformat(made), _behind(remote, main, of[1]))


def save_baseline(name: str, document: bytes, remote: str, branch: str = BRANCH) -> str:
    """Put a document on the remote's branch, as that of HEAD; return its commit. Raises Problem.

    Others may save at the same time, so it is tried again on top of what they saved.
    """
    of = _git("rev-parse", "HEAD").decode().strip()
    made = datetime.now(UTC).isoformat(timespec="seconds")
    told = f"Baseline-Of: {of}\nMade: {made}\n".encode()
    for last in (False, False, True):
        parents: list[str] = []
        entries: dict[str, str] = {}
        if _git("ls-remote", "--heads", remote, f"refs/heads/{branch}").strip():
            _git("fetch", "--quiet", "--no-tags", "--depth=1", remote, f"refs/heads/{branch}")
            tip = _git("rev-parse", "FETCH_HEAD").decode().strip()
            parents = ["-p", tip]
            for line in _git("ls-tree", tip).decode().splitlines():
                about, _, path = line.partition("\t")
                entries[path] = about
        for path, content in ((file_name(name), document), (f"{file_name(name)}.of", told)):
            entries[path] = f"100644 blob {_blob(content)}"
        listed = "".join(f"{about}\t{path}\n" for path, about in sorted(entries.items()))
        tree = _git("mktree", given=listed.encode()).decode().strip()
        commit = _git(
            *("-c", "user.name=judged", "-c", "user.email=judged@localhost"),
            *("commit-tree", tree, *parents, "-m", f"Baseline {name} of {of[:12]}"),
        )
        pushed = commit.decode().strip()
        try:
            _git("push", "--quiet", remote, f"{pushed}:refs/heads/{branch}")
        except Problem:
            if last:
                raise
        else:
            return of
    raise AssertionError("the last try returns or raises")


def _behind(remote: str, main: str, commit: str) -> int | None:
    try:
        ahead = _git("rev-list", "--count", f"{commit}..refs/remotes/{remote}/{main}")
    except Problem:
        return None  # a shallow clone, or a commit that is no longer there
    return int(ahead)


def _blob(content: bytes) -> str:
    return _git("hash-object", "-w", "--stdin", given=content).decode().strip()


def _git(*arguments: str, given: bytes = b"") -> bytes:
    """Return what Git prints. Raises Problem with what it says."""
    with tempfile.TemporaryFile() as said:
        try:
            done = subprocess.run(  # noqa: S603 - arguments of ours, no shell
                ["git", *arguments],  # noqa: S607 - the user's own Git
                input=given,
                stdout=subprocess.PIPE,
                stderr=said,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise Problem("there is no git here; install it, baselines are kept with it") from None
        except subprocess.TimeoutExpired:
            raise Problem(f"git {arguments[0]} took longer than {_TIMEOUT_S:g} s") from None
        said.seek(0)
        message = " ".join(said.read().decode(errors="replace").split()).rstrip(".")
    if done.returncode:
        step = ""
        if arguments[0] == "ls-remote":
            step = "; run it in a checkout that has --remote, or name a --baseline FILE"
        raise Problem(f"git {' '.join(arguments[:2])} failed: {message or done.returncode}{step}")
    return done.stdout


def repository() -> Path:
    """Return the root of the work tree that the command runs in. Raises Problem."""
    return Path(_git("rev-parse", "--show-toplevel").decode().strip())
