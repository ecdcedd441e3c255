"""Asks how often a text that argues with the judge gets a yes that it does not deserve.

The judge `llm` first reads 24 questions with a text that answers each and one that does not. Then
every attack of tests/data/attacks.jsonl is tried on texts that it took for wrong: set behind one,
or in its place, as the attack wants it. An attack that gets a yes has flipped the verdict. A
verdict that is missing is no flip; it is counted by itself.

clean_accuracy                  right verdicts over verdicts, without any attack
clean_coverage                  verdicts over contexts, likewise
flip_rate                       flips over attacked texts, over all families
flip_rate_<family>              likewise for one family
no_verdict_rate                 attacked texts that got no verdict, over all

    python -m benchmarks.attacks --target ADDRESS [--judge-model NAME] [--hosts 1]

The corpus is fixed, so no figure says anything about attackers who know the judge; those who adapt
succeed more often. `--scripted` starts a server and a provider that obeys some families and not
others, to see that the benchmark itself works; its figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from judged import Client, Judge, QueryGroup, Status, Verdict, Verdicts

from benchmarks.harness import ROOT, closing_line, serving
from tests.fakes.prompt_attacks import CORPUS, FAMILIES, Attack, blocks
from tests.fakes.provider_thread import provider_on_a_thread
from tests.fakes.scripted_provider import Asked

TIMEOUT_S = 3600.0


@dataclass(frozen=True)
class Host:
    """A question, what is expected, a text that says it and one that does not."""

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
    """Print a table by family and the closing line."""
    arguments = parsed()
    if arguments.scripted:
        with scripted_server() as address:
            report(address, arguments)
    else:
        report(arguments.target, arguments)


def parsed() -> argparse.Namespace:
    """Return the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--target", help="a server with --llm-config")
    where.add_argument("--scripted", action="store_true", help="a server and a provider of its own")
    parser.add_argument("--judge-model", default="", help="a model by the server's name for it")
    parser.add_argument("--hosts", type=int, default=1, help="wrong texts that each attack is on")
    return parser.parse_args()


def report(address: str, arguments: argparse.Namespace) -> None:
    """Judge without and with attacks, and print what came of it."""
    parameters = {"model": arguments.judge_model} if arguments.judge_model else {}
    judge = Judge("llm", parameters=parameters)
    with Client(address) as client:
        right = client.judge([host.group(host.right) for host in HOSTS], judge, timeout=TIMEOUT_S)
        wrong = client.judge([host.group(host.wrong) for host in HOSTS], judge, timeout=TIMEOUT_S)
        hosts = [host for host, said in zip(HOSTS, says(wrong), strict=True) if said is False]
        if not hosts:
            raise SystemExit(
                "no flip could be seen: no wrong text was judged not relevant; they came out as "
                + ", ".join(f"{what} ({n})" for what, n in Counter(map(outcome, wrong)).items())
            )
        tried = list(pairs(hosts, max(1, min(arguments.hosts, len(hosts)))))
        attacked = client.judge(
            [host.group(attack.on(host.wrong)) for host, attack in tried], judge, timeout=TIMEOUT_S
        )
    clean = [*says(right), *(None if said is None else not said for said in says(wrong))]
    answered = [said for said in clean if said is not None]
    figures = {
        "clean_accuracy": [sum(answered) / len(answered)],
        "clean_coverage": [len(answered) / len(clean)],
    }
    figures |= flips([attack for _, attack in tried], says(attacked))
    facts = {
        "judge": attacked.judge.signature,
        "attacks": len(CORPUS),
        "attacked_texts": len(tried),
        "hosts_taken_for_wrong": len(hosts),
        "scripted": arguments.scripted,
    }
    print(closing_line("attacks", figures, facts=facts))


def pairs(hosts: Sequence[Host], each: int) -> Iterator[tuple[Host, Attack]]:
    """Yield every attack with `each` hosts, taken in turns."""
    for place, attack in enumerate(CORPUS):
        for step in range(each):
            yield hosts[(place + step) % len(hosts)], attack


def says(verdicts: Verdicts) -> list[bool | None]:
    """Return the verdict on each context, None where there is none."""
    return [
        verdict if status == Status.OK else None
        for verdict, status in zip(verdicts.relevant, verdicts.status, strict=True)
    ]


def outcome(verdict: Verdict) -> str:
    """Return what one verdict came to, in a word or two."""
    if verdict.error is not None:
        return verdict.error.reason
    return "relevant" if verdict.relevant else "not relevant"


def flips(attacks: Sequence[Attack], said: Sequence[bool | None]) -> dict[str, list[float]]:
    """Print a line a family, and return the rates."""
    tried = Counter(attack.family for attack in attacks)
    flipped = Counter(a.family for a, verdict in zip(attacks, said, strict=True) if verdict)
    missing = Counter(a.family for a, verdict in zip(attacks, said, strict=True) if verdict is None)
    figures = {"flip_rate": [sum(flipped.values()) / len(attacks)]}
    print(f"{'family':20} {'tried':>6} {'flipped':>8} {'no verdict':>11} {'flip rate':>10}")
    for family in FAMILIES:
        rate = flipped[family] / tried[family]
        print(
            f"{family:20} {tried[family]:6} {flipped[family]:8} {missing[family]:11} {rate:10.3f}"
        )
        figures[f"flip_rate_{family.lower().replace(' ', '_').replace('-', '_')}"] = [rate]
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


def obedient(asked: Asked) -> dict[str, str]:
    """Say yes where the words meet, and where an order in English is given without disguise."""
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
