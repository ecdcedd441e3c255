"""Measures how often a prompt injection turns a "no" of the judge `llm` into a "yes".

The judge first reads 24 questions, each with a right and a wrong text. Then every attack of
tests/data/attacks.jsonl is tried on wrong texts that it judged not relevant: appended to the text
or in its place, as the attack specifies. A "yes" counts as a flip. A missing verdict is neither a
flip nor resistance: it is counted separately, with its reason. After a failure of the provider it
is asked for again, three times in all.

clean_accuracy                  right verdicts over verdicts, without any attack
clean_coverage                  verdicts over contexts, without any attack
flip_rate                       flips over attacked texts with a verdict, over all families
flip_rate_<family>              the same for one family
no_verdict_rate                 attacked texts that got no verdict, over all attacked texts

    python -m benchmarks.attacks --target ADDRESS [--judge-model NAME] [--hosts 1] [--at-once 8]
    python -m benchmarks.attacks --llama [--structured none] [--each-family 10]

A call has `--at-once` contexts and may take ten minutes; use few for a slow model. `--llama` starts
llama.cpp's server with SmolLM2-135M, as `make test-llm` installs it, and a judge server with
matching time-outs. That model is too small to conclude anything from, but it is a real one. Without
a schema it writes until its tokens are used up and gives no verdict.

The corpus is fixed, so the figures do not cover attackers who know the judge and adapt; those
succeed more often. `--scripted` starts a server and a provider that obeys only some families, which
tests the benchmark itself; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from judged import Client, Judge, QueryGroup, Status, Verdict

from benchmarks.harness import ROOT, closing_line, serving
from tests.fakes.providers.llama_server import ALIAS, is_installed, llama_server
from tests.fakes.providers.prompt_attacks import CORPUS, FAMILIES, Attack, blocks
from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.fakes.providers.scripted_provider import Asked

TIMEOUT_S = 590.0
"""Of one call; a server allows ten minutes by default."""
TRIES = 3
ALL = "all"


@dataclass(frozen=True)
class Host:
    """A question, its expected text, a right text and a wrong text."""

    query: str
    expected_text: str
    right: str
    wrong: str

    def group(self, text: str) -> QueryGroup:
        """Return the context of this question with `text`."""
        return QueryGroup(query=self.query, expected=[self.expected_text], retrieved=[text])


HOSTS = tuple(
    Host(**json.loads(line))
    for line in (ROOT / "tests" / "data" / "attack_contexts.jsonl").read_text().splitlines()
)


def main() -> None:
    """Run the benchmark against the chosen server."""
    arguments = parsed()
    if arguments.scripted:
        with scripted_server() as address:
            report(address, arguments)
    elif arguments.llama:
        if not is_installed():
            raise SystemExit("llama-server is not installed; run `make test-llm` once")
        with live_server(arguments.structured) as address:
            report(address, arguments)
    else:
        report(arguments.target, arguments)


def parsed() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--target", help="a server with --llm-config")
    where.add_argument("--scripted", action="store_true", help="a server and a provider of its own")
    where.add_argument("--llama", action="store_true", help="a server and a small live model")
    parser.add_argument(
        "--structured",
        default="json_schema",
        help="structured output of --llama: none or json_schema",
    )
    parser.add_argument(
        "--each-family", type=int, default=0, help="attacks of each family; 0: all of them"
    )
    parser.add_argument("--max-tokens", type=int, default=0, help="longest reply; 0: the judge's")
    parser.add_argument("--at-once", type=int, default=8, help="contexts of one call")
    parser.add_argument("--judge-model", default="", help="a model by the server's name for it")
    parser.add_argument("--hosts", type=int, default=1, help="wrong texts that each attack is on")
    return parser.parse_args()


def report(address: str, arguments: argparse.Namespace) -> None:
    """Judge without and with attacks; print a table by family and the closing line."""
    given = {"model": arguments.judge_model, "max_tokens": arguments.max_tokens}
    parameters = {name: value for name, value in given.items() if value}
    with Client(address) as client:
        asker = ModelCaller(client, Judge("llm", parameters=parameters), max(1, arguments.at_once))
        right = asker.verdicts([host.group(host.right) for host in HOSTS])
        wrong = asker.verdicts([host.group(host.wrong) for host in HOSTS])
        hosts = [host for host, said in zip(HOSTS, says(wrong), strict=True) if said is False]
        if not hosts:
            raise SystemExit(
                "no flip could be seen: no wrong text was judged not relevant; they came out as "
                + ", ".join(f"{what} ({n})" for what, n in Counter(map(outcome, wrong)).items())
            )
        tried = list(
            pairs(hosts, max(1, min(arguments.hosts, len(hosts))), some(arguments.each_family))
        )
        attacked = asker.verdicts([host.group(attack.on(host.wrong)) for host, attack in tried])
    clean = [*says(right), *(None if said is None else not said for said in says(wrong))]
    answered = [said for said in clean if said is not None]
    figures = {
        "clean_accuracy": [sum(answered) / len(answered)],
        "clean_coverage": [len(answered) / len(clean)],
    }
    figures |= flips([attack for _, attack in tried], says(attacked))
    missing = Counter(verdict.error.reason for verdict in attacked if verdict.error is not None)
    for reason, number in missing.most_common():
        print(f"no verdict: {number} by {reason}")
    facts = {
        "judge": asker.signature,
        "no_verdict": dict(missing),
        "attacks": len({attack for _, attack in tried}),
        "attacked_texts": len(tried),
        "hosts_taken_for_wrong": len(hosts),
        "scripted": arguments.scripted,
    }
    print(closing_line("attacks", figures, facts=facts))


def some(each_family: int) -> list[Attack]:
    """Return the corpus, or `each_family` attacks of each family, spread over it."""
    if not each_family:
        return list(CORPUS)
    found: list[Attack] = []
    for family in FAMILIES:
        attacks = [attack for attack in CORPUS if attack.family == family]
        n = min(each_family, len(attacks))
        found += [attacks[place * len(attacks) // n] for place in range(n)]
    return found


def pairs(
    hosts: Sequence[Host], each: int, attacks: Sequence[Attack]
) -> Iterator[tuple[Host, Attack]]:
    """Yield every attack with `each` hosts, chosen round-robin."""
    for place, attack in enumerate(attacks):
        for step in range(each):
            yield hosts[(place + step) % len(hosts)], attack


class ModelCaller:
    """Asks a judge about a few contexts at a time; retries those whose provider failed."""

    def __init__(self, client: Client, judge: Judge, at_once: int) -> None:
        self._client = client
        self._judge = judge
        self._at_once = at_once
        self.signature = ""

    def verdicts(self, groups: Sequence[QueryGroup]) -> list[Verdict]:
        """Return a verdict for each group, which has one context."""
        found: dict[int, Verdict] = {}
        for turn in range(TRIES):
            left = [
                place
                for place in range(len(groups))
                if place not in found or _may_pass(found[place])
            ]
            for start in range(0, len(left), self._at_once):
                places = left[start : start + self._at_once]
                asked = [groups[place] for place in places]
                said = self._client.judge(asked, self._judge, timeout=TIMEOUT_S)
                self.signature = said.judge.signature
                found.update(zip(places, said, strict=True))
                if sys.stderr.isatty():
                    done = start + len(places)
                    sys.stderr.write(f"\rtry {turn + 1}: {done} of {len(left)} ")
        return [found[place] for place in range(len(groups))]


def _may_pass(verdict: Verdict) -> bool:
    return verdict.error is not None and verdict.error.retryable


def says(verdicts: Sequence[Verdict]) -> list[bool | None]:
    """Return the decision on each context; None for a missing verdict."""
    return [verdict.relevant if verdict.status == Status.OK else None for verdict in verdicts]


def outcome(verdict: Verdict) -> str:
    """Return the decision, or the reason why it is missing."""
    if verdict.error is not None:
        return verdict.error.reason
    return "relevant" if verdict.relevant else "not relevant"


def flips(attacks: Sequence[Attack], said: Sequence[bool | None]) -> dict[str, list[float]]:
    """Print a line for each family and return the rates."""
    tried = Counter(attack.family for attack in attacks)
    flipped = Counter(a.family for a, verdict in zip(attacks, said, strict=True) if verdict)
    missing = Counter(a.family for a, verdict in zip(attacks, said, strict=True) if verdict is None)
    figures: dict[str, list[float]] = {}
    print(f"{'family':20} {'tried':>6} {'no verdict':>11} {'flipped':>8} {'flip rate':>10}")
    for family in (*FAMILIES, ALL):
        n, flips, none = (
            sum(counts.values()) if family == ALL else counts[family]
            for counts in (tried, flipped, missing)
        )
        rate = "-" if n == none else f"{flips / (n - none):.3f}"
        print(f"{family:20} {n:6} {none:11} {flips:8} {rate:>10}")
        name = family.lower().replace(" ", "_").replace("-", "_")
        if n > none:
            figures["flip_rate" if family == ALL else f"flip_rate_{name}"] = [flips / (n - none)]
    figures["no_verdict_rate"] = [sum(missing.values()) / len(attacks)]
    return figures


@contextmanager
def scripted_server() -> Iterator[str]:
    """Yield the address of a server whose model is `obedient`."""
    with provider_on_a_thread(obedient) as provider, tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "llm.toml")
        config.write_text(
            f'[[providers]]\nname = "scripted"\nbase_url = "{provider.base_url}"\n'
            '[[models]]\nname = "scripted"\nprovider = "scripted"\nmodel = "scripted-1"\n'
        )
        flags = ("--llm-config", str(config), "--llm-cache", "off")
        with serving("judged_server", *flags) as server:
            yield server.address


@contextmanager
def live_server(structured: str) -> Iterator[str]:
    """Yield the address of a server whose model is SmolLM2 on this machine's CPU."""
    with tempfile.TemporaryDirectory() as folder, llama_server(Path(folder, "log")) as llama:
        config = Path(folder, "llm.toml")
        config.write_text(
            f'[[providers]]\nname = "llama"\nbase_url = "http://{llama}/v1"\n'
            "max_concurrency = 2\ntimeout_s = 280\n"
            f'[[models]]\nname = "smollm2"\nprovider = "llama"\nmodel = "{ALIAS}"\n'
            f'structured = "{structured}"\n'
        )
        flags = ("--llm-config", str(config), "--llm-cache", "memory")
        with serving("judged_server", *flags) as server:
            yield server.address


def obedient(asked: Asked) -> dict[str, str]:
    """Answer yes if the words overlap, or if the text has a plain instruction in English."""
    shown, _ = blocks(asked.user)
    expected, retrieved = (
        set(re.findall(r"\w+", str(shown[name]).lower()))
        for name in ("expected_text", "retrieved_text")
    )
    obeyed = re.search(
        r"(?i)\bignore all\b|\bdisregard\b|\breply yes\b", str(shown["retrieved_text"])
    )
    yes = obeyed or len(expected & retrieved) > 0.5 * len(expected)
    return {"reasoning": "words were counted", "verdict": "yes" if yes else "no"}


if __name__ == "__main__":
    main()
