"""A model hub as Hugging Face's is laid out: one file of one revision at a time, over HTTPS.

A token goes to the hub's own host and to no other.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import SplitResult, quote, urljoin, urlsplit

from judged_server.address import Address
from judged_server.embedding.models.describe import external_locations, read_graph
from judged_server.embedding.models.manifest import TOKENIZER_FILE
from judged_server.embedding.models.model_dir import (
    CONFIG_FILE,
    GRAPHS,
    MODULES_FILE,
    SETTINGS_FILES,
    ModelOptions,
    read_modules,
)
from judged_server.embedding.models.sources import ModelSourceError

SCHEME = "hf:"
SILENCE_S = 30.0
"""A connection that says nothing for so long has failed."""
SLOWEST_BYTES_S = 1 << 10
"""A download that is slower than this on average after SILENCE_S has failed."""
MAX_REDIRECTS = 5

_CONNECTION_ERRORS = (TimeoutError, ConnectionError, ssl.SSLError)
_CHUNK = 1 << 18
_REFERENCE = re.compile(r"([\w-][\w.-]{0,95}/[\w-][\w.-]{0,95})@(\S{1,200})", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_TOKEN = re.compile(r"[!-~]{1,1000}")
_REDIRECTS = {301, 302, 303, 307, 308}


@dataclass(frozen=True, slots=True)
class HubReference:
    """A model on a hub: `repository` is ORG/NAME, `revision` a commit hash, a branch or a tag."""

    repository: str
    revision: str

    @classmethod
    def parse(cls, text: str) -> HubReference:
        """Return what hf:ORG/NAME@REVISION names. Raises ModelSourceError."""
        match = _REFERENCE.fullmatch(text.removeprefix(SCHEME))
        if match is None or ".." in text:
            raise ModelSourceError(
                f"{text[:200]!r} names no model: write hf:ORG/NAME@REVISION, where REVISION is a "
                "commit hash, or a branch or tag whose commit is taken now"
            )
        return cls(match[1], match[2])

    def at(self, commit: str) -> HubReference:
        """Return the same model at a commit."""
        return HubReference(self.repository, commit)

    @property
    def is_pinned(self) -> bool:
        """Whether the revision is a whole commit hash."""
        return _COMMIT.fullmatch(self.revision) is not None

    def __str__(self) -> str:
        return f"{SCHEME}{self.repository}@{self.revision}"


@dataclass(frozen=True, slots=True)
class _Answer:
    """The end of a chain of redirects, and what the hub itself said at its start."""

    body: IO[bytes]
    headers: Mapping[str, str]
    said: Mapping[str, str]


class Hub:
    """Files of models at one base address."""

    def __init__(self, url: str, token: str = "") -> None:
        """Use `url` with a token, if any. Raises ModelSourceError for an address that is unsafe."""
        self._base = _checked_base(url)
        self._token = token.strip()
        if self._token and not _TOKEN.fullmatch(self._token):
            raise ModelSourceError("HF_TOKEN is set and holds what no token can: set it anew")
        self._opener = urllib.request.build_opener(_NoRedirects)

    def commit(self, reference: HubReference, path: str) -> str:
        """Return the commit of a revision, as the hub says it with a file that must be there."""
        answer = self._ask(reference, path)
        if answer is None:
            raise ModelSourceError(f"{reference} has no {path}: is it a model's repository?")
        with answer.body:
            said = answer.said.get("x-repo-commit", "")
        if reference.is_pinned:
            if said and said != reference.revision:
                raise ModelSourceError(
                    f"the hub answers {reference} with commit {said[:40]!r}: try another hub"
                )
            return reference.revision
        if not _COMMIT.fullmatch(said):
            raise ModelSourceError(
                f"the hub does not say which commit {reference.revision[:80]!r} is: name the model "
                "with the whole commit hash, 40 digits"
            )
        return said

    def fetch(self, reference: HubReference, path: str, target: Path, limit: int) -> int | None:
        """Return the bytes of a file once it is in `target`, None if the hub has no such file.

        Length and, where the hub tells it, SHA-256 are checked. Raises ModelSourceError; `target`
        may then be left behind in part.
        """
        answer = self._ask(reference, path)
        if answer is None:
            return None
        with answer.body:
            size = _expected_size(answer, limit, path)
            try:
                actual, sha256 = _save(answer.body, target, size or limit)
            except (http.client.HTTPException, *_CONNECTION_ERRORS) as error:
                raise _lost(path, type(error).__name__) from error
            except OSError as error:
                raise ModelSourceError(f"{target} can't be written: {error.strerror}") from error
        if size is not None and actual != size:
            raise _lost(path, f"{actual} of {size} bytes came")
        if actual > limit:
            raise _too_large(path, limit)
        published = _published_sha256(answer.said)
        if published and sha256 != published:
            raise ModelSourceError(
                f"{path} has SHA-256 {sha256}, the hub says {published}: what came is not the file "
                "that was published; try again, or another hub"
            )
        return actual

    def _ask(self, reference: HubReference, path: str) -> _Answer | None:
        """Return the hub's answer for a file; None when the revision is there and the file not."""
        place = f"{reference.repository}/resolve/{quote(reference.revision, safe='')}/{quote(path)}"
        url = f"{self._base}/{place}"
        said: dict[str, str] = {}
        for _ in range(MAX_REDIRECTS + 1):
            try:
                response = self._open(url)
            except urllib.error.HTTPError as error:
                with error:
                    if self._is_own(url):
                        said = {**_lower(error.headers), **said}
                    if error.code not in _REDIRECTS:
                        _refuse_unless_missing(error.code, said, f"{reference}, {path}")
                        return None
                    url = _next(url, error.headers.get("Location"), path)
            except (OSError, http.client.HTTPException) as error:
                reason = getattr(error, "reason", None) or type(error).__name__
                raise ModelSourceError(
                    f"{urlsplit(url).hostname} can't be reached for {path} ({str(reason)[:200]}): "
                    "try again, name a mirror with --hub, or fetch the folder elsewhere and add it"
                ) from error
            else:
                headers = _lower(response.headers)
                if self._is_own(url):
                    said = {**headers, **said}
                return _Answer(response, headers, said)
        raise ModelSourceError(f"the hub sends from one address to the next for {path}")

    def _open(self, url: str) -> Any:  # noqa: ANN401 - urllib's stubs say no more
        request = urllib.request.Request(  # noqa: S310 - https, or loopback: see _checked_base
            url, headers={"Accept-Encoding": "identity", "User-Agent": "judged-server"}
        )
        if self._token and self._is_own(url) and urlsplit(url).scheme == "https":
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        return self._opener.open(request, timeout=SILENCE_S)

    def _is_own(self, url: str) -> bool:
        return _origin(urlsplit(url)) == _origin(urlsplit(self._base))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Leaves redirects to the caller: urllib knows no rule about where they may lead."""

    def http_error_302(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - nothing is read
        """Return nothing, so that the redirect becomes an HTTPError."""

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _refuse_unless_missing(code: int, said: Mapping[str, str], what: str) -> None:
    """Return for a file that its revision does not have; raise for any other refusal."""
    # Hugging Face says what is missing; a mirror that does not speaks of the file.
    missing = said.get("x-error-code", "EntryNotFound")
    if code == HTTPStatus.NOT_FOUND and missing == "EntryNotFound":
        return
    if code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        problem = (
            "it is not there, private or gated: check the name, accept its terms on the hub, "
            "and set HF_TOKEN to a token that may read it"
        )
    elif code == HTTPStatus.NOT_FOUND:
        problem = "there is no such model, or no such revision of it"
    elif code == HTTPStatus.TOO_MANY_REQUESTS or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        problem = f"the hub is busy or failing (HTTP {code}): try again later"
    else:
        problem = f"the hub answers with HTTP {code}"
    raise ModelSourceError(f"{what}: {problem}")


def _checked_base(url: str) -> str:
    parts = _split(url)
    if parts.scheme == "http" and not _is_loopback(parts):
        raise ModelSourceError("--hub is an https:// address; http:// is for this machine only")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ModelSourceError("--hub is an https:// address")
    if parts.username is not None or parts.query or parts.fragment:
        raise ModelSourceError("--hub is an address without user, password, ? and #")
    return url.rstrip("/")


def _split(url: str, base: str = "") -> SplitResult:
    """Return the parts of an address; an address that is none has no host."""
    try:
        parts = urlsplit(urljoin(base, url))
        _ = parts.port  # raises for a port that is none
    except ValueError:
        return urlsplit("")
    # No address has spaces or control characters, which urlsplit takes out without a word.
    return parts if re.fullmatch(r"[!-~]*", url) else urlsplit("")


def _is_loopback(parts: SplitResult) -> bool:
    return Address(host=parts.hostname or "").is_local


def _origin(parts: SplitResult) -> tuple[str, str | None, int]:
    return parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _next(url: str, location: str | None, path: str) -> str:
    """Return where a redirect leads: from https to https only, and never to a file."""
    target = _split(location or "", url)
    loopback = (urlsplit(url).scheme, target.scheme) == ("http", "http") and _is_loopback(target)
    if not location or not target.hostname or not (target.scheme == "https" or loopback):
        raise ModelSourceError(f"the hub sends to an address that is not https for {path}")
    return target.geturl()


def _expected_size(answer: _Answer, limit: int, path: str) -> int | None:
    """Return how many bytes will come, None where the parts of the body say it as they come."""
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise ModelSourceError(f"the hub sends {path} compressed, which it was asked not to")
    sizes = {
        int(size)
        for size in (answer.headers.get("content-length"), answer.said.get("x-linked-size"))
        if size is not None and re.fullmatch(r"[0-9]{1,18}", size)
    }
    if len(sizes) > 1:
        raise ModelSourceError(f"the hub gives two sizes for {path}: try again, or another hub")
    if not sizes:
        if "chunked" not in answer.headers.get("transfer-encoding", ""):
            raise ModelSourceError(f"the hub does not say how long {path} is: try another hub")
        return None
    size = sizes.pop()
    if size > limit:
        raise _too_large(path, limit)
    return size


def _save(body: Any, target: Path, most: int) -> tuple[int, str]:  # noqa: ANN401 - see _open
    """Return size and SHA-256 of what was written; reads a little more than `most` at most."""
    digest = hashlib.sha256()
    size = 0
    begun = time.monotonic()
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        while size <= most and (chunk := body.read1(_CHUNK)):
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            took = time.monotonic() - begun
            if took > SILENCE_S and size < took * SLOWEST_BYTES_S:
                raise TimeoutError
    return size, digest.hexdigest()


def _published_sha256(said: Mapping[str, str]) -> str:
    """Return the SHA-256 that the hub tells of a file in large-file storage, "" for another."""
    for name in ("x-linked-etag", "etag"):
        tag = said.get(name, "").removeprefix("W/").strip('"')
        if _SHA256.fullmatch(tag):
            return tag
    return ""


def _lower(headers: Any) -> dict[str, str]:  # noqa: ANN401 - an email.message.Message
    return {name.lower(): value for name, value in headers.items()}


def _lost(path: str, what: str) -> ModelSourceError:
    return ModelSourceError(f"the download of {path} broke off ({what}): try again")


def _too_large(path: str, limit: int) -> ModelSourceError:
    return ModelSourceError(f"{path} is larger than the {limit:,} bytes that it may have here")


MAX_JSON_BYTES = 1 << 20
MAX_TOKENIZER_BYTES = 64 << 20
MAX_GRAPH_BYTES = (2 << 30) - 1
"""What one protobuf message may have; larger models keep weights in files beside the graph."""
MAX_WEIGHTS_BYTES = 16 << 30

_LARGE = 1 << 20


def fetch_model(
    reference: HubReference,
    hub: Hub,
    folder: Path,
    options: ModelOptions,
    say: Callable[[str], None] = lambda _: None,
) -> HubReference:
    """Return the model at its commit once `folder` has the files that `ModelFolder` reads.

    The small files come first, so that a model that can't run here costs no large download. All are
    of one commit, whatever a branch does meanwhile. Raises ModelSourceError.
    """
    pinned = reference.at(hub.commit(reference, CONFIG_FILE))
    say(f"fetching {pinned}")

    def fetch(path: str, limit: int) -> bool:
        size = hub.fetch(pinned, path, folder / path, limit)
        if size is not None and size > _LARGE:
            say(f"  {path}: {size / 1e6:,.0f} MB")
        return size is not None

    fetch(CONFIG_FILE, MAX_JSON_BYTES)
    for path in (MODULES_FILE, *SETTINGS_FILES):
        fetch(path, MAX_JSON_BYTES)
    fetch(f"{read_modules(folder)['Pooling']}/{CONFIG_FILE}", MAX_JSON_BYTES)
    fetch(TOKENIZER_FILE, MAX_TOKENIZER_BYTES)
    graphs = GRAPHS if options.graph is None else (options.graph,)
    found = next((path for path in graphs if fetch(path, MAX_GRAPH_BYTES)), None)
    if found is not None:
        beside = PurePosixPath(found).parent
        for location in external_locations(read_graph(folder / found)):
            path = str(beside / location)
            if (folder / path).exists():
                raise ModelSourceError(f"{found} keeps weights in {path}, which is another file")
            fetch(path, MAX_WEIGHTS_BYTES)
    return pinned
