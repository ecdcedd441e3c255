"""Requests: calls, rules of their values, and how their messages are received and admitted.

`Call` holds all that is known about a call. The tenant and the sender are also set as context
variables (`tenant.TENANT`, `SENDER`) for the layers below, which don't see the `Call`.

**Values.** The codec knows the names and types of fields; RULES says which values they may have.
Errors name the path of the field.

**Receiving.** A small message is parsed on the event loop. One of INLINE_BYTES or more stays bytes
until there is room for it; then a thread inflates and parses one at a time, and senders take turns.
gRPC itself would inflate it on the event loop (40 messages of 15 kB that inflate to 15 MB delayed
health checks by 13 s); see `connection_options` in `listeners`.

A parsed field takes memory however short it is: 16 MiB of empty groups become 1 GB. So fields of
less than 128 bytes are counted before a message is parsed: a known tag, a length, then another tag.
The count may include parts of texts. It misses only fields that precede one unknown to the
contract.

**Memory.** A request takes several times its size: its bytes, the message, the texts, the judge's
copies; and each of its fields takes objects. A request that does not fit is rejected at once with
RetryInfo, since an unbounded queue makes every answer late.

A sender of weight 1 may hold twice what it leaves free: two thirds of the room if alone, two fifths
beside another that does the same. So even when its calls wait for a slow provider, others find
room, and work that has begun is never discarded.

**Arrivals.** Messages being received have the same amount of room besides. gRPC reports neither the
size of such a message nor how much has arrived, and buffers all of it. Small messages arrive at
once; the others are estimated to grow every LOOK_S. When the estimates exceed the room, or the
process is short of memory, a message is rejected: from the sender with the most messages arriving
for its weight, the one that has taken LONG_LOOKS or more (it may be stuck), else the newest.
"""

from __future__ import annotations

import asyncio
import math
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache, lru_cache, partial
from itertools import pairwise
from math import inf
from operator import ge, gt, le, lt
from typing import Any, NamedTuple, TypeVar

import grpc
import numpy as np
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, Message
from judged._codec import read_fields
from judged.errors import InvalidArgument
from judged.v1 import groups_pb2, metrics_pb2
from judged.v1 import judge_service_pb2 as pb
from judged.v1.statistics_service_pb2 import ScoredStage
from judged.values.calibrators import Calibrator, ErrorGuarantee, ItemShares
from judged.values.choices import IntervalOptions
from judged.values.comparison import CompareOptions
from judged.values.judges import Asking, PanelMember
from judged.values.metrics import TextItem
from judged.values.scores import AnswerItem, Rubric
from numpy.typing import NDArray

from judged_server import errors, telemetry
from judged_server.domain import CostTracker, JudgeSpec, check_limit, need
from judged_server.judges.base import ANONYMOUS, Caller
from judged_server.judges.panel import HEAVIEST, LIGHTEST
from judged_server.metrics.compute import SettledOptions
from judged_server.process import MemoryWatch, Pressure
from judged_server.scheduling.concurrency import INLINE_BYTES, FairThreads
from judged_server.statistics.calibration.calibrate import CalibrationOptions
from judged_server.statistics.calibration.cascade import FLAGS, LENGTH, SCORE
from judged_server.statistics.calibration.frontier import FrontierOptions
from judged_server.tenant import ANYBODY, EVERYBODY, Sender, Tenant
from judged_server.tenants import Identity
from judged_server.usecases.tenant_rates import TenantRates

REQUEST_ID = "x-request-id"
_PLAIN_ID = re.compile(r"[\x21-\x7e]{1,128}")
GROWTH = 5
"""Bytes of memory per byte of a request: 4.3 for a single one, 6 with memory that is freed late."""
FIELD_BYTES = 128
"""Further bytes of memory per field: 53 to 118 were measured, with the shortest texts."""
SMALL_MEMORY = 1 << 19
"""The most memory of a request of 64 KiB, unless it has more than 1,500 fields."""
HELD_TO_FREE = 2.0
"""How much a sender of weight 1 may hold per free byte."""
_RETRY_AFTER_S = 0.25
_MEMORY_BACK_AFTER_S = 1.0

LOOK_S = 0.05
STEP_BYTES = 1 << 20
"""Estimated growth of an arriving message per LOOK_S (170 Mbit/s), up to `max_message_bytes`."""
LONG_LOOKS = 100
"""After so many looks (5 s) a message is rejected before newer ones of the same sender."""
STRANGER = Sender("a stranger", 0.1)
"""The one sender of all calls that need no credential, such as health checks."""
STRANGERS_LOOKS = 2
_SENT_AGAIN_AFTER_S = 1.0

COUNTED_BYTES = 1 << 13
"""Fields are counted only in larger messages; those of smaller ones take little memory."""
MOST_FIELDS = 2_000_000
"""In one message: a million contexts with their ids."""

_GZIP = b"\x1f\x8b"
"""The first bytes of a gzip stream. No protobuf message begins so: there is no wire type 7."""
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
_PART = 1 << 20
"""Bytes scanned for tags at a time, which takes at most twenty times as much memory."""
_MORE = 0x80
"""Set in each byte of a varint but the last."""
_WIRE_TYPES, _HAS_LENGTH = (0, 1, 2, 5), 2
_LOOKED_AT = 0x87
"""The bits of a byte that show a one-byte tag whose field has a length."""

Context = grpc.aio.ServicerContext[Any, Any]
Metadata = Sequence[tuple[str, str | bytes]]


def callers_id(metadata: Metadata, header: str = REQUEST_ID) -> str | None:
    """Return the id that the caller set in the metadata; None if it is missing or malformed."""
    given = dict(metadata).get(header)
    return given if isinstance(given, str) and _PLAIN_ID.fullmatch(given) else None


@dataclass(slots=True, eq=False)
class Call:
    """A call in work. `size` and `memory` are of its message; 0 for a stream of messages.

    `room` holds that memory until the call ends; `kept` is the memory that a stream keeps of its
    messages until then. `deadline` is when the caller stops waiting, by the event loop's clock;
    `limit_s` the seconds after which the server ends the call, None where gRPC does. `cost_tracker`
    has the usage of language models, None where the call can't ask any.
    """

    method: str
    context: Context
    metadata: Metadata
    request_id: str
    counted: bool
    started: float
    task: asyncio.Task[Any] | None = None
    span: telemetry.EndCall | None = None
    identity: Identity | None = None
    tenant: Tenant = EVERYBODY
    sender: Sender = ANYBODY
    size: int = 0
    memory: int = 0
    room: ExitStack = field(default_factory=ExitStack)
    kept: int = 0
    deadline: float = math.inf
    limit_s: float | None = None
    timeout: asyncio.Timeout | None = None
    cost_tracker: CostTracker | None = None
    ended_by: errors.JudgedError | None = None
    code: str = "CANCELLED"
    reason: str = ""

    def caller(
        self,
        asking: groups_pb2.AskingOptions,
        field: str = "asking",
        *,
        wants_details: bool = False,
        spends: bool = True,
    ) -> Caller:
        """Return the Caller to pass to judges; `spends` says whether models may be asked.

        Raises InvalidField below `field`.
        """
        asked, tracker = read_alike(Asking, asking, field), ANONYMOUS.cost_tracker
        if spends:
            tracker = self.cost_tracker = CostTracker(asked.max_cost)
        return Caller(self.deadline, wants_details, asked.cache, tracker)

    def stop(self, why: errors.JudgedError) -> None:
        """End the call with this error."""
        self.ended_by = why
        if self.task is not None:
            self.task.cancel()


MAX_EDGES = 16
MAX_INT32 = 2**31 - 1
"""The largest grade of the contract, and more documents than a message holds."""

Value = TypeVar("Value")
Rule = tuple[Callable[[Any, Any], Any], str]
"""A check, given a field and the value that has it, and what errors say. NaN is in no range."""
_ENDS: Mapping[str, tuple[Callable[[Any, float], Any], str]] = {
    "[": (ge, "at least"),
    "(": (gt, "above"),
    "]": (le, "at most"),
    ")": (lt, "below"),
}


@lru_cache
def interval(text: str) -> Rule:
    """Return the rule of an interval, for numbers and arrays: "(0, 1]" excludes 0, includes 1."""
    low, high = map(float, text[1:-1].split(","))
    (over, above), (under, below) = _ENDS[text[0]], _ENDS[text[-1]]
    rule = f"{above} {low:.12g} and {below} {high:.12g}"
    if text[0] + text[-1] == "[]":
        rule = f"from {low:.12g} to {high:.12g}"
    rule = "must be " + rule.replace("above -inf and below inf", "a number").replace(
        "below inf", "finite"
    )
    return lambda part, _: over(part, low) & under(part, high), rule


def _shares(part: Sequence[float], data: ItemShares) -> bool:
    return len(part) == len(data.edges) + 1 and all(0 <= each <= 1 for each in part)


def _some(what: str) -> Rule:
    return lambda part, _: len(part) > 0, f"must hold at least one {what}"


def _weigh(part: Mapping[str, float], _: object) -> bool:
    return not part or (all(0 <= each < inf for each in part.values()) and any(part.values()))


SHARE = "[0, 1]"
_SET: Rule = (lambda part, _: part != "", "must be set")
_COUNT = f"[1, {MAX_INT32}]"
_OF_BINS: Rule = (_shares, "must be numbers from 0 to 1, one more than edges")

RULES: Mapping[type, Mapping[str, Rule | str]] = {
    Asking: {"max_cost": "(0, inf)"},
    JudgeSpec: {
        "min_score": SHARE,
        "members": (
            lambda part, spec: spec.kind == "cascade" or not any(m.judge.panel for m in part),
            "must hold no panel",
        ),
    },
    PanelMember: {"weight": f"[{LIGHTEST}, {HEAVIEST}]"},
    Rubric: {
        "rubric": _SET,
        "min_score": SHARE,
        "weights": (_weigh, "must be finite numbers, 0 or more, and not 0 for every dimension"),
    },
    AnswerItem: {"confidence": SHARE, "item_id": _SET},
    TextItem: {"references": (lambda part, _: bool(part), "must hold a text; it may be empty")},
    Calibrator: {
        "slope": "(0, inf)",
        "intercept": "(-inf, inf)",
        "min_score": SHARE,
        "accept": SHARE,
        "reject": SHARE,
    },
    ErrorGuarantee: {
        "max_error": SHARE,
        "confidence": SHARE,
        "labels_counted": (
            lambda part, guarantee: 0 <= part <= guarantee.n_labels,
            "must be from 0 to n_labels",
        ),
    },
    ItemShares: {
        "name": (
            lambda part, _: part in (SCORE, LENGTH, FLAGS),
            f"must be one of {SCORE}, {LENGTH}, {FLAGS}",
        ),
        "edges": (
            lambda part, _: (
                len(part) <= MAX_EDGES and all(a < b for a, b in pairwise([-inf, *part, inf]))
            ),
            f"must be up to {MAX_EDGES} numbers, ascending",
        ),
        "shares": _OF_BINS,
        "variances": _OF_BINS,
    },
    SettledOptions: {"relevance_level": _COUNT, "max_documents": _COUNT},
    IntervalOptions: {"confidence": "[0.5, 0.9999]", "resamples": "[100, 100_000]"},
    CompareOptions: {
        "permutations": "[100, 1_000_000]",
        "max_moved": "[0, 1_000]",
        "difference": "(0, inf)",
    },
    CalibrationOptions: {
        "min_score": SHARE,
        "precision_floor": "(0, 1]",
        "folds": "[2, 20]",
        "max_error": "(0, 0.5)",
        "max_share": SHARE,
    },
    FrontierOptions: {
        "max_error": "(0, 0.5)",
        "max_share": SHARE,
        "max_cost": "[0, inf)",
        "confidence": "(0, 1)",
    },
    pb.ScoreAnswersRequest: {"rubrics": _some("rubric")},
    pb.EmbeddedRankings: {"rankings": _some("ranking"), "min_score": SHARE},
    metrics_pb2.GainRankings: {"rankings": _some("ranking")},
    metrics_pb2.JudgedRankings: {"rankings": _some("ranking"), "max_grade": "[0, 1_000]"},
    groups_pb2.GroupEmbeddings: {"dimensions": (lambda part, _: part > 0, "must be at least 1")},
    ScoredStage: {"cost": "[0, inf)"},
    pb.GetUsageRequest: {"days": "[0, 366]"},
}
"""Rules by class and field, for values and for messages that are read without a value class."""


_ALIKE_BYTES = 1 << 10


def read_alike(kind: type[Value], message: Message, path: str) -> Value:
    """Return what `read` does, for messages that are the same in most requests of a caller.

    Small ones are cached, since reading one takes 10% of the time of a small request.
    """
    if message.ByteSize() > _ALIKE_BYTES:
        return read(kind, message, path)
    raw = message.SerializeToString(deterministic=True)
    value: Value = _read_once(kind, type(message), raw, path)  # type: ignore[arg-type]  # types are hashable
    return value


@lru_cache(1 << 10)
def _read_once(kind: type[Value], of: type[Message], raw: bytes, path: str) -> Value:
    return read(kind, of.FromString(raw), path)


def read(kind: type[Value], message: Message, path: str = "", **others: object) -> Value:
    """Return the value of a message at a path. Raises InvalidField for a field against a rule."""
    try:
        value = read_fields(kind, message, **others)
    except InvalidArgument as unknown:
        rule = unknown.message.removeprefix(f"{unknown.field}: ")
        raise errors.InvalidField(f"{path}.{unknown.field}".lstrip("."), rule) from None
    check(value, path)
    return value


def check(value: Any, path: str) -> None:  # noqa: ANN401 - a value, or a part of one
    """Raise InvalidField for the first field, of a value or nested in it, that breaks its rule.

    In a message only the fields with a rule are checked.
    """
    if isinstance(value, tuple):
        for place, each in enumerate(value):
            check(each, f"{path}[{place}]")
    if isinstance(value, Calibrator):
        path += ".calibrator"  # in the message, a oneof has a calibrator or a name
        not_fitted = value.not_fitted
        need(not not_fitted, path, f"holds nothing that labels made: {not_fitted[:200]}")
    rules = RULES.get(type(value), {})
    optional = dict.fromkeys(rules, False)
    if is_dataclass(value):
        optional = {each.name: each.default is not MISSING for each in fields(value)}
    for name, may_be_unset in optional.items():
        part, at = getattr(value, name), f"{path}.{name}".lstrip(".")
        if part is not None and name in rules:
            given = rules[name]
            holds, rule = interval(given) if isinstance(given, str) else given
            need(holds(part, value), at, rule + ", or be unset" * may_be_unset)
        if isinstance(part, tuple) or is_dataclass(part):
            check(part, at)


def memory_of(size: int, fields: int) -> int:
    """Return the estimated bytes of memory of a request, by its size and number of fields."""
    return size * GROWTH + fields * FIELD_BYTES


@dataclass
class Admission:
    """Counts the memory of requests against a limit. Used on one event loop.

    `process` reports memory pressure; `pending_bytes` is the memory of all requests in work.
    """

    max_pending_bytes: int
    process: MemoryWatch = field(default_factory=MemoryWatch)
    pending_bytes: int = 0
    _waiting: int = 0
    _held: Counter[str] = field(default_factory=Counter)

    def is_idle(self) -> bool:
        """Return whether no request is in work."""
        return not self.pending_bytes

    def check_pressure(self, memory: int) -> None:
        """Raise Overloaded when the process has too little memory left for a request."""
        pressure = self.process.pressure
        if pressure is Pressure.CRITICAL or (pressure is Pressure.HIGH and memory > SMALL_MEMORY):
            raise errors.Overloaded(
                "the server is short of memory; send less at once, or try again later",
                _MEMORY_BACK_AFTER_S,
            )

    def admit(self, memory: int, sender: Sender = ANYBODY) -> ExitStack:
        """Reserve the memory of a request for the duration of a `with`, or until `close`.

        Any size is admitted when nothing is in work. Raises Overloaded when it doesn't fit.
        """
        self.check_pressure(memory)
        free = self.max_pending_bytes - self.pending_bytes
        share = HELD_TO_FREE * sender.weight * (free - memory)
        if self.pending_bytes and self._held[sender.name] + memory > share:
            raise errors.Overloaded(
                "there is no room for a request of this size beside those in work; send it again "
                "later, or less at once",
                _RETRY_AFTER_S,
            )
        self._count(sender, memory, 1)
        admitted = ExitStack()
        admitted.callback(self._count, sender, memory, -1)
        return admitted

    async def wait_for_room(
        self, memory: int, sender: Sender = ANYBODY, kept: int = 0, *, waits: bool = True
    ) -> ExitStack:
        """Do what `admit` does, once there is room; with `waits=False`, at once or not at all.

        `kept` is the memory that the waiting stream holds until its end. Raises Overloaded where
        the rest would be too small even with nothing else in work, and where the waiting requests
        take more than `max_pending_bytes`.
        """
        share = HELD_TO_FREE * sender.weight * (self.max_pending_bytes - kept - memory)
        alone = kept > 0 and kept + memory > share
        self._waiting += memory
        try:
            while True:
                try:
                    return self.admit(memory, sender)
                except errors.Overloaded as busy:
                    if alone or not waits or self._waiting > self.max_pending_bytes:
                        raise
                    await asyncio.sleep(busy.retry_after_s)
        finally:
            self._waiting -= memory

    def _count(self, sender: Sender, memory: int, sign: int) -> None:
        self.pending_bytes += sign * memory
        self._held[sender.name] += sign * memory
        if not self._held[sender.name]:
            del self._held[sender.name]


@dataclass(eq=False, slots=True)
class _Message:
    """A message being received; `waiting` is made to expire when it is rejected."""

    waiting: asyncio.Timeout
    sender: Sender
    most: int
    long_looks: int
    looks: int = 0

    @property
    def memory(self) -> int:
        """Its estimated memory; 0 at the first look, by which most messages have arrived."""
        return min(self.most, (self.looks - 1) * STEP_BYTES)

    @property
    def order(self) -> tuple[bool, int]:
        """Its place among its sender's messages; the lowest is rejected first."""
        is_long = self.looks > self.long_looks
        return not is_long, -self.looks if is_long else self.looks


@dataclass
class Arrivals:
    """The messages being received, of all calls. Used on one event loop.

    Their estimated memory is limited to `max_pending_bytes`, besides that of requests in work.
    """

    admission: Admission
    max_message_bytes: int
    _messages: dict[_Message, None] = field(default_factory=dict)
    _timer: asyncio.TimerHandle | None = None

    async def receive(self, read: Callable[[], Awaitable[Any]], sender: Sender = STRANGER) -> Any:  # noqa: ANN401 - any message
        """Return what `read` receives. Raises Overloaded when it is rejected to free memory."""
        looks = STRANGERS_LOOKS if sender is STRANGER else LONG_LOOKS
        message = _Message(asyncio.timeout(None), sender, self.max_message_bytes, looks)
        self._messages[message] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        try:
            async with message.waiting:
                return await read()
        except TimeoutError:
            if not message.waiting.expired():
                raise
            raise errors.Overloaded(
                "the message took long to arrive, and others had to be received; send it again, "
                "in smaller messages if your connection is slow",
                _SENT_AGAIN_AFTER_S,
            ) from None
        finally:
            self._messages.pop(message, None)

    def _look(self) -> None:
        """Reject messages until the estimated memory of the rest fits."""
        self._timer = None
        if self._messages:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        for message in self._messages:
            message.looks += 1
        excess = sum(message.memory for message in self._messages)
        excess -= self.admission.max_pending_bytes
        if self.admission.process.pressure > Pressure.NONE:
            excess = max(excess, 1)
        of_sender: Counter[str] = Counter()
        shares: dict[_Message, float] = {}
        # A message's share counts those of its sender that are left when its turn comes.
        for message in sorted(self._messages, key=lambda each: each.order, reverse=True):
            if message.memory:
                of_sender[message.sender.name] += 1
                shares[message] = of_sender[message.sender.name] / message.sender.weight
        for message in sorted(shares, key=lambda each: (-shares[each], each.order)):
            if excess <= 0:
                return
            excess -= message.memory
            del self._messages[message]
            message.waiting.reschedule(0.0)


def count_fields(raw: bytes, kind: Descriptor) -> int:
    """Return the number of a message's fields of less than 128 bytes.

    Raises LimitExceeded above MOST_FIELDS.
    """
    begins, follows = _tags(kind)
    values, end, count = np.frombuffer(raw, np.uint8), len(raw), 0
    for start in range(0, end - 1, _PART):
        part = values[start : min(start + _PART, end - 1)]
        at = np.flatnonzero((part & _LOOKED_AT) == _HAS_LENGTH) + start
        at = at[begins[values[at]]]
        lengths = values[at + 1]
        after = (at + 2 + lengths)[lengths < _MORE]
        inside = after[after < end]
        count += int(np.count_nonzero(follows[values[inside]]) + np.count_nonzero(after == end))
    check_limit(count, MOST_FIELDS, "fields, by its tags", "message")
    return count


@cache
def _tags(kind: Descriptor) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which bytes are one-byte tags of fields with a length, and which begin any tag.

    Includes the fields of nested messages.
    """
    begins, follows = np.zeros(256, np.bool_), np.zeros(256, np.bool_)
    left, seen = [kind], {kind}
    while left:
        for each in left.pop().fields:
            number = each.number << 3
            for wire_type in _WIRE_TYPES:
                tag = number | wire_type
                follows[tag if tag < _MORE else tag % _MORE | _MORE] = True
            if number | _HAS_LENGTH < _MORE:
                begins[number | _HAS_LENGTH] = True
            if (inner := each.message_type) is not None and inner not in seen:
                seen.add(inner)
                left.append(inner)
    return begins, follows


class Reader(NamedTuple):
    """Parses the bytes of a message and counts their fields; for protobuf or JSON."""

    parse: Callable[[bytes], Any]
    count: Callable[[bytes], int]

    def message(self, raw: bytes) -> Any:  # noqa: ANN401 - any request message
        """Return the message of some bytes. Raises MalformedMessage."""
        try:
            return self.parse(raw)
        except (DecodeError, UnicodeDecodeError, ValueError):
            raise _malformed() from None

    def inflated(self, raw: bytes, size: int) -> tuple[bytes, int]:
        """Return the inflated bytes of a message, `size` of them, and its number of fields.

        Raises MalformedMessage, and LimitExceeded for too many fields.
        """
        if raw.startswith(_GZIP):
            inflater = zlib.decompressobj(_GZIP_FORMAT)
            try:
                raw = inflater.decompress(raw, size + 1)
            except zlib.error:
                raise _malformed() from None
            if len(raw) != size or not inflater.eof or inflater.unused_data:
                raise _malformed()
        return raw, self.count(raw) if size > COUNTED_BYTES else 0


class Received(NamedTuple):
    """A message that was read, its uncompressed size, and its estimated memory."""

    message: Any
    size: int
    memory: int


def size_of(raw: Any, most: int) -> int:  # noqa: ANN401 - bytes, or gRPC's EOF
    """Return the uncompressed size of a message; for a compressed one, the size that it states.

    Raises MalformedMessage for a call without a message, and LimitExceeded above `most`.
    """
    if raw is grpc.aio.EOF:
        raise _malformed()
    size, what = len(raw), "bytes"
    if raw.startswith(_GZIP):
        # A gzip stream ends with its uncompressed size modulo 2^32 (RFC 1952, 2.3.1).
        size, what = int.from_bytes(raw[-4:], "little"), "bytes when inflated"
    check_limit(size, most, what, "message")
    return size


class Receiver:
    """Receives the messages of all calls of a server."""

    def __init__(self, admission: Admission, max_message_bytes: int) -> None:
        self.admission = admission
        self._rates = TenantRates()
        self._most = max_message_bytes
        self._arrivals = Arrivals(admission, max_message_bytes)
        self._threads = FairThreads("receive", 1)

    async def first(self, read: Callable[[], Awaitable[Any]], reader: Reader, call: Call) -> Any:  # noqa: ANN401 - any message
        """Return the one message of a call, which `read` receives; reserve its memory.

        Raises MalformedMessage, LimitExceeded, Overloaded, and TenantLimit.
        """
        self.admission.check_pressure(0)
        raw = await self._arrivals.receive(read, call.sender)
        message, call.size, call.memory = await self.read(raw, reader, call)
        if call.memory:  # an empty message, as that of GetServerInfo, is always admitted
            call.room = self.admission.admit(call.memory, call.sender)
        return message

    async def strangers(self, read: Callable[[], Awaitable[Any]], reader: Reader, _: Call) -> Any:  # noqa: ANN401 - any message
        """Return the message of a call that needs no credential, such as a health check."""
        raw = await self._arrivals.receive(read)
        return reader.message(reader.inflated(raw, size_of(raw, INLINE_BYTES))[0])

    async def each(
        self, messages: AsyncIterator[bytes], reader: Reader, call: Call
    ) -> AsyncIterator[Received]:
        """Yield the messages of a stream, no faster than the tenant's rate allows.

        When there is no room for a message, the stream waits.
        """
        async for raw in messages:
            yield await self.read(raw, reader, call, waits=True)

    async def read(
        self, raw: bytes, reader: Reader, call: Call, *, waits: bool = False
    ) -> Received:
        """Return the message of the bytes that have arrived.

        Raises MalformedMessage, LimitExceeded, and, unless it `waits`, TenantLimit, and Overloaded
        when there is no room.
        """
        size = size_of(raw, self._most)
        room = self.admission.wait_for_room
        admit = partial(room, sender=call.sender, kept=call.kept, waits=waits)
        if call.tenant.tokens_per_second is not None:
            if waits:
                await self._rates.pace(call.tenant, size)
            else:
                self._rates.charge(call.tenant, size)
        if size < INLINE_BYTES:
            raw, fields = reader.inflated(raw, size)
            return Received(reader.message(raw), size, memory_of(size, fields))
        with await admit(size * GROWTH):
            raw, fields = await self._threads.run(partial(reader.inflated, raw, size))
        memory = memory_of(size, fields)
        with await admit(memory):
            return Received(await self._threads.run(partial(reader.message, raw)), size, memory)


def _malformed() -> errors.MalformedMessage:
    return errors.MalformedMessage(
        "the bytes are not this call's request message, or a string in it is not UTF-8"
    )
