"""Results of labels that are saved: calibrators of judges, and guarantees of cascades."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import NormalDist
from typing import Any

from judged import errors
from judged._files import FileError, Record, parse_json, replace_text

_FORMAT = 1


@dataclass(frozen=True)
class ItemShares:
    """The shares of labelled items in the bins between `edges`, with their variances.

    `name` is "score" (of the first stage), "length" (of retrieved texts) or "flags".
    """

    name: str
    edges: tuple[float, ...]
    shares: tuple[float, ...]
    variances: tuple[float, ...]


@dataclass(frozen=True)
class ErrorGuarantee:
    """An upper bound on the error of what a cascade settles, for data like the labels.

    At most `max_error` of it contradicts people, with `confidence`. It is based on `n_labels`
    labels of `n_clusters` queries, of which the cascade contradicted `n_wrong`; they count as
    `labels_counted` independent ones. `stages_sha256` identifies the stages. `data` is the
    distribution of the labelled items; `labels_needed` labels of other data would give it for them.
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


@dataclass(frozen=True)
class Calibrator:
    """Turns scores into probabilities, for the judge with this scoring key only.

    They are 1 / (1 + exp(-(slope * logit(score) + intercept))). `min_score` is the threshold that
    belongs to them; None keeps the judge's own. As a stage of a cascade, the judge settles items
    that score `accept` or more, or `reject` or less. `made` describes how it was made, for people.
    `not_fitted` says why it could not be fitted to labels; such a calibrator is refused.
    """

    scoring_key: str
    slope: float
    intercept: float
    min_score: float | None = None
    made: str = ""
    accept: float | None = None
    reject: float | None = None
    not_fitted: str = ""

    @property
    def sha256(self) -> str:
        """The SHA-256 of the numbers, in hex, as used in the fingerprints of verdicts."""
        text = f"{self.scoring_key}|{self.slope!r}|{self.intercept!r}|{self.min_score!r}"
        if self.accept is not None or self.reject is not None:
            text += f"|{self.accept!r}|{self.reject!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    def save(self, path: str | Path, **facts: object) -> None:
        """Write a file that `load`, `--calibration` and a server's calibrations_dir read.

        `facts` are stored in the file too, for people. Raises OSError.
        """
        fitted = {"sha256": self.sha256, "fitted": not self.not_fitted}
        fields = {"judged_calibration": _FORMAT, **asdict(self), **fitted, **facts}
        replace_text(path, json.dumps(fields, indent=2) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Calibrator:
        """Return the calibrator of a file.

        Raises OSError, and InvalidArgument for another kind of file or an unfitted calibrator.
        """
        fields = read_kept(path, "judged_calibration", _FORMAT)
        if fields is None:
            raise _refused(f"{path} is no file that `judged calibrate -o` wrote")
        again = "make it again with `judged calibrate`"
        if fields.get("fitted") is False:
            why = fields.get("not_fitted") or "its labels were too few"
            raise _refused(f"{path} holds nothing that labels made: {why}; {again}")
        try:
            found = Record(fields, str(path), None, "").read(cls)
        except FileError as error:
            raise _refused(f"{error}; {again}") from None
        if found.sha256 != fields.get("sha256"):
            raise _refused(f"{path} was changed after it was made: its sha256 is another; {again}")
        shares = (found.min_score, found.accept, found.reject)
        if found.slope <= 0 or not all(0 <= share <= 1 for share in shares if share is not None):
            raise _refused(f"{path} has numbers that no calibration has; {again}")
        return found


def read_kept(path: str | Path, mark: str, version: int) -> dict[str, Any] | None:
    """Return the JSON object of a file whose field `mark` is `version`, or None. Raises OSError."""
    with suppress(FileError):
        fields = parse_json(Path(path).read_bytes(), str(path), None)
        if isinstance(fields, dict) and fields.get(mark) == version:
            return fields
    return None


def _refused(rule: str) -> errors.InvalidArgument:
    return errors.InvalidArgument.of_field("calibration", rule)


_BUCKETS = 64
_LEAST_BUCKETS = 20
"""The fewest buckets with items for a test, about 24 queries; with fewer it has no power."""
_RISK = 0.01
"""The highest rate of false alarms: data like the labels that the test calls unlike."""


def stages_sha256(stages: Sequence[tuple[str, Calibrator | None]]) -> str:
    """Return the SHA-256, in hex, of the scoring keys of judges in order, with calibrations."""
    texts = (
        f"{key}:{'' if calibrator is None else calibrator.sha256}" for key, calibrator in stages
    )
    return hashlib.sha256("|".join(texts).encode()).hexdigest()


@dataclass(frozen=True)
class Shift:
    """The result of testing whether data are distributed like the labels.

    `unlike` names what differs: "score" (of the first stage), "length" (of retrieved texts),
    "flags" (flags and missing verdicts). `not_checked` says why there was no test.
    """

    unlike: tuple[str, ...] = ()
    not_checked: str = ""


def find_shift(guarantee: ErrorGuarantee, counts: Sequence[int]) -> Shift:
    """Test whether items are distributed like the labels, by their counts in a reply.

    The distance of each bin's share, in standard errors over queries, is compared with a quantile
    of Student's t; the risk is divided among all bins.
    """
    data = guarantee.data
    width = sum(len(part.shares) for part in data)
    if not width or len(counts) != _BUCKETS * width:
        return Shift(not_checked="the cascade was made before this; make it again")
    rows = [counts[start : start + width] for start in range(0, len(counts), width)]
    filled = [row for row in rows if any(row)]
    if len(filled) < _LEAST_BUCKETS:
        return Shift(not_checked="too few queries; it takes 30 or more")
    # The variances are of all labels; n_labels counts only the half that tested the cascade.
    scaled = 2 * guarantee.n_labels / max(1, sum(map(sum, rows)) / len(data))
    limit = _quantile(1 - _RISK / 2 / width, len(filled) - 1)
    columns = iter(zip(*filled, strict=True))
    unlike = [
        part.name
        for part in data
        if _distance(part, list(islice(columns, len(part.shares))), scaled) > limit
    ]
    return Shift(tuple(unlike))


def _distance(labels: ItemShares, columns: Sequence[Sequence[int]], scaled: float) -> float:
    """Return the largest distance of a share from that of the labels, in standard errors.

    A share of few items may show no variance of its own, so the variance is at least that of the
    labels, `scaled` to the number of items.
    """
    sizes = [sum(row) for row in zip(*columns, strict=True)]
    n, total = len(sizes), sum(sizes)
    if not total:
        return 0.0
    distances = [0.0]
    for share, variance, column in zip(labels.shares, labels.variances, columns, strict=True):
        seen = sum(column) / total
        off = (each - size * seen for each, size in zip(column, sizes, strict=True))
        own = n / (n - 1) * sum(each * each for each in off) / total**2
        error = math.sqrt(variance + max(own, variance * scaled))
        if seen != share:
            distances.append(abs(seen - share) / error if error else math.inf)
    return max(distances)


def _quantile(p: float, degrees: int) -> float:
    """Return the quantile of Student's t, by the Cornish-Fisher expansion."""
    z = NormalDist().inv_cdf(p)
    second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    return z + (z**3 + z) / (4 * degrees) + second
