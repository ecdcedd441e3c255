"""Asks what a case asks, and returns what came back in its canonical form."""

from __future__ import annotations

import base64
import json
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
from judged.internal.v1 import status_pb2

from tests.fuzz.http_requests import answer
from tests.goldens.canonical import dumped, plain, shortened
from tests.goldens.cases import METHODS, Call, Case, Http, Step, read_message, unpack
from tests.goldens.servers import addresses, clean_environment
from tests.integration.cli_process import run_module
from tests.integration.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 60
DIGITS = {True: 6, False: 12}
"""Digits that count of floats, by whether they come of embeddings, whose batches differ."""
_DATA = re.compile(r"<script[^>]*id=\"data\"[^>]*>(.*?)</script>", re.DOTALL)
_CODE = re.compile(r"<(script|style)\b.*?</\1>|<meta [^>]*sha256-[^>]*>", re.DOTALL)


class Replay:
    """Asks running servers; commands run in folders that are kept from one step to the next."""

    def __init__(self, servers: dict[str, ServerProcess], scratch: Path) -> None:
        self._at = {name: addresses(server) for name, server in servers.items()}
        self._channels = {
            name: grpc.insecure_channel(grpc_at, options=[("grpc.max_send_message_length", -1)])
            for name, (grpc_at, _) in self._at.items()
        }
        self._scratch = scratch

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()

    def result_of(self, case: Case) -> Any:
        match case:
            case Call():
                return shortened(self._call(case))
            case Http():
                return shortened(self._http(case))
            case Step():
                return self._step(case)

    def _call(self, case: Call) -> Any:
        method = METHODS[case.method]
        path = f"/{method.containing_service.full_name}/{method.name}"
        start: Any = getattr(
            self._channels[case.server],
            f"{'stream' if method.client_streaming else 'unary'}_"
            f"{'stream' if method.server_streaming else 'unary'}",
        )(path)
        requests = case.requests()
        raw: list[bytes] = []
        try:
            sent = iter(requests) if method.client_streaming else requests[0]
            answered = start(sent, timeout=TIMEOUT_S)
            for each in answered if method.server_streaming else [answered]:
                raw.append(each)
        except grpc.RpcError as error:
            return {**_refusal(error), **({"replies": len(raw)} if raw else {})}
        digits = _digits(case)
        found = [plain(read_message(method.output_type, each), digits=digits) for each in raw]
        for each in found:
            _leave_out_who_asked(each)
        if not method.server_streaming:
            return found[0]
        return found[:1] + sorted(found[1:], key=dumped)  # as they ended, after what began

    def _http(self, case: Http) -> Any:
        found = answer(
            self._at[case.server][1], unpack(case.sent), is_whole=True, answer_s=TIMEOUT_S
        )
        head, _, body = (found or b"").partition(b"\r\n\r\n")
        lines = [line for line in head.decode().splitlines() if not line.lower().startswith("x-")]
        kept = [line for line in lines if not re.match("(?i)(date|server|content-length):", line)]
        text = body.decode(errors="replace")
        return {"head": plain(sorted(kept)), "body": _document("", text, digits=_digits(case))}

    def _step(self, case: Step) -> Any:
        folder = self._scratch / case.folder
        folder.mkdir(parents=True, exist_ok=True)
        address, there = self._at[case.server][0], str(folder)
        for name, content in case.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(content, encoding="utf-8")
        before = _contents(folder)
        home = self._scratch / "home"
        environment = {**clean_environment(home), "JUDGED_TARGET": address, **case.environment}
        module = {"judged": "judged.cli", "judged-server": "judged_server"}[case.program]
        done = run_module(module, folder, tuple(case.arguments), environment)
        hidden, digits = (there, str(self._scratch), str(ROOT), sys.prefix), _digits(case)
        return {
            "status": done.returncode,
            "stdout": shortened(_document("", done.stdout, *hidden, digits=digits)),
            "stderr": shortened(plain(done.stderr, *hidden)),
            "files": {
                name: shortened(_document(name, text, *hidden, digits=digits))
                for name, text in sorted(_contents(folder).items())
                if before.get(name) != text
            },
        }


@contextmanager
def replaying(servers: dict[str, ServerProcess]) -> Iterator[Replay]:
    with TemporaryDirectory() as scratch:
        replay = Replay(servers, Path(scratch))
        try:
            yield replay
        finally:
            replay.close()


def _leave_out_who_asked(reply: dict[str, Any]) -> None:
    """Leave out how far others had come, and which of two verdicts asked what both need."""
    chunk = reply.get("chunk", {})
    for name in ("progress", "usage"):
        chunk.pop(name, None)
    for judged in (reply, chunk):
        for detail in judged.get("verdicts", {}).get("details", []):
            detail.pop("usage", None)


def _refusal(error: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"code": error.code().name, "message": plain(error.details() or "")}
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for each in status_pb2.Status.FromString(value).details:
                kind = each.type_url.rpartition(".")[2]
                message = getattr(status_pb2, kind).FromString(each.value)
                found[kind] = plain(message)
    return found


def _contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_bytes().decode("utf-8", "surrogateescape")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and ".git/" not in str(path)
    }


def _digits(case: Case) -> int:
    return DIGITS["semantic" in case.name]


def _document(name: str, text: str, *folders: str, digits: int) -> Any:
    """Return JSON and JSON lines as values, of a page the data in it, of others the text."""
    if name.endswith(".html"):
        data = [json.loads(zlib.decompress(base64.b64decode(d))) for d in _DATA.findall(text)]
        return plain({"data": data, "page": _CODE.sub("", text)}, *folders, digits=digits)
    for parts in ([text], text.splitlines()):
        with suppress(ValueError, IndexError):
            found = [json.loads(part) for part in parts if text[:1] in "{["]
            return plain(found if len(found) > 1 else found[0], *folders, digits=digits)
    return plain(text, *folders)
