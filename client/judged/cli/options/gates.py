"""The flags of gates, as the commands share them.

What they mean is up to `output.gates`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MinScores = Annotated[
    list[str] | None,
    typer.Option(
        "--min-score",
        metavar="METRIC=X",
        help="Gate: exit with 1 when the mean of the metric, or its lower bound where something is "
        "missing, is below X; may be repeated.",
    ),
]
MinScoresOrThreshold = Annotated[
    list[str] | None,
    typer.Option(
        "--min-score",
        metavar="X|METRIC=X",
        help="A number: score from which a verdict is relevant. METRIC=X, a gate: exit with 1 when "
        "the mean of the metric, or its lower bound where verdicts are missing, is below X; may be "
        "repeated.",
    ),
]
MaxNegatives = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Gate: exit with 1 when more than N retrieved texts match a negative answer.",
    ),
]
MaxDrops = Annotated[
    list[str] | None,
    typer.Option(
        "--max-drop",
        metavar="METRIC=X",
        help="Gate: exit with 1 when the mean is more than X below that of --baseline; may be "
        "repeated.",
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON document of an earlier run, for --max-drop."),
]
MinCoverage = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        min=0,
        max=1,
        help="Gate: exit with 1 when a smaller share of what could be assessed has a verdict; 1 "
        "where there is another gate.",
    ),
]
AllowOtherSignature = Annotated[
    bool,
    typer.Option(
        "--allow-other-signature",
        help="Compare numbers that were made in another way; a warning in place of a refusal.",
    ),
]
