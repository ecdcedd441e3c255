"""Certificate files that are good, bad, and half replaced."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from judged_server.api.authentication import Certificates
from judged_server.settings import Settings, SettingsError, load

from tests.fakes.authority import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def settings_of(files: tuple[Path, Path], client_ca: Path | None = None) -> Settings:
    named = {"certificate": files[0], "private_key": files[1], "client_ca": client_ca}
    return load({name: str(path) for name, path in named.items() if path is not None})


def replace(file: Path, other: Path) -> None:
    scratch = file.with_suffix(".new")
    shutil.copy(other, scratch)
    scratch.replace(file)


def looked_twice(held: Certificates) -> bool:
    held.refresh()
    return held.refresh()


@pytest.mark.parametrize(
    ("which", "content", "problem"),
    [
        ("certificate", b"", "is no PEM certificate"),
        ("certificate", b"-----BEGIN CERTIFICATE-----\nAAAA\n", "is no PEM certificate"),
        ("private_key", b"\xff\x00", "is no PEM private key"),
        ("client_ca", b"canary", "is no PEM certificate"),
        ("certificate", None, "can't be read: No such file"),
    ],
)
def test_what_can_not_be_used_keeps_the_old_one(
    authority: Authority,
    which: str,
    content: bytes | None,
    problem: str,
    capfd: pytest.CaptureFixture[str],
):
    settings = settings_of(authority.server(), authority.ca)
    held = Certificates(settings)
    file: Path = getattr(settings, which)
    good = file.read_bytes()
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    assert not looked_twice(held)
    assert not looked_twice(held)
    assert held.fetch() is None
    assert problem in held.problem
    assert str(file) in held.problem
    assert "canary" not in held.problem
    logged = [json.loads(line)["event"] for line in capfd.readouterr().err.splitlines()]
    assert logged == ["bad certificate"], "reported once"
    file.write_bytes(good)
    assert held.refresh()
    assert held.problem == ""


def test_the_middle_of_a_replacement_is_no_fault(authority: Authority):
    files = authority.server()
    held = Certificates(settings_of(files))
    newer = authority.server("newer")
    replace(files[0], newer[0])
    assert not held.refresh()
    assert held.fetch() is None
    assert held.problem == ""
    replace(files[1], newer[1])
    assert held.fetch() is not None
    assert held.failures == 0


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        ({"begins_in": timedelta(-10), "ends_in": timedelta(-1)}, r"ended at .* UTC; renew it"),
        ({"key": Ed25519PrivateKey.generate()}, "a key of this kind; make one of P-256"),
        ({"key": ec.generate_private_key(ec.SECP521R1())}, "a key of this kind; make one of P-256"),
    ],
)
def test_a_certificate_that_no_client_would_accept(authority: Authority, made, problem: str):
    with pytest.raises(SettingsError, match=problem):
        Certificates(settings_of(authority.issue("other", **made)))
