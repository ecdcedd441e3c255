"""Baselines kept on a branch of the repository: the result document of the last run on main.

A branch of its own needs no service but Git's remote, works alike on every forge, and leaves the
history of the code alone. A file on it is a result document; the commit says of which commit.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from judged.cli.problems import Problem

BRANCH = "judged-baseline"
_TIMEOUT_S = 120.0
_OF = re.compile(r"^Baseline-Of: ([0-9a-f]{7,64})$", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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


def read(name: str, remote: str, main: str, branch: str = BRANCH) -> Baseline | None:
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


def save(name: str, document: bytes, remote: str, branch: str = BRANCH) -> str:
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
