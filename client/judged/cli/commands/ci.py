"""`judged ci`: compares a pull request's result with main's, as a comment and an exit status.

On main, `--save` keeps the result as the baseline, on a branch of the repository. On a pull request
the result is compared with it by paired tests; the status is 1 if a metric is worse.

A separate branch needs no service but the Git remote, works the same on every forge, and leaves the
code's history alone. Its file is a result document; its commit message names the commit measured.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from judged import IntervalOptions, MetricOptions
from judged._files import parse_json, read_bytes
from judged._views import plural, row_of
from judged.cli.documents import ComparingCommand, parse_report
from judged.cli.frame import Document, arg, flag, opt
from judged.cli.output import Output, Problem, say
from judged.report import make_report, to_html
from judged.report.content import verdict_of
from judged.report.markdown import BaselineAge, headline, to_comment, worse
from judged.values import RunComparison
from judged.values.choices import ends_of

_TIMEOUT_S = 120.0
_OF = re.compile(r"(\S+) Baseline of ([0-9a-f]{7,64})")
_FILE = "result.json"


class CiCommand(ComparingCommand):
    """Compare a result with main's: what changed, and how certain that is.

    Examples:
    judged ci result.json --save
    judged ci result.json --comment comment.md --report report.html
    """

    result: str = arg("RESULT.json", "Document of judged evaluate --json.")
    save: bool = flag("Keep the result as the baseline; run this on main.")
    baseline: str | None = opt(
        "FILE", "Compare with this document instead of the one kept with --save.", reads=True
    )
    comment: str | None = opt("FILE", "Write the comment, as Markdown.", writes=True)
    report: str | None = opt("FILE.html", "Write the report of both results.", writes=True)
    alpha: float = opt(
        "A",
        "How often a pull request that changes nothing may be called different, by all metrics "
        "together.",
        0.05,
        low=0.0001,
        high=0.5,
    )
    remote: str = opt("NAME", "Git remote.", "origin")
    branch: str = opt(
        "NAME", "Branch that the baseline is kept on; one for each, of several.", "judged-baseline"
    )

    def run(self, out: Output) -> Document | None:
        """Keep the result, or compare it."""
        content = read_bytes(self.result)
        now = parse_report(content, self.result)
        if self.save:
            of = save_baseline(content, self.remote, self.branch)[:10]
            say(f"kept {self.result} as the baseline of commit {of} on {self.branch}")
            return None
        before, age = self._before()
        compared: Sequence[RunComparison] = ()
        remarks: list[str] = []
        source = self.baseline or f"the baseline on {self.branch}"
        if before is not None:
            options = MetricOptions(interval=IntervalOptions(confidence=1 - self.alpha))
            reports = [parse_report(before, source), now]
            compared = self.compared(out, ["main", "pull request"], reports, options).comparisons
            remarks = [*out.warnings]
            for one in compared:
                out.warn(*(f"{one.metric}: {warning}" for warning in one.warnings))
        made = make_report(
            parse_json(content, self.result, None),
            None if before is None else parse_json(before, source, None),
            compared,
            title="Pull request beside main",
            names=("pull request", "main"),
            remarks=remarks,
        )
        out.write("--comment", self.comment, [to_comment(made, age)])
        if self.report is not None and out.write("--report", self.report, [to_html(made)]):
            say(f"wrote {self.report}")
        out.show(headline(made), *([] if age is None else [str(age)]))
        known = {} if made.baseline is None else made.baseline.by_id
        failed = [
            query.query_id
            for query in made.run.queries
            if query.failure and query.query_id in known and known[query.query_id].values
        ]
        if failed:
            n = plural(len(failed), "query", "queries")
            out.warn(f"the retriever failed on {n} with a value in main, the first {failed[0]!r}")
        out.worse = bool(worse(made) or failed)
        return {
            "headline": headline(made),
            "worse": [one.metric for one in worse(made)],
            "failed": failed,
            "differences": [
                {
                    **row_of(one, "metric n"),
                    "baseline": one.baseline_mean,
                    "mean": one.run_mean,
                    "difference": one.difference.value,
                    **ends_of(one.difference.interval),
                    "p": one.permutation.p_holm,
                    "it_is": verdict_of(one),
                }
                for one in made.differences
            ],
            "baseline": age,
        }

    def _before(self) -> tuple[bytes | None, BaselineAge | None]:
        """Return the document to compare with, and its age. Raises Problem."""
        commit = None
        if self.baseline is not None:
            content = read_bytes(self.baseline)
            made = datetime.fromtimestamp(Path(self.baseline).stat().st_mtime, UTC)
        elif (kept := _tip(self.remote, self.branch)) is None:
            return None, None
        else:
            tip, made, commit = kept
            content = _git("show", f"{tip}:{_FILE}")
        days = (datetime.now(UTC) - made).total_seconds() / 86400
        return content, BaselineAge(commit, days, self.baseline)


def save_baseline(document: bytes, remote: str, branch: str) -> str:
    """Push a document to the remote's branch as HEAD's baseline; return HEAD. Raises Problem.

    Retries on top of the branch if others saved at the same time.
    """
    of = _git_text("rev-parse", "HEAD")
    blob = _git_text("hash-object", "-w", "--stdin", given=document)
    tree = _git_text("mktree", given=f"100644 blob {blob}\t{_FILE}\n".encode())
    for tries_left in (2, 1, 0):
        tip = _tip(remote, branch)
        commit = _git_text(
            "-c",
            "user.name=judged",
            "-c",
            "user.email=judged@localhost",
            "commit-tree",
            tree,
            *([] if tip is None else ["-p", tip[0]]),
            "-m",
            f"Baseline of {of}",
        )
        try:
            _git("push", "--quiet", remote, f"{commit}:refs/heads/{branch}")
        except Problem:
            if not tries_left:
                raise
        else:
            break
    return of


def _tip(remote: str, branch: str) -> tuple[str, datetime, str] | None:
    """Return the last commit of the remote's branch, its time, and the commit it is a baseline of.

    None if there is no branch. Raises Problem for a branch of something else.
    """
    if not _git_text("ls-remote", "--heads", remote, f"refs/heads/{branch}"):
        return None
    _git("fetch", "--quiet", "--no-tags", "--depth=1", remote, f"refs/heads/{branch}")
    match = _OF.fullmatch(_git_text("show", "--no-patch", "--format=%cI %B", "FETCH_HEAD"))
    if match is None:
        raise Problem(f"--branch {branch}: was not written by judged ci --save; name another")
    return _git_text("rev-parse", "FETCH_HEAD"), datetime.fromisoformat(match[1]), match[2]


def _git_text(*arguments: str, given: bytes = b"") -> str:
    return _git(*arguments, given=given).decode().strip()


def _git(*arguments: str, given: bytes = b"") -> bytes:
    """Return Git's output. Raises Problem with its message."""
    try:
        done = subprocess.run(  # noqa: S603 - our own arguments, no shell
            ["git", *arguments],  # noqa: S607 - the user's own Git
            input=given,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise Problem("git, which keeps the baselines, is not installed") from None
    except subprocess.TimeoutExpired:
        raise Problem(f"git {arguments[0]} took longer than {_TIMEOUT_S:g} s") from None
    if done.returncode:
        message = " ".join(done.stderr.decode(errors="replace").split()).rstrip(".")
        step = ""
        if arguments[0] == "ls-remote":
            step = "; run it in a checkout that has --remote, or name a --baseline FILE"
        raise Problem(f"git {' '.join(arguments[:2])} failed: {message or done.returncode}{step}")
    return done.stdout
