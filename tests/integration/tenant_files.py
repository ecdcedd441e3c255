"""Files of tenants for tests of real servers."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from judged_server.tenants import changing, tokens_beside

from tests.integration.cli_process import run_server_command


def new_token(path: Path, tenant: str) -> str:
    """Return a new token of a tenant; those before it count on for an hour."""
    with changing(tokens_beside(path)) as held:
        held[0], token = held[0].with_new(tenant, datetime.now(UTC), timedelta(hours=1))
    return token


def tenants(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `judged-server tenants` on a file."""
    return run_server_command("--tenants", str(path), "tenants", *arguments)
