"""Files of tenants for tests of real servers."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from judged_server.tenants import changing, tokens_beside

from tests.integration.cli_process import run_server_command


def new_token(path: Path, tenant: str, ends_in: timedelta | None = None) -> str:
    """Return a new token of a tenant; those before it count on for an hour."""
    now = datetime.now(UTC)
    ends = None if ends_in is None else now + ends_in
    with changing(tokens_beside(path)) as held:
        held[0], token = held[0].with_new(tenant, now, timedelta(hours=1), ends)
    return token


def tenants(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `judged-server tenants` on a file."""
    return run_server_command("--tenants", str(path), "tenants", *arguments)
