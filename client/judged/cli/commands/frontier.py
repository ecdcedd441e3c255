"""`judged frontier`: cascades of judges, by labelled lines; the server proves their guarantees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate

from judged import (
    Asking,
    CacheMode,
    Judge,
    QueryGroup,
    Status,
)
from judged._convert.judges import Purse
from judged.cli.diagrams import describe_stages, frontier_diagram
from judged.cli.frame import Document, arg, flag, many, opt
from judged.cli.gates import Drawn
from judged.cli.inputs import (
    LABEL,
    Line,
    cluster_of,
    fold_lines,
    of_lines,
    places_of_lines,
    read_labels,
)
from judged.cli.judging import (
    Spending,
    judge_of,
    places_of_judge,
    read_amount,
    read_member,
    refuse_uncached,
    without_key,
)
from judged.cli.output import (
    Output,
    Places,
    Problem,
    Table,
    explained,
    open_output,
    progress_bar,
    say,
)
from judged.cli.server import Connection, JudgingCommand
from judged.cli.tables import (
    describe_guarantee,
    describe_usage,
    report_estimate,
)
from judged.report.summary import number
from judged.values import (
    CascadeFrontier,
    CascadeOptions,
    CostEstimate,
    ScoredStage,
    StagedLabels,
    save_cascade,
)

_PRICED, _CALLED, _TYPED = "cost", "calls", "price"
"""What the cost of an item is counted in: money, calls where a price is missing, what was typed."""
_ANEW = Asking(CacheMode.REFRESH)
"""Prices are those of questions that nobody asked before."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """A judge as it was typed, and the price of an item where one was."""

    name: str
    judge: Judge
    price: float | None

    @property
    def places(self) -> Places:
        """What the fields of the judge are known as."""
        return places_of_judge(f"--stage {self.name}")


@dataclass(kw_only=True)
class FrontierCommand(JudgingCommand, Spending, Drawn):
    """Propose a cascade of judges from labels.

    Says which judges, in which order, and what goes on to the next.

    Examples:
    judged frontier labels.jsonl --stage answer_equivalence --stage llm --max-share 0.2
    judged frontier labels.jsonl --stage semantic --stage llm -o my.cascade.json
    """

    labels: str = arg(
        "LABELS.jsonl",
        "Lines of {query, expected_text, retrieved_text, relevant: true|false}, query_id and "
        "expected_alternatives if there are any; - reads standard input.",
    )
    stage: Sequence[str] = many(
        "KIND[/PROFILE][:K=V,...]",
        "Judge that the cascade may have, as in llm:model=large; price=X says what an item costs, "
        "where the server's prices do not. Repeat it for each.",
        required=True,
    )
    max_error: float | None = opt(
        "X", "Propose the cheapest cascade that is wrong in at most this share; 0.05."
    )
    max_share: float | None = opt(
        "X", "Propose the most accurate one that asks the dearest judge about at most this share."
    )
    max_item_cost: float | None = opt(
        "X", "Propose the most accurate one that costs at most this an item, in the mean."
    )
    abstain: bool = flag("Leave what no stage is sure of without a verdict.")
    output: str | None = opt(
        "FILE",
        "Keep the proposed cascade in this file, for --cascade; my.cascade.json for instance.",
        None,
        *("--output", "-o"),
        writes=True,
    )
    diagram: str | None = opt("FILE.svg", "Draw accuracy against cost into this file.", writes=True)
    label_field: str = opt("NAME", "The field that holds the labels.", LABEL)

    def run(self, out: Output) -> Document | None:
        """Judge the lines by every stage, and report."""
        read = read_labels(self.labels, scored=False, label_field=self.label_field)
        lines = [line for line in read if line.label is not None]
        groups = fold_lines(lines)
        cache = CacheMode.REFRESH if self.judge_refresh else CacheMode.USE
        asking: Asking | None = Asking(cache, self.max_cost)
        with self.connect(places_of_lines(self.labels, lines, groups)) as server:
            stages = [_read(server, text) for text in self.stage]
            would = []
            for one in stages:
                with explained(one.places):
                    would.append(server.client.estimate(groups, one.judge, asking=_ANEW))
            if self.estimate:
                return report_estimate(out, sum(would, CostEstimate()))
            costs, unit = _costs(stages, would, len(lines))
            scored = []
            for one, cost in zip(stages, costs, strict=True):
                scores, spent = self._scored(out, server, one, cost, lines, groups, asking)
                scored.append(scores)
                asking = Purse(asking, spent).rest()  # one limit for all stages
            found = server.client.calibrate_cascade(
                StagedLabels(
                    scored,
                    [bool(line.label) for line in lines],
                    list(map(cluster_of, lines)),
                    [len(line.contexts[0].retrieved_text) for line in lines],
                ),
                CascadeOptions(
                    *(self.max_error, self.max_share, self.max_item_cost, self.abstain),
                    *(self.confidence, self.seed),
                ),
            )
        names = [stage.name for stage in stages]
        out.warn(*found.warnings)
        tested = f"{found.n_certifying} labels test what {found.n_proposing} others made"
        told = [f"{tested}, of {found.n_clusters} queries; {found.signature}"]
        if found.proposed is not None:
            point = found.points[found.proposed]
            told.append(f"proposed: {describe_stages(point, names)}")
            told.append(describe_guarantee(point.guarantee))
        elif found.uncertified is not None:
            point = found.points[found.uncertified]
            told.append(f"uncertified, on these labels alone: {describe_stages(point, names)}")
        out.show(frontier_table(found, names, unit), "", "\n".join(told))
        out.write_json({**_document(found, names, costs, unit), "warnings": out.warnings})
        self._keep(found, stages, unit)
        return None

    def _scored(
        self,
        out: Output,
        server: Connection,
        stage: _Stage,
        cost: float,
        lines: Sequence[Line],
        groups: Sequence[QueryGroup],
        asking: Asking | None,
    ) -> tuple[ScoredStage, float]:
        """Return the scores of a stage, None where it has no verdict, and what it cost."""
        title = f"judging by {stage.name}"
        with explained(stage.places), progress_bar(title, len(lines)) as progress:
            verdicts = server.client.judge(
                groups, stage.judge, asking=asking, timeout=self.timeout, progress=progress
            )
        refuse_uncached(verdicts)
        if verdicts.usage is not None:
            say(f"{stage.name}: {describe_usage(verdicts.usage)}")
        of_each = of_lines(lines, verdicts)
        scores = [
            score if status == Status.OK else None
            for score, status in zip(of_each.score, of_each.status, strict=True)
        ]
        missing = sum(score is None for score in scores)
        if missing == len(scores):
            said = next(iter(of_each.errors.values()), None)
            why = "" if said is None else f": {said.message}"
            raise Problem(f"--stage {stage.name}: has no verdict on any line{why}")
        if missing:
            out.warn(f"--stage {stage.name}: has no verdict on {missing} of {len(scores)} lines")
        ends = accumulate(len(line.contexts) for line in lines)
        flagged = [
            any(verdicts.flags[end - len(line.contexts) : end])
            for line, end in zip(lines, ends, strict=True)
        ]
        spent = 0.0 if verdicts.usage is None else verdicts.usage.cost or 0.0
        return ScoredStage(verdicts.judge, scores, cost, flagged), spent

    def _keep(self, found: CascadeFrontier, stages: Sequence[_Stage], unit: str) -> None:
        """Write the diagram and the proposed cascade. Raises Problem where there is none."""
        names = [stage.name for stage in stages]
        if self.diagram is not None:
            with open_output(self.diagram, "--diagram") as file:
                file.write(frontier_diagram(found, names, unit))
        if self.output is None:
            return
        if found.proposed is None:
            raise Problem(
                f"--output {self.output}: there is nothing to keep, since no cascade keeps what "
                "was asked for; allow more with --max-error, or ask for --max-share or "
                "--max-item-cost"
            )
        point = found.points[found.proposed]
        save_cascade(
            *(point.judge([stage.judge for stage in stages]), self.output),
            judges=describe_stages(point, names),
            cost=point.cost,
            cost_unit=unit,
            settled=point.settled,
            accuracy=point.accuracy,
            made=found.signature,
        )


def _read(server: Connection, text: str) -> _Stage:
    plain, prices = without_key(text, "price")
    if "calibration=" in plain:
        raise Problem(
            f"--stage {text}: stages are calibrated here, on what the earlier ones leave; leave "
            "calibration out"
        )
    price = None
    for given in prices:
        price = read_amount(f"--stage {text}", "price", given)
        if price < 0:
            raise Problem(f"--stage {text}: price must be 0 or more")
    return _Stage(plain, judge_of(read_member(server.info, "--stage", plain)), price)


def _costs(
    stages: Sequence[_Stage], would: Sequence[CostEstimate], n: int
) -> tuple[list[float], str]:
    """Return what an item costs at each stage at most, and in what that is counted."""
    if any(stage.price is not None for stage in stages):
        return [stage.price or 0.0 for stage in stages], _TYPED
    if all(each.cost is not None for each in would) and any(each.cost for each in would):
        return [(each.cost or 0.0) / n for each in would], _PRICED
    return [each.calls / n for each in would], _CALLED


def frontier_table(found: CascadeFrontier, names: Sequence[str], unit: str) -> Table:
    """Return a row a cascade, the cheapest first: `at least` is the bound of the accuracy."""
    rows = []
    for place, point in enumerate(found.points):
        mark = "proposed" if place == found.proposed else "certified" if point.certified else ""
        numbers = [f"{point.cost:.4g}", f"{point.settled:.1%}", number(point.accuracy)]
        numbers.append(number(point.least_accuracy))
        rows.append([mark, describe_stages(point, names), *numbers])
    heads = ["", "stages", f"{unit} an item", "settled", "accuracy", "at least"]
    return Table(heads, rows, names=2)


def _document(
    found: CascadeFrontier, names: Sequence[str], costs: Sequence[float], unit: str
) -> Document:
    """Return the JSON object of a frontier."""
    return {
        "stages": [{"stage": name, "cost": cost} for name, cost in zip(names, costs, strict=True)],
        "cost_unit": unit,
        "frontier": [
            {
                **asdict(point),
                "accuracy": point.accuracy,
                "least_accuracy": point.least_accuracy,
                "judges": describe_stages(point, names),
            }
            for point in found.points
        ],
        "proposed": found.proposed,
        "uncertified": found.uncertified,
        "n_proposing": found.n_proposing,
        "n_certifying": found.n_certifying,
        "n_queries": found.n_clusters,
        "signature": found.signature,
    }
