"""Which judges the metrics of an evaluation bring, and the verdicts of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from judged_server import errors
from judged_server.domain import JudgeSpec, QueryGroup
from judged_server.judges.base import Judge
from judged_server.judges.catalog import JudgeCatalog
from judged_server.metrics.families import FAMILIES
from judged_server.metrics.measures.names import Measure


@dataclass(frozen=True, slots=True)
class FamilyJudge:
    """The metrics of one family that were asked for, and the judge they bring.

    `place` is where the first of them stands in the request.
    """

    judge: Judge
    measures: Sequence[Measure]
    place: int

    @property
    def bound(self) -> list[Measure]:
        """The metrics as measures over this judge's verdicts."""
        signature = self.judge.identity.signature
        return [measure.judged_by(signature) for measure in self.measures]

    def read(self, groups: Sequence[QueryGroup], first: int = 0) -> list[QueryGroup]:
        """Return the groups as this judge reads them; `first` is the place of the first of them.

        Raises InvalidField where the judge compares texts and a group brings none.
        """
        return [self._read(group, index) for index, group in enumerate(groups, first)]

    def _read(self, group: QueryGroup, index: int) -> QueryGroup:
        if self.judge.wants_embeddings and group.embeddings is not None:
            return group
        if group.embeddings is None and group.spans is None:
            return group
        texts = len(group.expected), len(group.retrieved)
        if texts != (group.n_expected, group.n_retrieved) and group.n_contexts:
            brings = "spans" if group.embeddings is None else "embeddings"
            rule = f"{self.measures[0]} compares texts, and groups[{index}] brings {brings} only"
            what_to_do = "send its texts too, or leave the metric out"
            raise errors.InvalidField(f"metrics[{self.place}]", f"{rule}; {what_to_do}")
        return replace(group, embeddings=None, spans=None)


def own_measures(measures: Sequence[Measure]) -> list[Measure]:
    """Return the metrics that the request's judge decides."""
    return [measure for measure in measures if not measure.metric.family]


def family_judges(
    catalog: JudgeCatalog, measures: Sequence[Measure], groups: Sequence[QueryGroup]
) -> list[FamilyJudge]:
    """Return the judges that the families among the metrics bring.

    `groups` show whether a judge is to compare the caller's vectors. Raises as the catalog does
    where a judge can't run here.
    """
    judges = []
    for family in FAMILIES.values():
        places = [i for i, measure in enumerate(measures) if measure.metric.family == family.name]
        if places:
            spec = JudgeSpec(family.kind, family.profile, family.min_score)
            judge = catalog.choose(spec, groups=groups)
            judges.append(FamilyJudge(judge, [measures[i] for i in places], places[0]))
    return judges
