"""Between the judging messages and the domain: groups, judges, how models are asked, usage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from judged._codec import read_fields, write_fields
from judged.v1 import groups_pb2, verdicts_pb2
from judged.values.calibrators import Calibrator, ErrorGuarantee
from judged.values.choices import CacheMode
from judged.values.judges import JudgeIdentity

from judged_server import errors
from judged_server.api.convert.golden import check_golden, read_metadata, read_spans
from judged_server.domain import (
    CallerEmbeddings,
    Float32Array,
    JudgeSpec,
    PanelMember,
    ParameterScalar,
    QueryGroup,
)
from judged_server.scheduling.concurrency import ITEM_BYTES, run_by_size
from judged_server.settings import Limits
from judged_server.statistics.calibration.cascade import FLAGS, LENGTH, SCORE

MAX_EDGES = 16
_MODES = {int(mode) for mode in CacheMode}


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
        if group.by_id:
            name = "grades" if group.grades else "relevant_document_ids"
            rule = "only Evaluate matches by document id"
            raise errors.InvalidField(f"{field}[{index}].{name}", rule)
        if group.negatives:
            raise errors.InvalidField(
                f"{field}[{index}].negatives",
                "only Evaluate reports on negatives; judge them as expected texts of another group",
            )


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
        check_golden(group, path)
    if document_ids and len(document_ids) != group.n_retrieved:
        raise errors.InvalidField(
            f"{path}.document_ids",
            f"{len(document_ids)} ids for {group.n_retrieved} retrieved; give one each or none",
        )
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
    if relevant:
        rule = "must be empty when grades is set, which says which documents are relevant"
        raise errors.InvalidField(f"{path}.relevant_document_ids", rule)
    return dict(grades), [name for name, grade in grades.items() if grade > 0]


def read_embeddings(
    message: groups_pb2.GroupEmbeddings,
    limits: Limits,
    path: str,
    texts: tuple[int, int] = (0, 0),
) -> CallerEmbeddings:
    """Return the vectors of a group with as many texts, or none. Raises InvalidField with paths."""
    dimensions = message.dimensions
    if dimensions == 0:
        raise errors.InvalidField(f"{path}.dimensions", "must be at least 1")
    if dimensions > limits.max_embedding_dimensions:
        raise errors.LimitExceeded(
            f"{path}.dimensions", "dimensions", limits.max_embedding_dimensions, dimensions
        )
    return CallerEmbeddings(
        _read_matrix(message.expected, dimensions, f"{path}.expected", texts[0]),
        _read_matrix(message.retrieved, dimensions, f"{path}.retrieved", texts[1]),
    )


def _read_matrix(raw: bytes, dimensions: int, field: str, texts: int) -> Float32Array:
    if len(raw) % (4 * dimensions):
        raise errors.InvalidField(
            field, f"{len(raw)} bytes are not whole rows of {dimensions} float32 values"
        )
    matrix = np.frombuffer(raw, dtype="<f4").reshape(-1, dimensions)
    if texts and len(matrix) != texts:
        raise errors.InvalidField(field, f"{len(matrix)} rows for {texts} texts")
    if not np.isfinite(matrix).all():
        raise errors.InvalidField(field, "holds a value that is not finite")
    return matrix


def read_spec(message: groups_pb2.JudgeSpec, field: str = "judge") -> JudgeSpec:
    """Return the judge a request asks for. Raises InvalidField for values without a kind."""
    parameters = read_parameters(message.parameters, f"{field}.parameters")
    min_score = message.min_score if message.HasField("min_score") else None
    members = _read_members(message, field) if message.members else ()
    calibration = None
    if message.HasField("calibration"):
        calibration = read_calibration(message.calibration, f"{field}.calibration")
    guarantee = None
    if message.HasField("guarantee"):
        guarantee = _read_guarantee(message.guarantee, f"{field}.guarantee")
    return JudgeSpec(
        *(message.kind, message.profile, min_score, parameters, members, calibration), guarantee
    )


def _read_guarantee(message: groups_pb2.ErrorGuarantee, field: str) -> ErrorGuarantee:
    """Return the guarantee that a request brings. Raises InvalidField for what none has."""
    for name in ("max_error", "confidence"):
        if not 0 <= getattr(message, name) <= 1:  # NaN is in no range
            raise errors.InvalidField(f"{field}.{name}", "must be a number from 0 to 1")
    if not 0 <= message.labels_counted <= message.n_labels:
        raise errors.InvalidField(f"{field}.labels_counted", "must lie in 0 to n_labels")
    for i, each in enumerate(message.data):
        _check_shares(each, f"{field}.data[{i}]")
    return read_fields(ErrorGuarantee, message)


def _ascend(edges: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise([-math.inf, *edges, math.inf]))


def _check_shares(message: groups_pb2.ItemShares, field: str) -> None:
    if message.name not in (SCORE, LENGTH, FLAGS):
        raise errors.InvalidField(f"{field}.name", f"must be one of {SCORE}, {LENGTH}, {FLAGS}")
    edges = list(message.edges)
    if len(edges) > MAX_EDGES or not _ascend(edges):
        raise errors.InvalidField(f"{field}.edges", f"must be up to {MAX_EDGES} numbers, ascending")
    for name in ("shares", "variances"):
        values = getattr(message, name)
        if len(values) != len(edges) + 1 or not all(0 <= each <= 1 for each in values):
            rule = f"must be {len(edges) + 1} numbers from 0 to 1, one more than edges"
            raise errors.InvalidField(f"{field}.{name}", rule)


def read_calibration(message: groups_pb2.JudgeCalibration, field: str) -> Calibrator | str:
    """Return the calibration that a request brings, or its name. Raises InvalidField."""
    if message.WhichOneof("source") == "name":
        return message.name
    if message.WhichOneof("source") is None:
        raise errors.InvalidField(field, "must bring a calibrator or name one")
    sent, path = message.calibrator, f"{field}.calibrator"
    if sent.not_fitted:
        raise errors.InvalidField(path, f"holds nothing that labels made: {sent.not_fitted[:200]}")
    if not (math.isfinite(sent.slope) and sent.slope > 0):
        raise errors.InvalidField(f"{path}.slope", "must be a number above 0")
    if not math.isfinite(sent.intercept):
        raise errors.InvalidField(f"{path}.intercept", "must be a number")
    for name in ("min_score", "accept", "reject"):
        if not 0 <= getattr(sent, name) <= 1:
            raise errors.InvalidField(f"{path}.{name}", "must be a number from 0 to 1")
    return read_fields(Calibrator, sent)


def _read_members(message: groups_pb2.JudgeSpec, field: str) -> tuple[PanelMember, ...]:
    """Return the members of a panel. A panel among them is refused here, so this can't go deep."""
    members = []
    for place, member in enumerate(message.members):
        path = f"{field}.members[{place}].judge"
        if member.judge.members and message.kind != "cascade":
            raise errors.InvalidField(f"{path}.members", "must be empty: no member is a panel")
        weight = member.weight if member.HasField("weight") else None
        members.append(PanelMember(read_spec(member.judge, path), weight))
    return tuple(members)


def read_parameters(
    messages: Mapping[str, groups_pb2.ParameterValue], field: str
) -> dict[str, ParameterScalar]:
    """Return parameters by name. Raises InvalidField for values without a kind."""
    parameters: dict[str, ParameterScalar] = {}
    for name, value in messages.items():
        which = value.WhichOneof("kind")
        if which is None:
            raise errors.InvalidField(
                f'{field}["{name[:80]}"]', "has no value; set one of its kinds"
            )
        parameters[name] = getattr(value, which)
    return parameters


@dataclass(frozen=True, slots=True)
class Asking:
    """What a request says of asking."""

    cache: CacheMode = CacheMode.USE
    max_cost: float | None = None


def read_asking(message: groups_pb2.AskingOptions, field: str = "asking") -> Asking:
    """Return what the message says, or the defaults. Raises InvalidField under `field`."""
    mode = CacheMode.USE
    if message.HasField("cache"):
        if message.cache not in _MODES:
            raise errors.InvalidField(
                f"{field}.cache", f"must be unset or one of {errors.full_names(CacheMode)}"
            )
        mode = CacheMode(message.cache)
    cost = None
    if message.HasField("max_cost"):
        cost = message.max_cost
        if not (math.isfinite(cost) and cost > 0):
            raise errors.InvalidField(
                f"{field}.max_cost", "must be a finite number above 0; leave it unset for no limit"
            )
    return Asking(mode, cost)


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
