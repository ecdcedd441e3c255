"""The options that several commands take, spelt and explained once."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE|-",
        help="Write the result as one JSON document; - prints it instead of the usual output.",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Exit with 1 when there is a warning.")]
JudgeKind = Annotated[
    str | None,
    typer.Option("--judge", metavar="KIND", help="Judge, see `judged judges`."),
]
Profile = Annotated[
    str | None, typer.Option(metavar="P", help="Variant of the judge; its first one by default.")
]
MinScore = Annotated[
    float | None, typer.Option(metavar="X", help="Score from which a verdict is relevant.")
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--param", metavar="K=V", help="Parameter of the judge; may be repeated."),
]
Metrics = Annotated[
    list[str],
    typer.Option("--metric", "-m", metavar="NAME", help="Metric as in ndcg@10; may be repeated."),
]
PerQuery = Annotated[
    bool, typer.Option("--per-query", help="Show the values of every query, not only the means.")
]
LabelsFile = Annotated[
    str | None,
    typer.Option(
        "--labels",
        metavar="LABELS.jsonl",
        help="What people decided on some queries, drawn at random: a line a query, {query_id, "
        "relevant: [[true or false for each expected answer] for each result]}. Shows every mean "
        "corrected for the judge's error.",
    ),
]
