"""The catalog of judges: builds the judge that a request specifies, with all parameters set."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from judged.values.calibrators import Calibrator
from judged.values.judges import to_judge

from judged_server import errors
from judged_server.domain import Group, JudgeSpec, ParameterScalar, check_known, need
from judged_server.judges.base import (
    AnyKind,
    CalibratedJudge,
    ComposedKind,
    Judge,
    Profile,
    find_calibrator,
)
from judged_server.judges.cascade import CascadeKind
from judged_server.judges.llm.answers import KIND as ANSWERS
from judged_server.judges.panel import WEIGHTED, PanelKind
from judged_server.settings import SettingsError

_MAX_BUILT = 256
COMPOSED = frozenset((PanelKind.kind, CascadeKind.kind))
"""Kinds whose judges are made of other judges, which requests name."""
_OWN = {"members": COMPOSED, "guarantee": {CascadeKind.kind}}
"""The kinds that have these fields of a spec; others refuse them."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One kind under one profile, as GetServerInfo lists it.

    `signature` is that of the judge with its defaults; if it can't run, `unavailable` says why.
    """

    kind: str
    profile: Profile
    signature: str
    unavailable: str


class JudgeCatalog:
    """The kinds of judges by name; builds judges and caches them."""

    def __init__(
        self,
        kinds: Sequence[AnyKind],
        default: str,
        calibrations: Mapping[str, Calibrator] | None = None,
    ) -> None:
        """Raise UnknownJudge or SettingsError for an invalid default.

        `calibrations` are those that requests may name.
        """
        self.calibrations = calibrations or {}
        self._kinds = {kind.kind: kind for kind in kinds}
        if default not in self._kinds:
            raise errors.UnknownJudge(default, tuple(self._kinds))
        if default in COMPOSED:
            raise SettingsError(
                f"default_judge: a {default} has no members before a request names them; name "
                f"another judge: {', '.join(name for name in self._kinds if name != default)}"
            )
        self.default = default
        self._built: OrderedDict[str, Judge] = OrderedDict()

    def choose(self, spec: JudgeSpec, field: str = "judge", groups: Sequence[Group] = ()) -> Judge:
        """Return the judge for a spec; `field` is the spec's path in the request.

        If `groups` have the caller's vectors, parameters that the spec leaves out are those of the
        judge for vectors. Raises UnknownJudge, InvalidField, ModelNotInstalled, ModelNotConfigured.
        """
        if any(group.embeddings is not None for group in groups):
            spec = self._for_embeddings(spec)
        key = repr(spec)  # shows the types of parameters: True is not 1
        judge = self._built.get(key)
        if judge is None:
            judge = self._build(spec, field)
            self._built[key] = judge
            if len(self._built) > _MAX_BUILT:
                self._built.popitem(last=False)
        return judge

    def asks_models(self, kind: str) -> bool:
        """Return whether judges of a kind, "" for the default, may ask language models."""
        found = self._kinds.get(kind or self.default)
        return found is not None and found.asks_models

    def offers(self) -> list[Offer]:
        """Return every kind under every profile, the defaults first."""
        return [
            self._offer(kind, profile) for kind in self._kinds.values() for profile in kind.profiles
        ]

    def _for_embeddings(self, spec: JudgeSpec) -> JudgeSpec:
        if spec.panel:
            members = [replace(m, judge=self._for_embeddings(to_judge(m))) for m in spec.panel]
            return replace(spec, members=tuple(members))
        kind = self._kinds.get(spec.kind or self.default)
        if kind is None or kind.for_embeddings is None:
            return spec
        return replace(spec, kind=kind.kind, parameters={**kind.for_embeddings, **spec.parameters})

    def _offer(self, kind: AnyKind, profile: Profile) -> Offer:
        if isinstance(kind, ComposedKind):  # the signature depends on the members
            return Offer(kind.kind, profile, "", "")
        try:
            judge = self.choose(JudgeSpec(kind.kind, profile.name))
        except errors.JudgedError as error:
            return Offer(kind.kind, profile, "", error.message)
        if judge.unavailable:
            return Offer(kind.kind, profile, "", judge.unavailable)
        return Offer(kind.kind, profile, judge.identity.signature, "")

    def _build(self, spec: JudgeSpec, field: str) -> Judge:
        if spec.calibration is not None:
            return self._calibrated(spec, spec.calibration, field)
        unclear = [name for name in ("members", "profile", "parameters") if getattr(spec, name)]
        rule = f"must be set when {''.join(unclear[:1])} is, else it is unclear whose they are"
        need(not unclear or spec.kind != "", f"{field}.kind", rule)
        kind = self._kinds.get(spec.kind or self.default)
        rule = "answers scores answers, not contexts; call ScoreAnswers, or run judged score"
        need(kind is not None or spec.kind != ANSWERS, f"{field}.kind", rule)
        if kind is None:
            raise errors.UnknownJudge(spec.kind, tuple(self._kinds))
        profile = _profile(kind, spec.profile, field)
        # None means the judge's own threshold, which may be a rubric's instead of the profile's.
        min_score = spec.min_score
        settled = replace(
            spec,
            kind=kind.kind,
            profile=profile.name,
            min_score=None if min_score is None else float(min_score),
            parameters=settle(profile, spec.parameters, f"{field}.parameters"),
        )
        for name, kinds in _OWN.items():
            rule = f"{kind.kind} has none; leave it out, or ask for {' or '.join(sorted(kinds))}"
            need(not getattr(spec, name) or kind.kind in kinds, f"{field}.{name}", rule)
        if isinstance(kind, ComposedKind):
            return kind.compose(settled, self._members(kind, settled, f"{field}.members"), field)
        return kind.build(settled)

    def _calibrated(self, spec: JudgeSpec, calibration: Calibrator | str, field: str) -> Judge:
        path = f"{field}.calibration"
        calibrator = find_calibrator(calibration, self.calibrations, path)
        threshold = calibrator.min_score if spec.min_score is None else spec.min_score
        bare = replace(spec, calibration=None, min_score=threshold)
        return CalibratedJudge(self.choose(bare, field), calibrator, path)

    def _members(self, kind: ComposedKind, spec: JudgeSpec, field: str) -> list[Judge]:
        """Return the judges of a panel's members, or of a cascade's stages."""
        number = len(spec.panel)
        found = f"{number} member{'s' * (number != 1)}"
        rule = f"{found}; name {kind.least} to {kind.most} judges"
        need(kind.least <= number <= kind.most, field, rule)
        judges = []
        for place, member in enumerate(spec.panel):
            path = f"{field}[{place}].judge"
            rule = "is for a panel of the profile weighted; leave it out, or ask so"
            may_weigh = member.weight is None or spec.profile == WEIGHTED
            need(may_weigh, f"{field}[{place}].weight", rule)
            judge = to_judge(member)
            name = judge.kind or self.default
            rule = f"a {name} can't be a member of a {kind.kind}"
            need(name not in {CascadeKind.kind, kind.kind}, f"{path}.kind", rule)
            judges.append(self.choose(judge, path))
            takes, all_take = judges[-1].wants, kind.wants or judges[0].wants
            rule = f"takes {takes}; all members of this {kind.kind} must take {all_take}"
            need(takes == all_take, path, rule)
        return judges


def _profile(kind: AnyKind, name: str, field: str) -> Profile:
    if not name:
        return kind.profiles[0]
    for profile in kind.profiles:
        if profile.name == name:
            return profile
    known = [profile.name for profile in kind.profiles if profile.name]
    rule = f"judge {kind.kind} has no profiles; leave it out"
    if known:
        hint = errors.did_you_mean(name, known, "name one of them, or none for the first")
        rule = f"judge {kind.kind} has the profiles {', '.join(known)}; {hint}"
    raise errors.InvalidField(f"{field}.profile", rule)


def settle(
    profile: Profile, given: Mapping[str, ParameterScalar], field: str
) -> dict[str, ParameterScalar]:
    """Return every parameter of a profile, as given or by default. Raises InvalidField."""
    known = {parameter.name: parameter for parameter in profile.parameters}
    names = ", ".join(known) or "none"
    check_known(given, known, field, f"no such parameter; this judge has {names}")
    settled = {name: parameter.default for name, parameter in known.items()}
    for name, value in given.items():
        try:
            settled[name] = known[name].check(value)
        except ValueError as error:
            raise errors.InvalidField(f'{field}["{name}"]', f"must be {error}") from None
    return settled
