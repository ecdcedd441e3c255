"""`judged-server tenants`: adds tenants, makes and revokes their tokens, shows their usage.

A running server applies the changes within a few seconds.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from judged._files import replace_text
from judged._views import aligned, plural

from judged_server.domain import NANO
from judged_server.settings import Settings, SettingsError, content_of, read_toml, text_of
from judged_server.tenants import (
    NAME,
    NAME_RULE,
    changing,
    parse_tenants,
    read_tenants,
    read_tokens,
    tokens_beside,
)

_KEPT = timedelta(hours=24)
"""How long a token stays valid once it has a successor."""
_MOST_DAYS = 3650.0


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the command line."""
    tenants = commands.add_parser(
        "tenants",
        help="add tenants, make and revoke their tokens",
        description="The file of tenants is that of --tenants, or JUDGED_TENANTS.",
    )
    actions = tenants.add_subparsers(dest="action", required=True)
    add = actions.add_parser("add", help="add a tenant to the file, with a token")
    rotate = actions.add_parser(
        "rotate",
        help="make a tenant's next token; the present one counts on for a while",
        description="Two tokens of a tenant count at once: the new one, and the one before it for "
        "24 hours. Any older one ends now.",
    )
    revoke = actions.add_parser("revoke", help="end a tenant's tokens now, or one of them")
    revoke.add_argument("--token", default="", metavar="ID", help="as `tenants list` shows it")
    for parser in (add, rotate):
        parser.add_argument(
            "--days", type=float, metavar="D", help="after which the new token ends; default: never"
        )
        parser.add_argument(
            "--out",
            type=Path,
            metavar="FILE",
            help="a new file for the token, which else is printed; only its owner may read it",
        )
    for parser in (add, rotate, revoke):
        parser.add_argument("name", help=f"of the tenant: {NAME_RULE}")
    usage = actions.add_parser("usage", help="show who asked language models for what, by day")
    usage.add_argument(
        "--days",
        type=int,
        default=31,
        metavar="N",
        help="the last N days, in UTC (default 31)",
    )
    usage.add_argument("--csv", action="store_true", help="as CSV")
    actions.add_parser("list", help="show tenants and their tokens")


def manage_tenants(arguments: argparse.Namespace, settings: Settings) -> int:
    """Run one of the tenants commands; return the exit status. Raises SettingsError."""
    path = settings.tenants
    if path is None:
        raise SettingsError("tenants: name their file with --tenants FILE or JUDGED_TENANTS")
    days = getattr(arguments, "days", None)
    if days is not None and not 0 < days <= _MOST_DAYS:  # rejects NaN too
        raise SettingsError(f"--days is a number above 0, {_MOST_DAYS:g} at most")
    if arguments.action == "list":
        _list(path)
    elif arguments.action == "usage":
        _usage(arguments, settings)
    elif arguments.action == "revoke":
        _revoke(path, arguments.name, arguments.token)
    elif arguments.action == "rotate":
        if arguments.name not in read_tenants(path).by_name:
            raise SettingsError(f"tenants: {path} has no {arguments.name[:80]!r}; use tenants add")
        _new_token(path, arguments)
    else:
        _add(path, arguments)
    return 0


def _add(path: Path, arguments: argparse.Namespace) -> None:
    name = arguments.name
    if not NAME.fullmatch(name):
        raise SettingsError(f"tenants: {name[:80]!r} can't be a name: it has {NAME_RULE}")
    # This also creates the file of tokens, and locks the file of tenants.
    with changing(tokens_beside(path)) as stored:
        known = read_tenants(path).by_name if path.exists() else {}
        text = text_of(content_of(path, "tenants"), str(path)) if path.exists() else ""
        if name in known and stored[0].of(name, _now()):
            raise SettingsError(f"tenants: {name} is there and has a token; use tenants rotate")
        if name not in known:
            text = f"{text.rstrip()}\n\n[tenants.{name}]\n".lstrip()
            # Fails for a file with `tenants = {...}`, to which no table can be added.
            parse_tenants(read_toml(text.encode(), str(path)), str(path))
            replace_text(path, text, 0o600)
            print(f"{name} is added to {path}, where you say what it may use; as yet everything")
    _new_token(path, arguments)


def _new_token(path: Path, arguments: argparse.Namespace) -> None:
    now, name, out = _now(), arguments.name, arguments.out
    ends = None if arguments.days is None else now + timedelta(days=arguments.days)
    with changing(tokens_beside(path)) as stored:
        before = stored[0].of(name, now)
        stored[0], token = stored[0].with_new(name, now, _KEPT, ends)
        if out is not None:  # before the current token is given an end
            _write_token(out, token)
    when = "" if ends is None else f"; it ends at {_time(ends)}"
    if out is None:
        print(f"the token of {name}, which is shown this once{when}:")
        print(token)
    else:
        print(f"the token of {name} is in {out}{when}")
    after = {each.id: each for each in stored[0].tokens}
    for each in before:
        end = after[each.id].ends or now
        till = "has ended" if end <= now else f"counts until {_time(end)}"
        print(f"its token {each.id} of before {till}")


def _write_token(out: Path, token: str) -> None:
    """Write a token to a new file that only its owner may read. Raises SettingsError."""
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(f"{token}\n")
    except OSError as error:
        raise SettingsError(
            f"--out {out} can't be written: {error.strerror}; name another"
        ) from None


def _revoke(path: Path, name: str, id_: str) -> None:
    with changing(tokens_beside(path)) as stored:
        before = stored[0]
        stored[0] = before.without(name, id_)
        ended = len(before.tokens) - len(stored[0].tokens)
        if not ended:
            which = f"no token {id_}" if id_ else "no token"
            raise SettingsError(f"tenants: {name} has {which}; see judged-server tenants list")
    tokens = plural(ended, "token")
    print(f"{tokens} of {name} revoked; servers end the calls that showed them within 5 seconds")


def _list(path: Path) -> None:
    file = read_tokens(tokens_beside(path))
    tenants = read_tenants(path, file.secret)
    for name, tenant in tenants.by_name.items():
        print(f"{name}, cache {tenant.cache_id}")
        for token in file.of(name, _now()):
            ends = "" if token.ends is None else f", ends {_time(token.ends)}"
            print(f"  token {token.id}  made {_time(token.created)}{ends}")
    for name in sorted({each.tenant for each in file.tokens} - tenants.by_name.keys()):
        print(f"{name}  is not in {path}: its tokens count for nothing")
    if not tenants.by_name:
        print(f"no tenants in {path}; run judged-server tenants add NAME")


def _usage(arguments: argparse.Namespace, settings: Settings) -> None:
    """Print the usage of all tenants from the ledger; cost includes what may have been charged."""
    if settings.llm_config is None:
        raise SettingsError("tenants usage: name the file with the models: --llm-config FILE")
    # Imported here, since only this action needs them.
    from judged.evaluation.datasets.tables import safe_cell  # noqa: PLC0415

    from judged_server.llm.budgets import default_ledger  # noqa: PLC0415
    from judged_server.llm.config import read_configuration  # noqa: PLC0415
    from judged_server.store.ledger import FileLedger, Used  # noqa: PLC0415

    since = (_now() - timedelta(days=arguments.days - 1)).strftime("%Y-%m-%d")
    if settings.store is not None:
        from judged_server.store.postgres_ledger import used_since  # noqa: PLC0415 - of an extra

        rows = used_since(settings.store, since)
    else:
        path = read_configuration(settings.llm_config).budget.file or default_ledger()
        if not path.exists():
            raise SettingsError(f"tenants usage: there is no {path} yet: nothing was asked")
        ledger = FileLedger(path)
        try:
            rows = ledger.read_used(since)
        finally:
            ledger.close()
    heads = [*Used._fields[:-1], "cost"]
    cells = [[*map(str, row[:-1]), f"{row.nano / NANO:.9f}"] for row in rows]
    if arguments.csv:
        # A spreadsheet would evaluate a name that begins like a formula, such as "@cf/a-model".
        safe = [[safe_cell(cell) for cell in row] for row in cells]
        csv.writer(sys.stdout, lineterminator="\n").writerows([heads, *safe])
        return
    print(*aligned([heads, *cells], range(len(heads))), sep="\n")


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _now() -> datetime:
    return datetime.now(UTC)
