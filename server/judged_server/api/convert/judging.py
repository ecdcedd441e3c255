"""Between messages and what is judged: groups, answers, judges and rubrics in, verdicts out.

Here too are THE rules of the fields of all values, each once: the codec knows what a field is
called and its type, RULES what it may be beyond that, and faults name its path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import IntEnum
from functools import lru_cache
from itertools import accumulate, pairwise
from math import inf
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message
from judged._codec import UnknownChoice, read_fields, write_fields
from judged.v1 import groups_pb2, judge_service_pb2, scores_pb2, verdicts_pb2
from judged.v1.error_reason_pb2 import ErrorReason
from judged.values.calibrators import Calibrator, ErrorGuarantee, ItemShares
from judged.values.choices import Flag, Source, Status
from judged.values.comparison import CompareOptions
from judged.values.intervals import IntervalOptions
from judged.values.judges import Asking, JudgeIdentity
from judged.values.scores import AnswerItem, Rubric
from numpy.typing import NDArray

from judged_server import errors
from judged_server.api.status import fault_code
from judged_server.domain import (
    AnswerScore,
    BoolArray,
    CallerEmbeddings,
    Float32Array,
    FloatArray,
    GroupSpans,
    JudgeSpec,
    PanelMember,
    QueryGroup,
    ScoreColumns,
    Spans,
    VerdictDetail,
    VerdictFault,
    Verdicts,
    check_unique,
    counts_of,
    need,
)
from judged_server.errors import InvalidField
from judged_server.metrics.table import MetricOptions
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size
from judged_server.settings import Limits
from judged_server.statistics.calibration.calibrate import CalibrationOptions
from judged_server.statistics.calibration.cascade import FLAGS, LENGTH, SCORE
from judged_server.statistics.calibration.frontier import FrontierOptions

MAX_EDGES = 16
MAX_INT32 = 2**31 - 1
"""More documents than a message holds, and the largest grade of the contract."""

Value = TypeVar("Value")
Rule = tuple[Callable[[Any, Any], bool], str]
"""Whether a field of a value may be what it is, and what it must be. NaN is in no range."""
_INSIDE: Rule = (lambda _, __: True, "")
"""The field may be anything: what it holds has rules."""


def _within(low: float, high: float, text: str = "must lie in {} to {}, or be unset") -> Rule:
    return lambda part, _: low <= part <= high, text.format(low, high)


def _between(low: float, high: float, text: str) -> Rule:
    return lambda part, _: low < part < high, text


def _shares(part: Sequence[float], data: ItemShares) -> bool:
    return len(part) == len(data.edges) + 1 and all(0 <= each <= 1 for each in part)


_SHARE = _within(0, 1, "must be a number from {} to {}")
_NUMBER = _between(-inf, inf, "must be a number")
_COUNT = _within(1, MAX_INT32, "must be unset or from {} to {}")
_MAX_ERROR = _between(0, 0.5, "must be above 0 and below 0.5, or be unset")
_OF_BINS: Rule = (_shares, "must be numbers from 0 to 1, one more than edges")
_FLOOR: Rule = (
    lambda part, _: 0 < part <= 1,
    "must be above 0 and at most 1, or be unset",
)

RULES: Mapping[type, Mapping[str, Rule]] = {
    Asking: {
        "max_cost": _between(0, inf, "must be a finite number above 0; leave it unset for no limit")
    },
    JudgeSpec: {"members": _INSIDE, "calibration": _INSIDE, "guarantee": _INSIDE},
    PanelMember: {"judge": _INSIDE},
    Rubric: {"calibration": _INSIDE},
    AnswerItem: {"confidence": _within(0, 1, "must be from {} to {}")},
    Calibrator: {
        "slope": _between(0, inf, "must be a number above 0"),
        "intercept": _NUMBER,
        "min_score": _SHARE,
        "accept": _SHARE,
        "reject": _SHARE,
    },
    ErrorGuarantee: {
        "max_error": _SHARE,
        "confidence": _SHARE,
        "labels_counted": (
            lambda part, guarantee: 0 <= part <= guarantee.n_labels,
            "must lie in 0 to n_labels",
        ),
        "data": _INSIDE,
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
    MetricOptions: {"interval": _INSIDE, "relevance_level": _COUNT, "max_documents": _COUNT},
    IntervalOptions: {"confidence": _within(0.5, 0.9999), "resamples": _within(100, 100_000)},
    CompareOptions: {
        "permutations": _within(100, 1_000_000),
        "max_moved": _within(0, 1_000, "must be at most {1}"),
        "difference": _between(0, inf, "must be finite and above 0, or be unset"),
    },
    CalibrationOptions: {
        "interval": _INSIDE,
        "min_score": _within(0, 1),
        "precision_floor": _FLOOR,
        "folds": _within(2, 20),
        "max_error": _MAX_ERROR,
        "max_share": _within(0, 1),
    },
    FrontierOptions: {
        "max_error": _MAX_ERROR,
        "max_share": _within(0, 1),
        "max_cost": (lambda part, _: 0 <= part < inf, "must be a number, 0 or more, or be unset"),
        "confidence": _between(0, 1, "must be above 0 and below 1, or be unset"),
    },
}


def read(kind: type[Value], message: Message, path: str = "", **others: object) -> Value:
    """Return the value of a message at a path. Raises InvalidField for what breaks a rule."""
    try:
        value = read_fields(kind, message, **others)
    except UnknownChoice as unknown:
        raise InvalidField(f"{path}.{unknown.field}".lstrip("."), unknown.rule) from None
    check(value, path)
    return value


def check(value: object, path: str) -> None:
    """Raise InvalidField for the first field of a value that breaks its rule; None breaks none."""
    if isinstance(value, Calibrator):
        path += ".calibrator"  # the message says whether it is one, or a name
        not_fitted = value.not_fitted
        need(not not_fitted, path, f"holds nothing that labels made: {not_fitted[:200]}")
    for name, (holds, rule) in RULES.get(type(value), {}).items():
        part, at = getattr(value, name), f"{path}.{name}".lstrip(".")
        if part is not None and not holds(part, value):
            raise InvalidField(at, rule)
        if isinstance(part, tuple):
            for place, each in enumerate(part):
                check(each, f"{at}[{place}]")
        else:
            check(part, at)


def need_all(good: BoolArray, field: str, rule: str) -> None:
    """Raise InvalidField at the first entry of a column that is not good."""
    if not good.all():
        need(False, f"{field}[{int(good.argmin())}]", rule)


def check_texts(value: Any, limits: Limits, path: str) -> None:  # noqa: ANN401 - a dataclass
    """Raise LimitExceeded for an id or a text of a value that is too long."""
    for part in fields(value):
        given, at = getattr(value, part.name), f"{path}.{part.name}"
        if isinstance(given, list | tuple):
            limits.check_texts(given, at)
        elif isinstance(given, str):
            (limits.check_id if part.name.endswith("_id") else limits.check_text)(given, at)


def read_inclusion(
    probabilities: Sequence[float], n_labelled: int, field: str = ""
) -> FloatArray | None:
    """Return with which probability each label was drawn; None where all had the same.

    Raises InvalidField at `inclusion_probabilities` of the field for another number of them, and
    below it for one that is not above 0 and at most 1.
    """
    name = f"{field}.inclusion_probabilities".lstrip(".")
    if not probabilities:
        return None
    n = len(probabilities)
    need(n == n_labelled, name, f"has {n} entries for {n_labelled} labels")
    values = np.array(probabilities, np.float64)
    need_all((values > 0) & (values <= 1), name, "must be above 0 and at most 1")
    return values


MAX_METADATA_KEYS = 64
"""The most keys that one query's metadata may have,"""
MAX_METADATA_BYTES = 1024
"""and the most bytes of UTF-8 in a key, and in a value."""


def read_groups(
    messages: Sequence[groups_pb2.QueryGroup],
    limits: Limits,
    field: str = "groups",
    size: float = math.inf,
    first: int = 0,
    first_result: int = 0,
) -> list[QueryGroup]:
    """Return the groups of a request. Raises InvalidField and LimitExceeded with paths.

    `size` is that of the whole message in bytes: no text in it is longer. `first` is the place of
    the first group in `field`, `first_result` that of its first result: more than 0 where earlier
    messages had the results before.
    """
    limits.check_groups(len(messages), field)
    fit = size <= limits.surely_fits
    groups, contexts = [], 0
    for i, message in enumerate(messages, first):
        group = _read_group(message, limits, f"{field}[{i}]", fit, first_result)
        first_result = 0
        groups.append(group)
        contexts += len(group.retrieved) if group.open_ended else group.n_contexts
        if group.negatives:  # what is judged against them is work as well
            contexts += group.n_retrieved * len(group.negatives)
    limits.check_contexts(contexts, field)
    return groups


def refuse_evaluation(groups: Sequence[QueryGroup], field: str = "groups") -> None:
    """Refuse what asks for more than verdicts, in calls that only judge."""
    for index, group in enumerate(groups):
        name = "grades" if group.grades else "relevant_document_ids"
        rule = "only Evaluate matches by document id"
        need(not group.by_id, f"{field}[{index}].{name}", rule)
        rule = "only Evaluate reports on negatives; judge them as expected texts of another group"
        need(not group.negatives, f"{field}[{index}].negatives", rule)


def _read_group(
    message: groups_pb2.QueryGroup,
    limits: Limits,
    path: str,
    texts_fit: bool,
    first_result: int,
) -> QueryGroup:
    query_id, query = message.query_id, message.query
    # Here and below: a slice takes two thirds of the time of list().
    expected, retrieved = message.expected[:], message.retrieved[:]
    document_ids: Sequence[str] = message.document_ids
    document_ids = document_ids[:] if document_ids else ()
    relevant: Sequence[str] = message.relevant_document_ids
    relevant = relevant[:] if relevant else ()
    grades = message.grades
    negatives: Sequence[str] = message.negatives
    negatives = negatives[:] if negatives else ()
    metadata = message.metadata
    # Paths of texts are only written out for a group in which something may be wrong.
    if not texts_fit:
        texts = (query, *expected, *retrieved, *negatives)
        texts_fit = max(map(len, texts)) <= limits.surely_fits
    if not texts_fit:
        limits.check_text(query, f"{path}.query")
        limits.check_texts(expected, f"{path}.expected")
        limits.check_texts(retrieved, f"{path}.retrieved", first_result)
        limits.check_texts(negatives, f"{path}.negatives")
    limits.check_id(query_id, f"{path}.query_id")
    limits.check_ids(document_ids, f"{path}.document_ids", first_result)
    limits.check_ids(relevant, f"{path}.relevant_document_ids")
    limits.check_ids([*grades], f"{path}.grades")
    embeddings = None
    if message.HasField("embeddings"):
        embeddings = read_embeddings(
            message.embeddings, limits, f"{path}.embeddings", (len(expected), len(retrieved))
        )
    spans = None
    if message.HasField("spans"):
        spans = read_spans(message.spans, limits, f"{path}.spans", (len(expected), len(retrieved)))
    group = QueryGroup(
        query_id,
        query,
        expected,
        retrieved,
        document_ids,
        relevant,
        embeddings,
        spans,
        negatives,
        read_metadata(metadata, f"{path}.metadata") if metadata else {},
    )
    if spans is not None or embeddings is not None:
        rule = "embeddings are set too; a group brings one or the other"
        need(spans is None or embeddings is None, f"{path}.spans", rule)
        brings = "embeddings" if spans is None else "spans"
        rule = f"are texts, but this group brings {brings}; send texts, or leave negatives out"
        need(not negatives, f"{path}.negatives", rule)
    if document_ids and len(document_ids) != group.n_retrieved:
        rule = f"{len(document_ids)} ids for {group.n_retrieved} retrieved; give one each or none"
        raise errors.InvalidField(f"{path}.document_ids", rule)
    if grades:
        group.grades, group.relevant_document_ids = read_grades(grades, relevant, path)
    if group.by_id and group.n_expected:
        name = "grades" if grades else "relevant_document_ids"
        raise errors.InvalidField(f"{path}.expected", f"must be empty when {name} is set")
    return group


def read_grades(
    grades: Mapping[str, int], relevant: Sequence[str], path: str
) -> tuple[dict[str, int], Sequence[str]]:
    """Return grades of documents, and the ids of the relevant ones; `relevant` are those named."""
    rule = "must be empty when grades is set, which says which documents are relevant"
    need(not relevant, f"{path}.relevant_document_ids", rule)
    return dict(grades), [name for name, grade in grades.items() if grade > 0]


def read_spans(
    message: groups_pb2.GroupSpans, limits: Limits, path: str, texts: tuple[int, int]
) -> GroupSpans:
    """Return the spans of a group with as many texts, or none. Raises InvalidField with paths."""
    files: dict[str, int] = {}
    sides = []
    for name, side, n in zip(
        ("expected", "retrieved"), (message.expected, message.retrieved), texts, strict=True
    ):
        at = f"{path}.{name}"
        need(not n or len(side) == n, at, f"{len(side)} spans for {n} texts")
        for i, span in enumerate(side):
            limits.check_text(span.file, f"{at}[{i}].file")
            rule = f"must be above start, which is {span.start}; the end is not part of the span"
            need(span.end > span.start, f"{at}[{i}].end", rule)
        numbers = [files.setdefault(span.file, len(files)) for span in side]
        starts = np.array([span.start for span in side], np.uint64)
        ends = np.array([span.end for span in side], np.uint64)
        sides.append(Spans(np.array(numbers, np.int64), starts, ends))
    return GroupSpans(*sides)


def read_metadata(entries: Mapping[str, str], path: str) -> dict[str, str]:
    """Return the metadata of a query. Raises LimitExceeded at `path` or `path["key"]`."""
    if len(entries) > MAX_METADATA_KEYS:
        raise errors.LimitExceeded(path, "keys", MAX_METADATA_KEYS, len(entries))
    metadata = dict(entries)
    for key, value in metadata.items():
        for text in (key, value):
            # A character is at most four bytes, so that short ones need no look.
            if len(text) > MAX_METADATA_BYTES // 4:
                size = len(text.encode())
                if size > MAX_METADATA_BYTES:
                    entry = f'{path}["{key[:80]}"]'
                    raise errors.LimitExceeded(entry, "bytes of UTF-8", MAX_METADATA_BYTES, size)
    return metadata


def read_query_metadata(
    messages: Sequence[judge_service_pb2.QueryMetadata],
    query_ids: Sequence[str],
    also_known: Sequence[str] = (),
) -> list[Mapping[str, str]]:
    """Return the metadata of each query in `query_ids`, in that order; empty if there is none.

    `also_known` are queries of the request that are not measured. Raises InvalidField at
    `metadata[i].query_id` for one that the request does not have or that was there before, and as
    `read_metadata` does.
    """
    if not messages:
        return []
    known = {*query_ids, *also_known}
    for i, message in enumerate(messages):
        rule = "is the id of no query of this request"
        need(message.query_id in known, f"metadata[{i}].query_id", rule)
    check_unique([message.query_id for message in messages], "metadata[{}].query_id")
    found: dict[str, Mapping[str, str]] = {
        message.query_id: read_metadata(message.metadata, f"metadata[{i}].metadata")
        for i, message in enumerate(messages)
    }
    return [found.get(query_id, {}) for query_id in query_ids]


def read_embeddings(
    message: groups_pb2.GroupEmbeddings,
    limits: Limits,
    path: str,
    texts: tuple[int, int] = (0, 0),
) -> CallerEmbeddings:
    """Return the vectors of a group with as many texts, or none. Raises InvalidField with paths."""
    dimensions = message.dimensions
    need(dimensions > 0, f"{path}.dimensions", "must be at least 1")
    if dimensions > limits.max_embedding_dimensions:
        raise errors.LimitExceeded(
            f"{path}.dimensions", "dimensions", limits.max_embedding_dimensions, dimensions
        )
    return CallerEmbeddings(
        _read_matrix(message.expected, dimensions, f"{path}.expected", texts[0]),
        _read_matrix(message.retrieved, dimensions, f"{path}.retrieved", texts[1]),
    )


def _read_matrix(raw: bytes, dimensions: int, field: str, texts: int) -> Float32Array:
    rule = f"{len(raw)} bytes are not whole rows of {dimensions} float32 values"
    need(len(raw) % (4 * dimensions) == 0, field, rule)
    matrix = np.frombuffer(raw, dtype="<f4").reshape(-1, dimensions)
    need(not texts or len(matrix) == texts, field, f"{len(matrix)} rows for {texts} texts")
    need(bool(np.isfinite(matrix).all()), field, "holds a value that is not finite")
    return matrix


def read_spec(message: groups_pb2.JudgeSpec, field: str = "judge") -> JudgeSpec:
    """Return the judge a request asks for. Raises InvalidField for what no judge can have."""
    spec = read(JudgeSpec, message, field)
    _refuse_inner_panels(spec, field)
    return spec


def _refuse_inner_panels(spec: JudgeSpec, field: str) -> None:
    for place, member in enumerate(spec.members):
        path, alone = f"{field}.members[{place}].judge", not member.judge.members
        rule = "must be empty: no member is a panel"
        need(alone or spec.kind == "cascade", f"{path}.members", rule)
        _refuse_inner_panels(member.judge, path)


def read_answers(
    messages: Sequence[scores_pb2.AnswerItem], rubrics: int, limits: Limits, field: str = "items"
) -> list[AnswerItem]:
    """Return the items of a request for as many rubrics. Raises InvalidField with paths."""
    limits.check_groups(len(messages), field, "item")
    limits.check_contexts(len(messages) * rubrics, field)
    places: dict[str, int] = {}
    items = []
    for index, message in enumerate(messages):
        path = f"{field}[{index}]"
        item = read(AnswerItem, message, path)
        check_texts(item, limits, path)
        need(item.item_id != "", f"{path}.item_id", "must be set")
        first = places.setdefault(item.item_id, index)
        rule = f"is that of {field}[{first}] again; scores would be mixed up"
        need(first == index, f"{path}.item_id", rule)
        items.append(item)
    return items


def read_rubrics(messages: Sequence[scores_pb2.RubricSpec], field: str = "rubrics") -> list[Rubric]:
    """Return the rubrics of a request. Raises InvalidField for none, and for values of no kind."""
    need(bool(messages), field, "must hold at least one rubric")
    return [read(Rubric, each, f"{field}[{i}]") for i, each in enumerate(messages)]


@lru_cache(maxsize=256)
def write_identity(identity: JudgeIdentity) -> verdicts_pb2.JudgeIdentity:
    """Return the message of a judge's identity; it is shared, so it must not be changed."""
    return write_fields(verdicts_pb2.JudgeIdentity, identity)


async def take_groups(
    messages: Sequence[groups_pb2.QueryGroup],
    size: int,
    limits: Limits,
    field: str,
    first: int = 0,
    first_result: int = 0,
) -> list[QueryGroup]:
    """Return the groups of a message of `size` bytes. Raises as `read_groups` does."""
    in_all = size + ITEM_BYTES * len(messages)
    return await run_by_size(
        in_all, read_groups, messages, limits, field, size, first, first_result
    )


def reply_bytes(verdicts: Verdicts, identity: JudgeIdentity) -> bytes:
    """Return the BatchJudgeResponse that carries verdicts and tells which judge gave them."""
    return write_fields(
        judge_service_pb2.BatchJudgeResponse,
        verdicts=write_verdicts(verdicts),
        judge=write_identity(identity),
        counts=counts_of(verdicts),
        usage=verdicts.columns.usage,
    ).SerializeToString()


def write_verdicts(verdicts: Verdicts) -> verdicts_pb2.VerdictColumns:
    """Return the message of verdicts; columns that say the same of all are left out."""
    columns = verdicts.columns
    return verdicts_pb2.VerdictColumns(
        relevant=verdicts.relevant.tolist(),
        score=columns.scores.tolist(),
        status=_unless_all(columns.statuses, Status.OK),
        source=_unless_all(verdicts.sources, Source.COMPUTED),
        flags=_unless_all(columns.flags, Flag.NONE),
        group_offsets=verdicts.offsets,
        agreement=None if columns.agreements is None else columns.agreements.tolist(),
        probability=None if columns.probabilities is None else columns.probabilities.tolist(),
        stage=None if columns.stages is None else columns.stages.tolist(),
        errors=map(write_fault, columns.faults),
        details=map(write_detail, columns.details),
    )


def _unless_all(column: NDArray[np.uint8] | None, same: int) -> Any:  # noqa: ANN401 - of enums
    return None if column is None or (column == same).all() else column.tolist()


def write_detail(detail: VerdictDetail) -> verdicts_pb2.VerdictDetail:
    """Return the message of how one verdict came about."""
    samples = [
        write_fields(verdicts_pb2.VerdictSample, each, reason=reason_number(each.reason))
        for each in detail.samples
    ]
    return write_fields(verdicts_pb2.VerdictDetail, detail, samples=samples)


def reason_number(name: str) -> ErrorReason.ValueType:
    """Return the value of the contract's enum that a reason of ours stands for."""
    return ErrorReason.Value(f"ERROR_REASON_{name or 'UNSPECIFIED'}")


def write_fault(fault: VerdictFault) -> verdicts_pb2.VerdictError:
    """Return the message of one missing verdict's reason."""
    reason = reason_number(fault.reason)
    code = fault_code(fault.reason)
    return write_fields(verdicts_pb2.VerdictError, fault, reason=reason, code=code)


def read_verdicts(
    message: verdicts_pb2.VerdictColumns, sizes: Sequence[int], field: str
) -> Verdicts:
    """Return verdicts that a caller sends back, for groups of `sizes` contexts.

    Decisions are taken as they are: the threshold was applied when they were made. Raises
    InvalidField when a column is of another length or holds a value no reply has.
    """
    offsets = list(accumulate(sizes, initial=0))
    total = offsets[-1]
    columns: dict[str, NDArray[np.float64]] = {}
    for name in ("relevant", "score", "status", "source", "flags", "agreement"):
        column = columns[name] = np.array(getattr(message, name), np.float64)
        fits = len(column) == total or (not len(column) and name != "relevant")
        need(fits, f"{field}.{name}", f"{len(column)} values for {total} contexts")
    for name in ("score", "agreement"):
        good = (columns[name] >= 0) & (columns[name] <= 1)
        need_all(good, f"{field}.{name}", "must be from 0 to 1")
    kinds: tuple[tuple[str, type[IntEnum], str], ...] = (
        ("status", Status, "VerdictStatus"),
        ("source", Source, "VerdictSource"),
    )
    for name, kind, called in kinds:
        rule = f"must be one of {errors.full_names(kind, called)}"
        need_all(np.isin(columns[name], list(kind)), f"{field}.{name}", rule)
    flags = columns["flags"].astype(np.int64)
    need_all((flags & ~sum(Flag)) == 0, f"{field}.flags", "must be a sum of known flags")
    agree = list(message.group_offsets) in ([], offsets)
    need(agree, f"{field}.group_offsets", "disagree with the sizes of the rankings")
    relevant: BoolArray = columns["relevant"].astype(np.bool_)
    statuses = columns["status"].astype(np.uint8) if len(columns["status"]) else None
    rule = "true where the status is not VERDICT_STATUS_OK"
    missing = statuses is not None and bool((relevant & (statuses != Status.OK)).any())
    need(not missing, f"{field}.relevant", rule)
    return Verdicts(
        relevant,
        ScoreColumns(
            columns["score"] if len(columns["score"]) else relevant.astype(np.float64),
            statuses,
            flags.astype(np.uint8) if len(flags) else None,
        ),
        offsets,
    )


def write_score(score: AnswerScore) -> scores_pb2.AnswerScore:
    """Return the message of one score of an answer; what is not known stays unset."""
    return write_fields(
        scores_pb2.AnswerScore,
        score,
        min_score=score.identity.min_score,
        error=None if score.fault is None else write_fault(score.fault),
    )
