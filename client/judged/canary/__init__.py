"""Canaries: fixed items whose recorded verdicts show when a judge is no longer the one it was.

    from judged.canary import Canary, History, check_canary, record_canary

    canary = record_canary(client, items, "llm")
    canary.write("judge.canary.json")
    history = History.read("judge.canary.history.jsonl", canary)
    found = check_canary(client, canary, history)

Needs no more than the base install.
"""

from judged.canary.asking import check_canary, record_canary
from judged.canary.evidence import FlipEvidence
from judged.canary.files import Canary, CanaryItem, Check, History, Outcome
from judged.errors import MissingVerdicts

__all__ = [
    "Canary",
    "CanaryItem",
    "Check",
    "FlipEvidence",
    "History",
    "MissingVerdicts",
    "Outcome",
    "check_canary",
    "record_canary",
]
