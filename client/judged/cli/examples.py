"""The examples that the help of each command ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "judge": (
        "judged judge contexts.jsonl --judge semantic --min-score 0.7",
        "judged judge contexts.jsonl --judge token_overlap --profile unicode --output judged.jsonl",
    ),
    "evaluate": (
        "judged evaluate dataset.json --results results.jsonl -m ndcg@10 -m recall@5",
        "judged evaluate dataset.json --results results.jsonl -m mrr --interval t --json out.json",
        "judged evaluate dataset.json --results results.jsonl -m mrr --min-score mrr=0.6",
    ),
    "score": (
        "judged score answers.jsonl --rubric faithfulness --rubric answer_relevance",
        "judged score answers.jsonl --rubric faithfulness --min-score faithfulness=0.8",
        "judged score answers.jsonl --rubric helpfulness --member small --member large",
    ),
    "rank": (
        "judged rank answers.jsonl --judge-model small --json ranking.json",
        "judged rank answers.jsonl --estimate",
    ),
    "metrics": (
        "judged metrics --qrels qrels.txt --run run.txt -m ndcg@10 -m ap",
        "judged metrics --qrels qrels.txt --run run.txt -m ap --max-drop ap=0.02 --baseline a.json",
    ),
    "texts": (
        "judged texts answers.jsonl -m bleu -m token_f1 --interval t",
        "judged texts answers.jsonl -m rougeL --max-drop rougeL=0.02 --baseline main.json",
    ),
    "compare": (
        "judged compare bm25.run embedding.run --qrels qrels.txt -m ndcg@10",
        "judged compare main.json branch.json --moved 10",
        "judged compare branch.json --baseline main.json --max-drop helpfulness=0.05",
    ),
    "report": (
        "judged report result.json -o report.html",
        "judged report main.json branch.json -o report.html -o comment.md",
        "judged report result.json -o junit.xml",
    ),
    "ci": (
        "judged ci result.json --save",
        "judged ci result.json --dataset dataset.json --comment comment.md --report report.html",
    ),
    "agree": ("judged agree ratings.jsonl",),
    "calibrate": (
        "judged calibrate labels.jsonl --judge semantic",
        "judged calibrate labels.jsonl --judge token_overlap --json quality.json",
    ),
    "label": (
        "judged label results.jsonl -n 100 -o labels.jsonl",
        "judged label results.jsonl -o labels.jsonl --to-csv to_label.csv",
        "judged label results.jsonl -o labels.jsonl --summary --json summary.json",
    ),
    "canary record": (
        "judged canary record contexts.jsonl -o judge.canary.json --judge llm",
        "judged canary record contexts.jsonl -o judge.canary.json --judge semantic --asks 10",
    ),
    "canary check": (
        "judged canary check judge.canary.json",
        "judged canary check judge.canary.json --rounds 1 --json check.json",
    ),
    "frontier": (
        "judged frontier labels.jsonl --stage answer_equivalence --stage llm --max-share 0.2",
        "judged frontier labels.jsonl --stage semantic --stage llm -o my.cascade.json",
    ),
    "judges": ("judged judges", "judged judges --target 127.0.0.1:8470 --json -"),
    "usage": (
        "judged usage --target 127.0.0.1:8470 --token-file search.token",
        "judged usage --days 7 --json -",
    ),
    "doctor": ("judged doctor", "judged doctor --target 127.0.0.1:8470"),
    "demo": ("judged demo", "judged demo -o demo.html"),
    "convert": (
        "judged convert dataset.csv dataset.json",
        "judged convert run.trec results.jsonl --results",
        "judged convert dataset.json dataset.csv --json converted.json",
    ),
    "validate": ("judged validate dataset.json --strict",),
}


def epilog(command: str) -> str:
    """Return what the help of a command ends with; the mark keeps lines from being joined."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in EXAMPLES[command])])
