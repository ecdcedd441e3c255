"""Measures the service's goodput, latency and memory under overload.

Client processes send BatchJudge requests of new texts to the semantic judge, with the vector cache
off and default settings otherwise. Requests are sent at random instants (Poisson), whether or not
earlier ones are answered, with deadlines of 1 s from the instant at which they were due. Each round
measures its own peak, by a closed loop, right before exceeding it. Work is counted in bytes of
requests. Only requests answered in time count, after the first second of a spell and before its
end: the queue fills in the first second, and requests still queued at the end must not offset it.

goodput_09x, goodput_3x, goodput_10x   work done in time over the peak, at .9, 3 and 10 times of it
goodput_heavy_mix_drop    goodput_10x minus the same with half of the work in large requests
light_caller_success      success rate of four callers with a fifth of the peak in total, beside one
                          caller with ten times the peak
light_caller_p99_ratio    their p99 then over their p99 when alone; all rounds pooled
refusal_p99_ms_3x         p99 of the answers RESOURCE_EXHAUSTED
recovery_s                from the end of ten times the peak until light calls are as fast as before
health_p99_ms_10x         p99 of health checks, 20 a second, meanwhile; all rounds pooled
admitted_but_late         requests that were neither refused nor answered in time, over all that
                          were not refused, at three times the peak
rss_growth_mb             peak resident memory of the server in all this minus that before

rss_growth_mb_30x15mb     peak memory of a server minus that before, with 30 requests of 15 MB at
                          once; `rss_kept_mb_30x15mb` is the growth left three seconds later
health_worst_ms_inflating   the slowest health check while 40 compressed requests are sent that
                          inflate to 15 MB each

    python -m benchmarks.overload [--rounds 6] [--short] [--flags FLAGS]
    python -m benchmarks.overload --weights [--rounds 6] [--short]      only `weights`

The first round warms up and is left out. Six rounds take about six minutes; `--short` runs two with
shorter spells, for use while developing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import islice

from judged._load.request_mix import parse_mix, requests
from judged.v1 import judge_service_pb2 as pb
from tokenizers import Tokenizer

from benchmarks.harness import closing_line
from benchmarks.memory import memory_mb
from benchmarks.overload.clients import HEAVY_MIX, MIX, SEED, percentile, start
from benchmarks.overload.memory import measure_memory
from benchmarks.overload.weights import measure_weights
from benchmarks.peers.passages import stored_model
from tests.conformance.prose import words


def mean_tokens(mix: str) -> float:
    """Return the mean number of tokens in a request of a mix."""
    tokenizer = Tokenizer.from_file(str(stored_model() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    made = islice(requests(parse_mix(mix), SEED, words=words()), 200)
    messages = [pb.BatchJudgeRequest.FromString(request.body) for request in made]
    groups = [group for message in messages for group in message.groups]
    texts = [text for group in groups for text in (*group.expected, *group.retrieved)]
    return sum(len(tokenizer.encode(text).ids) for text in texts) / len(messages)


def measure(
    rounds: int, spell_s: float, flags: Sequence[str]
) -> tuple[dict[str, list[float]], int]:
    """Return the samples of each figure, and the number of answered light requests."""
    with ExitStack() as stack:
        load = start(stack, spell_s, flags)
        server = load.server
        load.peak(MIX)
        before_mb = memory_mb(server.pid, "VmRSS")
        for number in range(rounds):
            load.round(counted=number > 0)
        samples = load.samples
        alone, beside = (percentile(rows, 99) for rows in (load.light_alone, load.light_beside))
        samples["light_caller_p99_ratio"] = [beside / alone if alone else 0.0]
        samples["light_caller_p99_ms"] = [beside]
        samples["health_p99_ms_10x"] = [percentile(load.health, 99)]
        samples["rss_growth_mb"] = [memory_mb(server.pid, "VmHWM") - before_mb]
        return samples, len(load.light_beside)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload")
    parser.add_argument("--rounds", type=int, default=6, help="the first is left out (default 6)")
    parser.add_argument("--short", action="store_true", help="two rounds of spells of 3 s")
    parser.add_argument("--flags", default="", help="more flags of judged-server")
    parser.add_argument("--weights", action="store_true", help="two tenants of weights 1 and 3")
    arguments = parser.parse_args()
    rounds, spell_s = (2, 3.0) if arguments.short else (arguments.rounds, 4.5)
    if rounds < 2:
        parser.error("--rounds is at least 2")
    flags = arguments.flags.split()
    if arguments.weights:
        samples = measure_weights(rounds, spell_s, flags)
        print(closing_line("overload_weights", samples, None, {"mix": MIX, "spell_s": spell_s}))
        return
    samples, n_light = measure(rounds, spell_s, flags)
    samples |= measure_memory()
    facts = {
        "mix": MIX,
        "tokens_a_request": round(mean_tokens(MIX), 1),
        "heavy_mix": HEAVY_MIX,
        "deadline_s": 1.0,
        "spell_s": spell_s,
        "light_requests": n_light,
    }
    print(closing_line("overload", samples, None, facts))


if __name__ == "__main__":
    main()
