"""Judges as a request asks for them, and as a reply names them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

ParameterScalar = bool | int | float | str


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Makes probabilities of the scores of the judge with a scoring key.

    `slope`, above 0, and `intercept` are of the calibrated logit. `min_score` is the threshold that
    goes with them; None leaves the judge its own. As a stage of a cascade the judge settles items
    that score `accept` or more, or `reject` or less.
    """

    scoring_key: str
    slope: float
    intercept: float
    min_score: float | None = None
    accept: float | None = None
    reject: float | None = None

    @property
    def sha256(self) -> str:
        """The hash, in hex, of all that is in it."""
        text = f"{self.scoring_key}|{self.slope!r}|{self.intercept!r}|{self.min_score!r}"
        if self.accept is not None or self.reject is not None:
            text += f"|{self.accept!r}|{self.reject!r}"
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class ItemShares:
    """The shares of items in the bins between `edges`, and their variances over clusters."""

    name: str
    edges: tuple[float, ...]
    shares: tuple[float, ...]
    variances: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class ErrorGuarantee:
    """How seldom what a whole cascade settles contradicts people, of data like the labels.

    `max_error` holds with `confidence`, by `n_labels` of `n_clusters` queries, of which `n_wrong`
    were contradicted and which count as `labels_counted` independent ones.
    `stages_sha256` says of which stages. `data` says how the labelled items are spread, and
    `labels_needed` how many labels of other data would make the guarantee for those.
    """

    max_error: float
    confidence: float
    n_labels: int
    n_wrong: int
    n_clusters: int
    labels_counted: float
    stages_sha256: str
    data: tuple[ItemShares, ...] = ()
    labels_needed: int = 0


def stages_sha256(stages: Sequence[tuple[str, Calibrator | None]]) -> str:
    """Return the hash, in hex, of the scoring keys of judges in order, with their calibrations."""
    texts = (
        f"{key}:{'' if calibrator is None else calibrator.sha256}" for key, calibrator in stages
    )
    return hashlib.sha256("|".join(texts).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class JudgeSpec:
    """What a request asks for: a kind, and whatever it overrides. Unset means the default.

    `calibration` may be the name of one that the server has. `guarantee` is of a cascade.
    """

    kind: str = ""
    profile: str = ""
    min_score: float | None = None
    parameters: Mapping[str, ParameterScalar] = field(default_factory=dict)
    members: tuple[PanelMember, ...] = ()
    calibration: Calibrator | str | None = None
    guarantee: ErrorGuarantee | None = None


@dataclass(frozen=True, slots=True)
class PanelMember:
    """A judge of a panel, as a request asks for it; `weight` None stands for 1."""

    judge: JudgeSpec
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class JudgeIdentity:
    """Which judge ran, precisely enough to repeat it.

    `scoring_key` is a SHA-256 in hex over all that can change a score; `fingerprint` covers
    min_score too; `signature` is the same for people, in one stable line. `max_grade` is the top
    of the scale of a judge that gives grades, score times max_grade; 0 for one that gives none.
    Two are equal where their fingerprints are.
    """

    kind: str = field(compare=False)
    profile: str = field(compare=False)
    min_score: float = field(compare=False)
    signature: str = field(compare=False)
    scoring_key: str = field(compare=False)
    fingerprint: str
    max_grade: int = field(default=0, compare=False)

    @classmethod
    def build(
        cls,
        kind: str,
        profile: str,
        min_score: float,
        parts: Sequence[tuple[str, str]],
        version: int,
        secret_parts: Sequence[tuple[str, str]] = (),
    ) -> JudgeIdentity:
        """Return the identity of a judge from its printable parts, in the order they print.

        `secret_parts` enter the key but are too long to print (full file hashes, say). Fields are
        length-prefixed, so that no two different lists of parts share a key.
        """
        digest = hashlib.sha256()
        head = [("kind", kind), ("profile", profile), ("version", str(version))]
        for name, value in [*head, *parts, *secret_parts]:
            for text in (name, value):
                raw = text.encode()
                digest.update(len(raw).to_bytes(8, "big"))
                digest.update(raw)
        scoring_key = digest.hexdigest()
        threshold = format(min_score, ".12g")
        fingerprint = hashlib.sha256(f"{scoring_key}|{min_score!r}".encode()).hexdigest()
        printed = [kind]
        if profile:
            printed.append(f"profile:{profile}")
        printed += [f"{name}:{value}" for name, value in parts]
        printed += [f"min_score:{threshold}", f"v{version}"]
        return cls(kind, profile, min_score, "|".join(printed), scoring_key, fingerprint)

    def calibrated(self, calibrator: Calibrator) -> JudgeIdentity:
        """Return the identity of the judge with a calibration: its scores are the same."""
        sha256 = calibrator.sha256
        head, threshold, tail = self.signature.rpartition("|min_score:")
        printed = f"{head}|calibration:{sha256[:8]}{threshold}{tail}"
        raw = f"{self.scoring_key}|{self.min_score!r}|{sha256}"
        return replace(
            self, signature=printed, fingerprint=hashlib.sha256(raw.encode()).hexdigest()
        )
