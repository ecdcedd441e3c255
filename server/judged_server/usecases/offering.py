"""Offerings: the judges, rubrics and models that a caller may use, by its tenant's permissions.

A restricted tenant gets a catalog with only what it may use. So for it a forbidden judge does not
exist: neither error messages nor their timing tell it from one that the server does not have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from judged.values.calibrators import Calibrator

from judged_server.embedding.registry import StoredEmbedders
from judged_server.errors import JudgedError, did_you_mean
from judged_server.judges.base import AnyKind
from judged_server.judges.cascade import CascadeKind
from judged_server.judges.catalog import COMPOSED, JudgeCatalog, Offer
from judged_server.judges.llm.answers import KIND as ANSWERS
from judged_server.judges.llm.answers import AnswersKind
from judged_server.judges.llm.judge import LlmKind
from judged_server.judges.panel import PanelKind
from judged_server.judges.semantic import SemanticKind
from judged_server.llm.caller import ModelCaller
from judged_server.llm.rubrics.rubric import Rubric
from judged_server.settings import SettingsError
from judged_server.tenant import EVERYTHING, Allowed, Tenant
from judged_server.usecases.score_answers import Scoring

if TYPE_CHECKING:  # its import brings aiohttp, which most servers never need
    from judged_server.llm.models import ChatModel, ChatModels


@dataclass(frozen=True, slots=True)
class Offering:
    """The judges, rubrics and models for callers with the same permissions."""

    catalog: JudgeCatalog
    scoring: Scoring
    rubrics: Sequence[Rubric]
    chat_models: Sequence[ChatModel]
    embedders: StoredEmbedders

    def offers(self) -> list[Offer]:
        """Return every judge under every profile, as GetServerInfo lists them."""
        scoring = self.scoring.offer()
        return [*self.catalog.offers(), *([] if scoring is None else [scoring])]


@dataclass(eq=False, repr=False)
class Offerings(dict[Allowed, Offering]):
    """Offerings by permissions, each built at its first look-up.

    The `kinds` need no model. All callers may name the `calibrations`, with judges that they may
    use. The constructor raises UnknownJudge and SettingsError.
    """

    kinds: Sequence[AnyKind]
    embedders: StoredEmbedders
    chat_models: ChatModels | None
    rubrics: Mapping[str, Rubric]
    model_caller: ModelCaller
    default_judge: str
    calibrations: Mapping[str, Calibrator]

    def __post_init__(self) -> None:
        """Build the offering of callers without restrictions."""
        _ = self[EVERYTHING]

    def __missing__(self, allowed: Allowed) -> Offering:
        """Build the offering for these permissions."""
        made = self[allowed] = self._make(allowed)
        return made

    def check(self, tenant: Tenant) -> None:
        """Raise SettingsError if a tenant is allowed something unknown. Reads files."""
        everything = self[EVERYTHING]
        judges = [offer.kind for offer in everything.offers()]
        models = [model.card.name for model in everything.chat_models]
        models += [card.name for card in self.embedders.cards()]
        for what, names, known in (
            ("judges", tenant.allowed.judges, judges),
            ("rubrics", tenant.allowed.rubrics, list(self.rubrics)),
            ("models", tenant.allowed.models, models),
        ):
            for name in names or ():
                if name not in known:
                    hint = did_you_mean(name, known, f"it has {', '.join(dict.fromkeys(known))}")
                    raise SettingsError(
                        f"tenants: {tenant.name}: {what}: this server has no {name[:80]!r}; {hint}"
                    )
        try:
            _ = self[tenant.allowed]
        except (JudgedError, SettingsError) as error:
            raise SettingsError(f"tenants: {tenant.name}: judges: {error}") from None

    def _make(self, allowed: Allowed) -> Offering:
        rubrics = {
            name: rubric for name, rubric in self.rubrics.items() if _has(allowed.rubrics, name)
        }
        embedders, chat_models = self.embedders, self.chat_models
        if allowed.models is not None:
            embedders = embedders.only(allowed.models)
            chat_models = chat_models and chat_models.only(allowed.models)
        kinds: list[AnyKind] = [*self.kinds, SemanticKind(embedders)]
        if any(rubric.judges_contexts for rubric in rubrics.values()):
            kinds.append(LlmKind(chat_models, rubrics, self.model_caller))
        kinds += [PanelKind(), CascadeKind()]
        kinds = [kind for kind in kinds if _has(allowed.judges, kind.kind)]
        scored = rubrics if _has(allowed.judges, ANSWERS) else {}
        catalog = JudgeCatalog(kinds, self._default(kinds, allowed), self.calibrations)
        answers = AnswersKind(chat_models, scored, self.model_caller)
        scoring = Scoring(answers, self.calibrations)
        listed = () if chat_models is None else chat_models.listed()
        return Offering(catalog, scoring, tuple(rubrics.values()), listed, embedders)

    def _default(self, kinds: Sequence[AnyKind], allowed: Allowed) -> str:
        """Return the server's default judge, or the first allowed one that is not composed.

        Raises SettingsError if there is no such judge.
        """
        names = [kind.kind for kind in kinds]
        if self.default_judge in names or allowed == EVERYTHING:
            return self.default_judge
        for name in names:
            if name not in COMPOSED:
                return name
        raise SettingsError(
            "none of them can judge for requests that name no judge, with the rubrics that the "
            f"tenant may use; add one of {', '.join(kind.kind for kind in self.kinds)}"
        )


def _has(allowed: Collection[str] | None, name: str) -> bool:
    return allowed is None or name in allowed
