"""Settings of the server: flag > environment (JUDGED_*) > TOML file > default.

Every field, described below it, is also a flag: `max_text_bytes` is `--max-text-bytes` and
`JUDGED_MAX_TEXT_BYTES`. `app` applies the settings. Unknown variables that resemble a setting's
cause a warning, not an error: they may belong to another program.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from judged_server.errors import InvalidField, LimitExceeded, did_you_mean

PREFIX = "JUDGED_"
_YEAR_S = 365 * 86_400


MAX_ID_BYTES = 1024
"""The most bytes of UTF-8 in the id of a query, a document or an answer, as in metadata."""
MAX_FILE_BYTES = 16 << 20
"""The most bytes of an operator's file, of which some have lower limits."""


class SettingsError(Exception):
    """A setting is unknown, unreadable or out of range. The message names it and the source."""


class Limits(BaseModel):
    """The size limits of requests, as GetServerInfo lists them, and checks that name the field.

    `api.convert` calls the checks.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    max_contexts: int = Field(1_000_000, ge=1)
    """contexts in one request or stream"""
    max_evaluated_contexts: int = Field(50_000_000, ge=1)
    """groups and contexts in one StreamEvaluate, which keeps a few bytes of each"""
    max_text_bytes: int = Field(1 << 20, ge=1)
    """UTF-8 bytes in one text"""
    max_groups: int = Field(10_000, ge=1)
    """groups in one message"""
    max_embedding_dimensions: int = Field(4096, ge=1)
    """dimensions of vectors that callers send"""
    max_message_bytes: int = Field(16 << 20, ge=1 << 16, le=(1 << 31) - 1)
    """bytes in one received message"""

    def check_texts(self, texts: Sequence[str], field: str, first: int = 0, most: int = 0) -> None:
        """Raise LimitExceeded for a text above max_text_bytes of UTF-8, or `most`.

        `field` is the path of the list, `first` the place of the first text in it.
        """
        # A character takes at most four bytes.
        if texts and max(map(len, texts)) > (most or self.max_text_bytes) // 4:
            for index, text in enumerate(texts, first):
                self.check_text(text, f"{field}[{index}]", most)

    def check_text(self, text: str, field: str, most: int = 0) -> None:
        """Raise LimitExceeded for a text above max_text_bytes of UTF-8, or `most`."""
        most = most or self.max_text_bytes
        if len(text) > most // 4 and (size := len(text.encode())) > most:
            raise LimitExceeded(field, "bytes of UTF-8", most, size)

    def check_groups(self, count: int, field: str, what: str = "group") -> None:
        """Raise InvalidField for no groups, or other items, LimitExceeded for too many."""
        if count == 0:
            raise InvalidField(field, f"must hold at least one {what}")
        if count > self.max_groups:
            raise LimitExceeded(field, f"{what}s", self.max_groups, count)

    def check_contexts(self, count: int, field: str) -> None:
        """Raise LimitExceeded for more contexts than one request may have."""
        if count > self.max_contexts:
            raise LimitExceeded(field, "contexts", self.max_contexts, count)


class Settings(Limits):
    """Everything an operator can set. Defaults are safe on a laptop."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True
    )

    listen: str = "127.0.0.1:8470"
    """HOST:PORT (port 0 picks one) or unix:PATH"""
    port_file: Path | None = None
    """written with the address once ready"""
    stop_with_stdin: bool = False
    """drain and exit, as after SIGTERM, when standard input closes: for a program that starts a
    server of its own and keeps the other end of the pipe"""
    socket_mode: str = Field("0660", pattern=r"^0?[0-7]{3}$")
    """permissions of a Unix socket, in octal; its group is that of the server"""
    insecure: bool = False
    """allow an address that other machines can reach, without TLS or callers"""
    certificate: Path | None = None
    """PEM file with the server's certificate and its chain: turns TLS on"""
    private_key: Path | None = None
    """PEM file with the certificate's key"""
    client_ca: Path | None = None
    """PEM file: clients must show a certificate that one of these signed"""
    metrics_listen: str | None = None
    """HOST:PORT for /metrics, /healthz and /readyz over HTTP; an address that other machines can
    reach needs TLS, and metrics_token_file or metrics_client_ca"""
    metrics_token_file: Path | None = None
    """file with the token, of 32 characters or more, that /metrics requires"""
    metrics_client_ca: Path | None = None
    """PEM file: readers of metrics must show a certificate that one of these signed"""
    otlp_endpoint: str | None = Field(None, pattern=r"^https?://[^/:]")
    """base URL of an OTLP/HTTP receiver for spans, such as http://127.0.0.1:4318"""
    http_listen: str | None = None
    """HOST:PORT (port 0 picks one) or unix:PATH for calls over HTTP and JSON, besides gRPC"""
    tenants: Path | None = None
    """TOML file of tenants: callers must then show who they are"""
    failed_calls_per_minute: int = Field(100, ge=0)
    """calls per minute without a valid credential from one address before further ones are
    rejected with a retry delay, 0 = any number"""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """lowest level that is logged; calls are logged at info"""
    default_judge: str = "token_overlap"
    """judge of requests that name none"""
    models_dir: Path | None = None
    """model folder; default: the user's cache"""
    model: str | None = None
    """embedding model, which must be installed; default: all-minilm-l6-v2 if installed"""
    llm_config: Path | None = None
    """TOML file with the providers and models of the llm judge"""
    llm_cache: Literal["disk", "memory", "off"] = "disk"
    """where replies of language models are kept: disk is memory and a file"""
    llm_cache_disk_bytes: int = Field(1 << 30, ge=16 << 20)
    """bytes of replies on disk"""
    llm_cache_dir: Path | None = None
    """folder of stored replies; default: the user's cache"""
    llm_cache_ttl_s: float = Field(30 * 86_400, gt=0)
    """seconds for which a stored reply is used"""
    store: str | None = Field(None, pattern=r"^postgres(ql)?://")
    """postgresql://USER@HOST/DATABASE in which servers share replies and spending, in place of
    files; give a password by JUDGED_STORE or PGPASSFILE"""
    rubrics_dir: Path | None = None
    """folder of rubrics (TOML) for the llm judge, besides the built-in ones"""
    calibrations_dir: Path | None = None
    """folder of NAME.calibration.json, made by `judged calibrate -o`, which requests may name"""
    embedding_backend: Literal["auto", "onnxruntime", "openvino", "cuda"] = "auto"
    """what runs models: auto, onnxruntime, openvino or cuda"""
    embedding_precision: Literal["auto", "fp32", "bf16"] = "auto"
    """precision for models that are stored as fp32: auto, fp32 or bf16"""
    embedding_threads: int = Field(0, ge=0, le=256)
    """threads per model, 0 = the cores"""
    vector_cache: Literal["disk", "memory", "off"] = "disk"
    """where the vectors of texts are kept: disk is memory and a file"""
    vector_cache_memory_bytes: int = Field(64 << 20, ge=0)
    """bytes of vectors in memory for each model"""
    vector_cache_disk_bytes: int = Field(1 << 30, ge=16 << 20)
    """bytes of vectors on disk, for all models together"""
    vector_cache_dir: Path | None = None
    """folder of stored vectors; default: the user's cache"""
    grace_s: float = Field(25, ge=0, le=3600)
    """seconds calls may finish after SIGTERM"""
    default_deadline_s: float = Field(30, gt=0, le=_YEAR_S)
    """seconds for calls that set no deadline"""
    max_unary_deadline_s: float = Field(600, gt=0, le=_YEAR_S)
    """seconds a unary call may take"""
    max_stream_deadline_s: float = Field(3600, gt=0, le=_YEAR_S)
    """seconds a stream may take"""
    max_unread_s: float = Field(30, gt=0, le=_YEAR_S)
    """seconds that a reply of a stream may wait to be read before the stream is ended"""
    max_connection_age_s: int = Field(0, ge=0, le=1_000_000)
    """seconds until clients must reconnect, which lets them find new replicas, 0 = never"""
    max_queue_delay_s: float = Field(0.4, gt=0, le=60)
    """seconds interactive calls may wait for an embedding model, or for judging by texts"""
    max_pending_bytes: int = Field(256 << 20, ge=1 << 20)
    """bytes of memory for requests in work; calls beyond that are rejected"""
    max_chunks_in_flight: int = Field(8, ge=1, le=256)
    """chunks one stream works on"""

    @field_validator("*", mode="before")
    @classmethod
    def _values_are_written_as_such(cls, value: object, info: ValidationInfo) -> object:
        """Raise ValueError for no value, and for spellings that only Python reads as a number."""
        if isinstance(value, str) and (not value or "\0" in value):  # "" would be a path, too: "."
            raise ValueError("is empty, or has a zero byte; give it a value, or leave it out")
        if cls.model_fields[info.field_name or ""].annotation not in {int, float}:
            return value
        if isinstance(value, bool):
            raise ValueError(f"must be a number, not {str(value).lower()}")  # noqa: TRY004 - pydantic's
        if isinstance(value, str) and (not value.isascii() or "_" in value):
            raise ValueError(f"must be a number in the digits 0 to 9, not {value[:80]!r}")
        return value

    @field_validator("store")
    @classmethod
    def _has_its_driver(cls, value: str | None) -> str | None:
        if value is not None and find_spec("psycopg") is None:
            raise ValueError("needs psycopg; run: pip install 'judged[server,postgres]'")
        return value

    # Not for cache folders: without one the server still runs, and logs a warning.
    @field_validator("models_dir", "rubrics_dir", "calibrations_dir")
    @classmethod
    def _folders_are_no_files(cls, value: Path | None) -> Path | None:
        try:
            if value is None or value.is_dir() or not value.exists():
                return value
        except OSError as error:
            raise ValueError(f"{value} can't be read: {error.strerror}") from None
        raise ValueError(f"{value} is a file; name a folder")


def load(flags: Mapping[str, str], toml: Path | None = None) -> Settings:
    """Return the settings from flags, the environment and a TOML file. Raises SettingsError."""
    if toml is None and (named := os.environ.get("JUDGED_CONFIG")):
        toml = Path(named)
    where = f"settings file {toml}"
    in_file = {} if toml is None else read_toml(content_of(toml, "settings file"), where)
    names = {PREFIX + name.upper(): name for name in Settings.model_fields}
    in_variables = {names[each]: os.environ[each] for each in names.keys() & os.environ.keys()}
    try:
        return Settings.model_validate({**in_file, **in_variables, **flags})
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc'])}: "
            f"{_problem(item['type'], item['msg'], str(item['loc'][-1]))}"
            for item in error.errors()
        )
        where = f" (flags, JUDGED_* or {toml})" if toml else " (flags or JUDGED_*)"
        raise SettingsError(f"bad setting{where}: {problems}") from None


def content_of(
    path: Path,
    setting: str,
    most_bytes: int = MAX_FILE_BYTES,
    next_step: str = "name a file that the server may read",
) -> bytes:
    """Return the bytes of an operator's file. Raises SettingsError."""
    try:
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the path
        why = getattr(error, "strerror", error)
        raise SettingsError(f"{setting} {path} can't be read: {why}; {next_step}") from None
    if len(raw) > most_bytes:
        raise SettingsError(f"{setting} {path} is larger than {most_bytes} bytes")
    return raw


def read_toml(raw: bytes, source: str) -> dict[str, Any]:
    """Return the content of a TOML file; `source` names it in errors. Raises SettingsError."""
    text = text_of(raw, source)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # such as a number with too many digits
        raise SettingsError(f"{source} is not TOML: {error}") from None


def text_of(raw: bytes, source: str) -> str:
    """Return a file's text without a byte order mark. Raises SettingsError."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{source} is not UTF-8; save it as UTF-8") from None


def _problem(kind: str, message: str, name: str) -> str:
    """Return pydantic's message about a setting, or a better one for an unknown name."""
    if kind != "extra_forbidden":
        return message.removeprefix("Value error, ")
    hint = did_you_mean(name, Settings.model_fields)
    return f"is no setting; {hint}" if hint else "is no setting"


def variables() -> set[str]:
    """Return the variables that a server reads."""
    return {f"{PREFIX}{name.upper()}" for name in ("config", *Settings.model_fields)}


def cache_folder(name: str) -> Path:
    """Return judged/NAME in the user's cache folder: XDG_CACHE_HOME, or ~/.cache.

    Raises SettingsError without a home folder, as for a user id without an account.
    """
    return _users_folder("XDG_CACHE_HOME", ".cache") / "judged" / name


def state_folder() -> Path:
    """Return judged in the user's state folder: XDG_STATE_HOME, or ~/.local/state.

    Raises SettingsError as `cache_folder` does.
    """
    return _users_folder("XDG_STATE_HOME", ".local/state") / "judged"


def _users_folder(variable: str, in_home: str) -> Path:
    named = os.environ.get(variable, "")
    if named.startswith("/"):  # the XDG specification says to ignore relative paths
        return Path(named)
    try:
        return Path.home() / in_home
    except RuntimeError:
        raise SettingsError(
            f"this user has no home folder to keep files in; set {variable}, or HOME, to a folder "
            "that the server may write to"
        ) from None
