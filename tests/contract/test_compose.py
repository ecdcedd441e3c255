"""deploy/compose: what its files name is there, and the server takes its settings.

No container engine is asked for: the containers themselves are not run. Where Docker's Compose is
installed, it reads the file.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from judged_server.address import Address
from judged_server.settings import load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "compose"
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
IMAGE = (ROOT / "Dockerfile").read_text("utf-8")


def said(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


def mounted(service: str) -> dict[str, Path]:
    """Return the files that a service has from this project, by their paths in its container."""
    volumes = (volume.split(":") for volume in SERVICES[service].get("volumes", ()))
    return {to: (FOLDER / own).resolve() for own, to, *_ in volumes if own.startswith(".")}


@pytest.mark.parametrize("service", sorted(SERVICES))
def test_a_service_has_what_it_names(service: str) -> None:
    about = SERVICES[service]
    assert re.fullmatch(r"[a-z/]+:[0-9a-z.-]*\d[0-9a-z.-]*", about["image"]), "no release is named"
    assert all(file.is_file() for file in mounted(service).values())
    volumes = {volume.split(":")[0] for volume in about["volumes"] if volume[0] != "."}
    assert volumes <= set(COMPOSE["volumes"])
    secrets = {f"/run/secrets/{name}" for name in about["secrets"]}
    assert set(about["secrets"]) <= set(COMPOSE["secrets"])
    named = re.findall(r"/run/secrets/[\w.]+", json.dumps(about))
    assert set(named) <= secrets


def test_the_server_takes_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in (*re.findall(r"(JUDGED_\w+)=(\S+)", IMAGE), *judged_environment().items()):
        monkeypatch.setenv(key, value)
    settings = load({})
    assert settings.metrics_listen is not None
    (published,) = SERVICES["judged"]["ports"]
    assert Address.parse(settings.listen).port == int(published.partition(":")[2])
    assert int(SERVICES["judged"]["stop_grace_period"].removesuffix("s")) >= settings.grace_s + 5
    (scraped,) = said("prometheus.yml")["scrape_configs"]
    port = Address.parse(settings.metrics_listen).port
    assert scraped["static_configs"] == [{"targets": [f"judged:{port}"]}]
    assert settings.metrics_token_file is not None
    assert scraped["authorization"]["credentials_file"] == str(settings.metrics_token_file)
    # The tokens stand beside the tenants, by a name that is made of theirs.
    assert {"tenants.toml", "tenants.tokens.json"} <= set(SERVICES["judged"]["secrets"])


def judged_environment() -> dict[str, str]:
    return {key: value for key, value in SERVICES["judged"]["environment"].items() if value}


def test_a_store_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    user = SERVICES["postgres"]["environment"]["POSTGRES_USER"]
    (url,) = re.findall(r"JUDGED_STORE=(.*) \\\n", (FOLDER / "compose.yaml").read_text("utf-8"))
    assert url.startswith(f"postgresql://{user}:")
    assert "@postgres/" in url
    assert SERVICES["judged"]["environment"]["JUDGED_STORE"] is None
    monkeypatch.setenv("JUDGED_STORE", url)
    assert load({}).store == url


def test_grafana_shows_our_dashboard_of_this_prometheus() -> None:
    (source,) = said("grafana-datasources.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = said("grafana-dashboards.yml")["providers"]
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    dashboard = json.loads(mounted("grafana")[home].read_text("utf-8"))
    assert Path(home).parent == Path(provider["options"]["path"])
    (variable,) = dashboard["templating"]["list"]
    assert variable["query"] == source["type"]
    (rules,) = said("prometheus.yml")["rule_files"]
    assert f"/etc/prometheus/{rules}" in mounted("prometheus")


def test_compose_reads_it() -> None:
    run = partial(subprocess.run, capture_output=True, text=True, check=False)
    if shutil.which("docker") is None or run(["docker", "compose", "version"]).returncode:
        pytest.skip("not run: no Docker Compose")
    file = str(FOLDER / "compose.yaml")
    done = run(["docker", "compose", "--file", file, "config", "--quiet"])
    assert done.returncode == 0, done.stderr
