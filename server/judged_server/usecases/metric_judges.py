"""Which judges the metrics of an evaluation need, and the verdicts of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from judged_server import errors
from judged_server.domain import JudgeSpec, QueryGroup, Verdicts
from judged_server.judges.base import Judge
from judged_server.judges.catalog import JudgeCatalog
from judged_server.metrics import FAMILIES, Measure
from judged_server.usecases.judge_batch import judge_batch


@dataclass(frozen=True, slots=True)
class FamilyJudging:
    """The metrics of one family that were asked for, and the judge they bring."""

    judge: Judge
    measures: Sequence[Measure]
    groups: Sequence[QueryGroup]

    @property
    def bound(self) -> list[Measure]:
        """The metrics as measures over this judge's verdicts."""
        signature = self.judge.identity.signature
        return [measure.judged_by(signature) for measure in self.measures]


def own_measures(measures: Sequence[Measure]) -> list[Measure]:
    """Return the metrics that the request's judge decides."""
    return [measure for measure in measures if not measure.metric.family]


def family_judgings(
    catalog: JudgeCatalog, measures: Sequence[Measure], groups: Sequence[QueryGroup]
) -> list[FamilyJudging]:
    """Return what the families among the metrics need judged.

    Raises InvalidField where a family compares texts and a group brings none, and as the catalog
    does where a judge can't run here.
    """
    judgings = []
    for family in FAMILIES.values():
        places = [i for i, measure in enumerate(measures) if measure.metric.family == family.name]
        if not places:
            continue
        spec = JudgeSpec(family.kind, family.profile, family.min_score)
        takes_vectors = catalog.choose(spec, groups=groups).wants_embeddings
        field = f"metrics[{places[0]}]"
        read = [
            _texts_of(group, index, f"{field}: {measures[places[0]]}", takes_vectors=takes_vectors)
            for index, group in enumerate(groups)
        ]
        judge = catalog.choose(spec, groups=read)
        judgings.append(FamilyJudging(judge, [measures[i] for i in places], read))
    return judgings


async def judge_family(judging: FamilyJudging, known: tuple[Judge, Verdicts] | None) -> Verdicts:
    """Return the verdicts of a family: those that are known, if their judge scores as its own."""
    identity = judging.judge.identity
    if known is not None and known[0].identity.scoring_key == identity.scoring_key:
        return Verdicts.decide(known[1].columns, known[1].offsets, identity.min_score)
    return await judge_batch(judging.judge, judging.groups)


def _texts_of(group: QueryGroup, index: int, what: str, *, takes_vectors: bool) -> QueryGroup:
    """Return a group as a judge of texts reads it, or as one of vectors does where those are."""
    if takes_vectors and group.embeddings is not None:
        return group
    if group.embeddings is None and group.spans is None:
        return group
    texts = len(group.expected), len(group.retrieved)
    if texts != (group.n_expected, group.n_retrieved) and group.n_contexts:
        field, _, name = what.partition(": ")
        brings = "spans" if group.embeddings is None else "embeddings"
        rule = f"{name} compares texts, and groups[{index}] brings {brings} only"
        raise errors.InvalidField(field, f"{rule}; send its texts too, or leave the metric out")
    return replace(group, embeddings=None, spans=None)
