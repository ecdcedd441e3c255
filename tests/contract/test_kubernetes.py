"""The manifests for Kubernetes: its own schema, and what the server and the image make of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from judged_server.address import Address
from judged_server.settings import Settings, load

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
IMAGE = (ROOT / "Dockerfile").read_text("utf-8")
VERSION = "1.31"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FOLDER / name).read_text("utf-8")))


def pod(name: str) -> dict[str, Any]:
    first = documents(name)[0]
    found: dict[str, Any] = first["spec"]
    return found["template"]["spec"] if first["kind"] == "Deployment" else found


def server(name: str) -> dict[str, Any]:
    containers = (*pod(name)["containers"], *pod(name).get("initContainers", ()))
    (found,) = (container for container in containers if container["name"] == "judged")
    return dict(found)


def settings(name: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return the settings of the server in a manifest: the image's variables, and its own flags."""
    for key, value in re.findall(r"(JUDGED_\w+)=(\S+)", IMAGE):
        monkeypatch.setenv(key, value)
    flags = (flag.removeprefix("--").split("=", 1) for flag in server(name).get("args", ()))
    return load({key.replace("-", "_"): value for key, value in flags})


def memory(amount: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", amount).groups()  # type: ignore[union-attr]
    return int(number) << {"Mi": 20, "Gi": 30}[unit]


def of_kind(kind: str) -> dict[str, Any]:
    found = documents("service.yaml") + documents("autoscaling.yaml")
    (one,) = (document for document in found if document["kind"] == kind)
    return dict(one)


@pytest.fixture(params=["service.yaml", "sidecar.yaml"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("file", sorted(path.name for path in FOLDER.iterdir()))
def test_every_object_is_one_of_kubernetes(file: str) -> None:
    for document in documents(file):
        kubernetes_validate.validate(document, VERSION, strict=True)


def test_the_server_takes_the_flags_and_has_time_to_end(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(name, monkeypatch)
    assert pod(name)["terminationGracePeriodSeconds"] >= chosen.grace_s + 5
    assert memory(server(name)["resources"]["limits"]["memory"]) > 2 * chosen.max_pending_bytes


def test_what_is_read_and_written_is_mounted_or_in_the_image(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = settings(name, monkeypatch)
    mounts = {mount["mountPath"]: mount for mount in server(name)["volumeMounts"]}
    paths = [chosen.port_file, chosen.certificate, chosen.private_key, chosen.tenants]
    paths.append(chosen.metrics_token_file)
    assert all(str(path.parent) in mounts for path in paths if path is not None)
    assert not mounts["/run/judged"].get("readOnly")
    assert {chosen.vector_cache, chosen.llm_cache} == {"memory"}
    volumes = {volume["name"] for volume in pod(name)["volumes"]}
    assert {mount["name"] for mount in mounts.values()} == volumes


def test_probes_ask_the_port_that_answers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    container, chosen = server("service.yaml"), settings("service.yaml", monkeypatch)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    listens = {"https": chosen.http_listen, "grpc": chosen.listen, "metrics": chosen.metrics_listen}
    assert ports == {name: Address.parse(str(a), name).port for name, a in listens.items()}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked: Mapping[str, Any] = container[probe]["httpGet"]
        assert asked["port"] == "https"
        assert asked["scheme"] == "HTTPS"
        assert asked["path"] in {"/readyz", "/healthz"}


def test_the_application_calls_the_socket_that_the_server_listens_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (application,) = pod("sidecar.yaml")["containers"]
    (target,) = application["env"]
    assert target == {
        "name": "JUDGED_TARGET",
        "value": settings("sidecar.yaml", monkeypatch).listen,
    }
    assert f":{pod('sidecar.yaml')['securityContext']['fsGroup']}" in IMAGE


def test_a_node_may_be_drained_and_replicas_are_added_while_work_waits() -> None:
    deployment = of_kind("Deployment")
    budget, scaler = (
        of_kind("PodDisruptionBudget")["spec"],
        of_kind("HorizontalPodAutoscaler")["spec"],
    )
    assert budget["selector"] == deployment["spec"]["selector"]
    (spread,) = pod("service.yaml")["topologySpreadConstraints"]
    assert spread["labelSelector"] == deployment["spec"]["selector"]
    assert budget["maxUnavailable"] < deployment["spec"]["replicas"] == scaler["minReplicas"]
    target = scaler["scaleTargetRef"]
    assert (target["kind"], target["name"]) == ("Deployment", deployment["metadata"]["name"])
    assert "cpu" in server("service.yaml")["resources"]["requests"], "else it has no utilization"
    (metric,) = (each["pods"]["metric"]["name"] for each in scaler["metrics"] if "pods" in each)
    assert metric in (ROOT / "deploy" / "monitoring" / "dashboard.json").read_text("utf-8")


def test_prometheus_finds_the_port_of_metrics() -> None:
    found = yaml.safe_load(
        (ROOT / "deploy" / "monitoring" / "prometheus-kubernetes.yml").read_text()
    )
    (job,) = found["scrape_configs"]
    keep = next(rule for rule in job["relabel_configs"] if rule.get("action") == "keep")
    label = of_kind("Deployment")["spec"]["template"]["metadata"]["labels"][
        "app.kubernetes.io/name"
    ]
    assert keep["regex"] == f"{label};metrics"
    assert keep["source_labels"] == [
        "__meta_kubernetes_pod_label_app_kubernetes_io_name",
        "__meta_kubernetes_pod_container_port_name",
    ]
