"""The tokens of tenants, as hashes, in a file that only commands write.

A token has 256 bits of chance, so that its SHA-256 tells nobody what it is, and needs no salt. The
file also holds the secret from which the keys of the tenants' caches are made.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Literal

from judged._writing import replace_text
from pydantic import AwareDatetime, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as table

from judged_server.llm.config.file_tables import matching
from judged_server.settings import SettingsError

PREFIX = "judged_"
"""What every token begins with, so that scanners find one that was published."""
LOCKED_S = 10.0
"""How long a command waits for another one that changes the file."""


_Hash = Annotated[str, matching("[0-9a-f]{64}", "64 hexadecimal digits")]


@table(frozen=True)
class StoredToken:
    """What is kept of a token: whose it is, its hash, and when it counts, in UTC."""

    tenant: str
    sha256: _Hash
    created: AwareDatetime
    ends: AwareDatetime | None = None

    @property
    def id(self) -> str:
        """What people call it: the beginning of its hash."""
        return self.sha256[:8]

    def live(self, now: datetime) -> bool:
        """Say whether it counts."""
        return self.ends is None or now < self.ends


@table(frozen=True)
class TokenFile:
    """What the file holds."""

    secret: _Hash = field(repr=False)
    tokens: tuple[StoredToken, ...] = ()
    version: Literal[1] = 1

    def of(self, tenant: str, now: datetime) -> list[StoredToken]:
        """Return the tokens of a tenant that count, the oldest first."""
        return [each for each in self.tokens if each.tenant == tenant and each.live(now)]

    def with_new(
        self, tenant: str, now: datetime, keeps: timedelta, ends: datetime | None = None
    ) -> tuple[TokenFile, str]:
        """Return the file with a new token of a tenant, and the token, which is nowhere else.

        Its other tokens end after `keeps`; of several only the newest is kept so long.
        """
        token = PREFIX + secrets.token_urlsafe(32)
        live, until = self.of(tenant, now), now + keeps
        changed = {each.sha256: replace(each, ends=now) for each in live[:-1]}
        for newest in live[-1:]:
            changed[newest.sha256] = replace(newest, ends=min(until, newest.ends or until))
        tokens = [changed.get(each.sha256, each) for each in self.tokens]
        tokens.append(StoredToken(tenant, hash_of(token), now, ends))
        return replace(self, tokens=tuple(tokens)), token

    def without(self, tenant: str, id_: str = "") -> TokenFile:
        """Return the file without the tokens of a tenant, or without one of them."""
        kept = (
            each
            for each in self.tokens
            if each.tenant != tenant or (id_ and not each.sha256.startswith(id_))
        )
        return replace(self, tokens=tuple(kept))


_FILE = TypeAdapter(TokenFile)


def hash_of(token: str) -> str:
    """Return what is stored of a token."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def tokens_beside(tenants: Path) -> Path:
    """Return where the tokens of a file of tenants are."""
    return tenants.with_name(f"{tenants.stem}.tokens.json")


def read_tokens(path: Path) -> TokenFile:
    """Return what a file holds. Raises SettingsError, and FileNotFoundError when there is none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SettingsError(
            f"tokens {path} can't be read: {error.strerror}; let the server's user read it"
        ) from None
    try:
        return _FILE.validate_json(raw)
    except ValidationError as error:
        says = (
            "is not as `judged-server tenants` writes it; restore it, or remove it and make new "
            "tokens"
        )
        if any(each["loc"] == ("version",) for each in error.errors()):
            says = "is of another version; update judged"
    raise SettingsError(f"tokens {path}: {says}")


@contextmanager
def changing(path: Path) -> Iterator[list[TokenFile]]:
    """Let a block change the file: it finds what the file holds, alone, and leaves what it shall.

    Others who change it wait, for `LOCKED_S` at most. Raises SettingsError.
    """
    try:
        with _locked(path.with_name(f".{path.name}.lock")):
            try:
                held = [read_tokens(path)]
            except FileNotFoundError:
                held = [TokenFile(secrets.token_hex(32))]
            yield held
            now = datetime.now(UTC)
            live = [each for each in held[0].tokens if each.live(now)]
            content = _FILE.dump_json(replace(held[0], tokens=tuple(live)), indent=1)
            replace_text(path, f"{content.decode()}\n", 0o600)
    except OSError as error:
        folder = "" if path.parent.is_dir() else f"; make its folder {path.parent}"
        raise SettingsError(f"tokens {path} can't be written: {error.strerror}{folder}") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock file, which nobody else may open: who can, can hold it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        with suppress(PermissionError):  # it is somebody else's, who lets this user write it
            os.fchmod(handle, 0o600)
        gives_up = time.monotonic() + LOCKED_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > gives_up:
                    raise SettingsError(
                        f"tokens: another process has held {path} for {LOCKED_S:g} s; end it, or "
                        "try again"
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(handle)
