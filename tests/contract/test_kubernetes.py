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


@pytest.fixture(params=["service.yaml", "sidecar.yaml"])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_object_is_one_of_kubernetes(name: str) -> None:
    for document in documents(name):
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
    assert all(str(path.parent) in mounts for path in paths if path is not None)
    assert not mounts["/run/judged"].get("readOnly")
    assert {chosen.vector_cache, chosen.llm_cache} == {"memory"}
    volumes = {volume["name"] for volume in pod(name)["volumes"]}
    assert {mount["name"] for mount in mounts.values()} == volumes


def test_probes_ask_the_port_that_answers_them(monkeypatch: pytest.MonkeyPatch) -> None:
    container, chosen = server("service.yaml"), settings("service.yaml", monkeypatch)
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert chosen.http_listen is not None
    http, grpc = (Address.parse(a, "a") for a in (chosen.http_listen, chosen.listen))
    assert ports == {"https": http.port, "grpc": grpc.port}
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
