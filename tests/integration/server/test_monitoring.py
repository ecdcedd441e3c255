"""Metrics, readiness and what shows them, on a real server that has had calls of all kinds."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from judged import AnswerItem, Client, Judge, QueryGroup
from judged.credentials import Tls, Token
from judged.errors import JudgedError
from prometheus_client.parser import text_string_to_metric_families

from tests.fakes.authority import Authority
from tests.fakes.providers.provider_thread import provider_on_a_thread
from tests.integration.access.test_tls import wait_for_line
from tests.integration.llm_config import llm_config, priced
from tests.integration.server_process import ServerProcess, running_server
from tests.integration.tenant_files import new_token

DEPLOY = Path(__file__).resolve().parents[3] / "deploy" / "monitoring"
CANARY = "sk-canary-text"
GROUPS = [QueryGroup("q", [f"red green {CANARY}"], ["red green", "x"], "1")]


@dataclass(frozen=True)
class Watched:
    server: ServerProcess
    metrics: str
    token: str


def get(
    address: str, path: str, method: str = "GET", **sent: str
) -> tuple[int, dict[str, str], str]:
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=20)
    connection.request(method, path, headers=sent)
    reply = connection.getresponse()
    body = reply.read().decode()
    connection.close()
    return reply.status, {name.lower(): value for name, value in reply.getheaders()}, body


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("watched")
    authority, path = Authority(folder), folder / "tenants.toml"
    path.write_text("[tenants.search]\n")
    token = new_token(path, "search")
    certificate, key = authority.server()
    with provider_on_a_thread() as provider:
        budget = f'[budget]\nper_day = 5.0\nfile = "{folder}/budget.sqlite"\n'
        config = llm_config(folder, provider, {"m": priced(1.0, 2.0)}, rest=budget)
        with running_server(
            "--tenants",
            str(path),
            "--metrics-listen",
            "127.0.0.1:0",
            "--certificate",
            str(certificate),
            "--private-key",
            str(key),
            "--llm-config",
            config,
            "--llm-cache-dir",
            str(folder / "replies"),
            "--vector-cache-dir",
            str(folder / "vectors"),
        ) as server:
            credentials = Tls(authority.ca, token=Token(token))
            with Client(server.address, credentials=credentials) as client:
                for judge in ("exact", "semantic", "llm", "llm"):
                    client.judge(GROUPS, judge)
                client.score_answers([AnswerItem("i", "q", CANARY, ["a"])], ["answer_match"])
                with pytest.raises(JudgedError):
                    client.judge(GROUPS, Judge("nobody"))
            address = wait_for_line(server, "ready")["metrics"]
            yield Watched(server, address, token)


@pytest.fixture(scope="module")
def samples(watched: Watched) -> dict[str, list[tuple[dict[str, str], float]]]:
    """The values of every sample, by its name."""
    # A call is counted once it has ended, which its caller may know a moment before.
    text = ""
    while 'code="NOT_FOUND"' not in text:
        status, _, text = get(watched.metrics, "/metrics")
        assert status == 200
    return by_name(text)


def by_name(text: str) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


@pytest.fixture(scope="module")
def all_samples(samples, tmp_path_factory: pytest.TempPathFactory):
    """The same, and what a server with a store of several tells besides."""
    pytest.importorskip("psycopg", reason="not run: no psycopg (pip install 'judged[postgres]')")
    with provider_on_a_thread() as provider:
        config = llm_config(tmp_path_factory.mktemp("store"), provider, {"m": priced(1.0, 2.0)})
        flags = ("--llm-config", config, "--metrics-listen", "127.0.0.1:0")
        env = {"JUDGED_STORE": "postgresql://judged@127.0.0.1:1/none"}
        with running_server(*flags, env=env) as server:
            text = get(wait_for_line(server, "ready")["metrics"], "/metrics")[2]
    return by_name(text) | samples


def value(samples, name: str, **labels: str) -> float:
    return sum(each for found, each in samples[name] if labels.items() <= found.items())


def test_calls_are_counted_by_method_code_and_tenant(samples):
    call = {"method": "BatchJudge", "tenant": "search"}
    assert value(samples, "judged_calls_total", code="OK", **call) == 4
    assert value(samples, "judged_calls_total", code="NOT_FOUND", **call) == 1
    assert value(samples, "judged_call_seconds_count", method="BatchJudge") == 5
    assert value(samples, "judged_refusals_total", reason="UNKNOWN_JUDGE") == 1


def test_every_stage_is_timed(samples):
    stages = {labels["stage"] for labels, v in samples["judged_stage_seconds_count"] if v}
    assert stages == {"queue", "tokenize", "infer", "provider", "store"}


def test_caches_and_money_are_counted(samples):
    assert value(samples, "judged_cache_lookups_total", cache="replies", result="hit") == 2
    assert value(samples, "judged_cache_lookups_total", cache="vectors", result="miss") == 3
    assert value(samples, "judged_model_questions_total", model="m", tenant="search") == 3
    tokens = value(samples, "judged_model_tokens_total", direction="input")
    output = value(samples, "judged_model_tokens_total", direction="output")
    cost = value(samples, "judged_model_cost_total", tenant="search")
    assert cost == pytest.approx((tokens + 2 * output) / 1e6)
    assert 0 < value(samples, "judged_budget_left", currency="USD") <= 5 - cost + 1e-9


@pytest.mark.parametrize("path", ["/metrics", "/healthz", "/readyz"])
def test_the_port_is_for_reading_only(watched: Watched, path: str):
    status, headers, _ = get(watched.metrics, path)
    assert status == 200
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers
    for method in ("POST", "PUT", "DELETE", "HEAD"):
        assert get(watched.metrics, path, method)[0] == 405
    assert get(watched.metrics, f"/nothing{path}")[0] == 404


def test_metrics_are_told_to_no_page_whose_name_was_made_to_stand_for_this_machine(
    watched: Watched,
):
    status, _, said = get(watched.metrics, "/metrics", Host="rebound.example:9470")
    assert (status, "judged_" in said, "127.0.0.1" in said) == (403, False, True)
    assert get(watched.metrics, "/metrics", Host="localhost:9470")[0] == 200


NAME = re.compile(r"\b(?:judged|process)_[a-z_]+")
LABELS = re.compile(r"by \(([^)]*)\)|\{(\w+)=")


def expressions() -> dict[str, str]:
    """Every expression of the dashboard and of the alert rules, by what it is for."""
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in dashboard["panels"]
        for target in panel["targets"]
    }
    for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]:
        found |= {rule["alert"]: rule["expr"] for rule in group["rules"]}
    return found


@pytest.mark.parametrize("what", sorted(expressions()))
def test_what_dashboard_and_alerts_ask_for_is_there(all_samples, what: str):
    expression = expressions()[what]
    names = NAME.findall(expression)
    assert names
    known: set[str] = {"le"}
    for name in names:
        assert name in all_samples, f"no server tells {name}"
        known |= {label for labels, _ in all_samples[name] for label in labels}
    for group, selected in LABELS.findall(expression):
        assert {each.strip() for each in (group or selected).split(",")} <= known


def test_every_metric_is_on_the_dashboard(all_samples):
    asked = {name for each in expressions().values() for name in NAME.findall(each)}
    ours = {name for name in all_samples if not name.endswith(("_count", "_sum"))}
    ours = {name for name in ours if name.startswith("judged_")}
    assert ours <= asked
