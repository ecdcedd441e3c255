"""Traces: files of items with their judgements, and metrics from them without a judge.

    from judged.traces import Replay, Trace, record_verdicts

    trace = Trace()
    record_verdicts(trace, groups, client.judge(groups, "llm", include_details=True))
    trace.write("trace.jsonl")
    replay = Replay(Trace.read("trace.jsonl"))
    found = Evaluator(client).evaluate_groups(groups, ["ndcg@10"], replay)

Needs no more than the base install.
"""

from judged.traces.replay import Missing, OtherRubric, Replay, ReplayError, ScoreReplay
from judged.traces.trace import Judgement, Trace, TraceFile, record_scores, record_verdicts

__all__ = [
    "Judgement",
    "Missing",
    "OtherRubric",
    "Replay",
    "ReplayError",
    "ScoreReplay",
    "Trace",
    "TraceFile",
    "record_scores",
    "record_verdicts",
]
