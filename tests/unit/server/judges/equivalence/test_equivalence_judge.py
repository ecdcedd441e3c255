from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from judged.values.choices import Flag, Status
from judged_server.domain import Group, JudgeSpec, ScoreColumns, Verdicts
from judged_server.judges.equivalence import judge as model_file
from judged_server.judges.equivalence.judge import EquivalenceKind
from judged_server.judges.equivalence.words import MAX_WORDS

DATA = Path(__file__).parents[5] / "benchmarks" / "equivalence" / "data"
JUDGE = EquivalenceKind().build(JudgeSpec("answer_equivalence"))


def read(name: str) -> tuple[list[Group], list[bool]]:
    items = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text().splitlines()]
    groups = [
        Group(i["id"], i["query"], i["expected_alternatives"], [i["retrieved_text"]]) for i in items
    ]
    return groups, [item["label"] for item in items]


def judge(query: str, expected: list[str], *answers: str) -> ScoreColumns:
    return JUDGE.score([Group("q", query, expected, list(answers))])


@pytest.mark.parametrize(
    ("query", "expected", "right", "wrong"),
    [
        (
            "Which Lloyd Webber musical premiered in the US on 10th December 1993?",
            ["Sunset Blvd", "Sunset Boulevard"],
            "Sunset Boulevard",
            "The musical is The Phantom of the Opera by Andrew Lloyd Webber.",
        ),
        ("when was the first star wars film released", ["1977"], "May 25, 1977", "1980"),
        ("who plays the doc in back to the future", ["Christopher Lloyd"], "lloyd", "Michael Fox"),
        ("how many pages are in the book", ["263"], "The book has 263 pages.", "224 pages"),
        ("where is big ben", ["London, England"], "Big Ben is in London.", "Big Ben is in Paris."),
    ],
)
def test_right_answers_score_above_wrong_ones(
    query: str, expected: list[str], right: str, wrong: str
) -> None:
    columns = judge(query, expected, right, wrong)
    stride = len(expected)
    verdicts = Verdicts.decide(columns, [0, 2 * stride], JUDGE.identity.min_score)
    assert verdicts.relevant.tolist() == [True] * stride + [False] * stride
    assert columns.probabilities[0] > 0.5 > columns.probabilities[-1]


def test_the_data_it_was_trained_on_are_judged_as_people_did() -> None:
    """A model that came to be read with other features would fail here, whatever its signature."""
    for name, least in (("nq301_human", 0.82), ("evouna_nq", 0.92), ("evouna_tq", 0.965)):
        groups, labels = read(name)
        columns = JUDGE.score(groups)
        first = np.cumsum([0, *(group.n_contexts for group in groups[:-1])])
        assert columns.statuses is None
        assert np.mean((columns.scores[first] >= 0.5) == labels) >= least


def test_an_item_scores_the_same_whatever_stands_beside_it() -> None:
    groups = read("nq301_human")[0] + read("evouna_tq")[0][:200]
    together = JUDGE.score(groups)
    alone = [JUDGE.score([group]) for group in groups]
    backwards = JUDGE.score(groups[::-1])
    assert together.scores.tolist() == [s for c in alone for s in c.scores.tolist()]
    assert sorted(backwards.scores.tolist()) == sorted(together.scores.tolist())
    in_slices = asyncio.run(JUDGE.judge(groups * 3))
    assert in_slices.scores.tolist() == together.scores.tolist() * 3
    assert in_slices.probabilities.tolist() == together.probabilities.tolist() * 3


def test_neither_the_order_nor_repeats_of_alternatives_matter() -> None:
    for group in read("evouna_tq")[0][:100]:
        scores = set(JUDGE.score([group]).scores.tolist())
        turned = replace(group, expected=[*group.expected[::-1], group.expected[0]])
        assert set(JUDGE.score([turned]).scores.tolist()) == scores
        assert len(scores) == 1


def test_all_alternatives_are_seen_at_once() -> None:
    query = "who were the twins that played for kentucky"
    names = ["Andrew Harrison", "Aaron Harrison"]
    (both,) = set(judge(query, names, "Aaron and Andrew").scores.tolist())
    each = [judge(query, [name], "Aaron and Andrew").scores[0] for name in names]
    assert both not in each


@pytest.mark.parametrize(
    ("query", "expected", "answer", "status", "reason"),
    [
        ("q", ["Paris"], "Париж", Status.ABSTAINED, "UNSUPPORTED_TEXT"),
        ("q", ["東京"], "Tokyo", Status.ABSTAINED, "UNSUPPORTED_TEXT"),
        ("東京は", ["Tokyo"], "Tokyo", Status.ABSTAINED, "UNSUPPORTED_TEXT"),
        ("q", ["👍"], "👎", Status.ABSTAINED, "UNSUPPORTED_TEXT"),
        ("q", ["Paris"], "🗼 🇫🇷", Status.ABSTAINED, "UNSUPPORTED_TEXT"),
        ("q", ["Paris"], "word " * (MAX_WORDS + 1), Status.ABSTAINED, "UNSUPPORTED_TEXT"),
        ("q", ["Paris"], "x" * 5000, Status.ABSTAINED, "UNSUPPORTED_TEXT"),
        ("q", ["Paris"], " \n", Status.NOT_ASSESSABLE, "EMPTY_ANSWER"),
        ("q", ["", " "], "Paris", Status.NOT_ASSESSABLE, "NO_CONTEXT"),
    ],
)
def test_what_it_was_not_made_for_has_no_verdict(
    query: str, expected: list[str], answer: str, status: Status, reason: str
) -> None:
    columns = judge(query, expected, answer, "Paris, " + "word " * 100)
    n = len(expected)
    assert columns.statuses.tolist()[:n] == [status] * n
    faults = [fault for fault in columns.faults if fault.index < n]
    assert [fault.reason for fault in faults] == [reason] * n
    assert all(len(fault.message) > 20 and answer[:50] not in fault.message for fault in faults)
    assert columns.scores.tolist()[:n] == [0.0] * n


def test_what_it_reads_in_part_is_flagged() -> None:
    for expected, answer in (("Deploy status: ✅", "Deploy status: ❌"), ("Tokyo", "T 東京タワー")):
        assert judge("", [expected], answer).flags.tolist() == [Flag.UNKNOWN_TOKENS]
    for expected, answer in (("Škoda", "Škoda Auto"), ("Tokyo", "Tokyo (東京)"), ("14", "14")):
        assert judge("", [expected, "東京"], answer).flags is None


def test_numbers_and_foreign_aliases_are_judged() -> None:
    assert judge("how many", ["14"], "14").statuses is None
    columns = judge("capital of japan", ["Tokyo", "東京", "word " * 300], "Tokyo.")
    assert columns.statuses is None
    assert (
        columns.scores.tolist()
        == judge("capital of japan", ["Tokyo"], "Tokyo.").scores.tolist() * 3
    )


def test_its_model_is_in_the_signature() -> None:
    raw = Path(model_file.__file__).with_name("model.npz").read_bytes()
    sha256 = model_file.shipped()[1]
    assert (
        JUDGE.identity.signature
        == f"answer_equivalence|model:{sha256[:8]}|features:1|min_score:0.5|v3"
    )
    assert len(raw) <= 1 << 20
    strict = EquivalenceKind().build(JudgeSpec("answer_equivalence", min_score=0.9))
    assert strict.identity.scoring_key == JUDGE.identity.scoring_key
    assert strict.identity.fingerprint != JUDGE.identity.fingerprint
