"""Human labels and human values through a real server, in one message and in many."""

import json

import pytest
from judged import (
    Client,
    HumanLabels,
    JudgedRanking,
    JudgedRankings,
    MetricOptions,
)

from tests.integration.cli_process import Commands


@pytest.mark.parametrize(
    ("metrics", "open_ended"), [(["ap", "precision@2"], False), (["precision@2"], True)]
)
def test_labels_of_judged_rankings_correct_their_means(client: Client, metrics, open_ended):
    n = 250
    verdicts = [bool((i * 7) % 10 < 4) for i in range(3 * n)]
    truth = [v if i % 9 else not v for i, v in enumerate(verdicts)]
    relevance = JudgedRankings(
        [JudgedRanking(f"q{i}", 1, 3, open_ended=open_ended) for i in range(n)],
        verdicts,
        score=[0.9 if v else 0.1 + 0.03 * (i % 10) for i, v in enumerate(verdicts)],
        human_labels=HumanLabels([f"q{i}" for i in range(200)], truth[:600]),
    )
    table = client.compute_metrics(metrics, relevance, MetricOptions(per_query=True))
    human_table = client.compute_metrics(
        metrics, JudgedRankings(relevance.rankings[:200], truth[:600])
    )
    for metric, own in zip(table.metrics, human_table.metrics, strict=True):
        found = metric.corrected
        assert (found.n_labelled, found.n, found.warnings) == (200, 250, ())
        assert found.naive.value == metric.mean
        assert found.labels_only.value == own.mean
        interval = found.corrected.interval
        assert interval.lower < found.corrected.value < interval.upper


def test_the_command_line_shows_corrected_means(tmp_path, judged: Commands):
    queries, results, labels = [], [], []
    for i in range(60):
        answer = f"answer number {i}"
        texts = [answer if (i + k) % 3 == 0 else f"other text {i} {k}" for k in range(2)]
        queries.append({"query_id": f"q{i}", "query_text": "?", "expected_answers": [answer]})
        found = [{"doc_id": f"d{k}", "text": text} for k, text in enumerate(texts)]
        results.append({"query_id": f"q{i}", "results": [*found, found[0]]})  # one repeat
        people = [[(i + k) % 3 == 0 and i % 5 > 0] for k in range(2)]
        labels.append({"query_id": f"q{i}", "relevant": [*people, people[0]]})
    (tmp_path / "dataset.json").write_text(json.dumps({"queries": queries}))
    for name, lines in (("results", results), ("labels", labels[::2])):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / f"{name}.jsonl").write_text(text)
    done = judged.fine(
        "evaluate",
        "dataset.json",
        "--results",
        "results.jsonl",
        "--judge",
        "exact",
        "-m",
        "precision@2",
        "-m",
        "recall_exact",
        "--labels",
        "labels.jsonl",
        "--json",
        "out.json",
    )
    assert "30 of 60" in done.stdout
    assert "corrected mean: coverage not assured: 30 labelled queries" in done.stderr
    document = judged.read("out.json")
    assert list(document["corrected"]) == ["precision@2"]  # the other has a judge of its own
    found = document["corrected"]["precision@2"]
    assert found["naive"]["value"] == document["metrics"]["precision@2"]["mean"]
    expected = sum(any(r[0] for r in line["relevant"]) for line in labels[::2]) / 60
    assert found["labels_only"]["value"] == pytest.approx(expected)
