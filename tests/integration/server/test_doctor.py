"""`judged-server doctor` on set-ups that are good, and on each that is not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fakes.authority import Authority
from tests.integration.server_process import ServerProcess
from tests.integration.tenant_files import new_token


def doctor(*flags: str, **environment: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "judged_server", *flags, "doctor"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JUDGED_")}
    done = subprocess.run(
        command,
        env=clean | {"JUDGED_LISTEN": "127.0.0.1:0"} | environment,  # another test has the default
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, (done.stdout + done.stderr).splitlines()


def test_a_good_set_up(tmp_path: Path):
    authority, tenants, config = Authority(tmp_path), tmp_path / "t.toml", tmp_path / "llm.toml"
    certificate, key = authority.server(ends_in=timedelta(days=100))
    tenants.write_text("[tenants.a]\n[tenants.b]\n")
    token = new_token(tenants, "a")
    with socket.create_server(("127.0.0.1", 0)) as provider:
        url = f"http://127.0.0.1:{provider.getsockname()[1]}/v1"
        config.write_text(
            f'providers = [{{ name = "p", base_url = "{url}", key_env = "SOME_KEY" }}]\n'
            'models = [{ name = "m", provider = "p", model = "m-1" }]\n'
        )
        status, lines = doctor(
            *("--tenants", str(tenants), "--llm-config", str(config), "--listen", "127.0.0.1:0"),
            *("--certificate", str(certificate), "--private-key", str(key)),
            SOME_KEY="sk-canary",
            XDG_CACHE_HOME=str(tmp_path),
            XDG_STATE_HOME=str(tmp_path),
        )
    said = "\n".join(lines)
    assert status == 0, said
    assert f"ok    certificate: {certificate} ends in 99 days" in lines
    assert "warn  tenants: b has no token, certificate or socket; run tenants rotate b" in lines
    assert "ok    language model: m: has its key" in lines
    assert "ok    provider: p: 127.0.0.1:" in said
    assert f"ok    spending: {tmp_path}/judged, " in said
    assert "sk-canary" not in said
    assert token not in said
    assert lines[-1] == "a server can run with these settings"
    assert not (tmp_path / "judged").exists(), "it changes nothing"


def test_a_model_that_a_tenant_with_a_budget_can_not_use(tmp_path: Path):
    tenants, config = tmp_path / "t.toml", tmp_path / "llm.toml"
    tenants.write_text("[tenants.rich]\n[tenants.poor]\nper_month = 1.0\n")
    for name in ("rich", "poor"):
        new_token(tenants, name)
    replies = 'providers = [{ name = "p", dialect = "fake", replies = "replies.jsonl" }]\n'
    (tmp_path / "replies.jsonl").write_text('{"reply": "yes"}\n')
    config.write_text(
        f'{replies}[[models]]\nname = "dear"\nprovider = "p"\nmodel = "m"\n'
        "input_per_million = 1.0\noutput_per_million = 1.0\n"
        '[[models]]\nname = "free"\nprovider = "p"\nmodel = "m"\n'
    )
    flags = ("--tenants", str(tenants), "--llm-config", str(config), "--listen", "127.0.0.1:0")
    status, lines = doctor(*flags, XDG_STATE_HOME=str(tmp_path))
    assert status == 0, lines
    [said] = [line for line in lines if line.startswith("warn  spending: ")]
    assert "free: without prices, and so refused to poor" in said
    config.write_text(
        config.read_text()
        + "[budget]\nper_day = 9.0\nunpriced_input_per_million = 1.0\n"
        + f'unpriced_output_per_million = 1.0\nfile = "{tmp_path}/ledger"\n'
    )
    _, lines = doctor(*flags)
    assert [line for line in lines if "spending" in line] == [
        line for line in lines if line.startswith(f"ok    spending: {tmp_path}, ")
    ]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ["--certificate", "no.pem", "--private-key", "no.key"],
            "BAD   certificate: no.pem: can't",
        ),
        (["--tenants", "no.toml"], "BAD   tenants: tokens no.tokens.json: there is no such file"),
        (["--model", "no-such"], "BAD   embedding model: model 'no-such' is not installed; run"),
        (["--llm-config", "no.toml"], "BAD   language models: llm_config no.toml can't be read"),
        (["--listen", "0.0.0.0:0"], "BAD   listen: 0.0.0.0:0, other machines can reach it: give"),
        (["--listen", "unix:/no/such/s"], "BAD   listen: listen: there is no folder /no/such"),
        (["--http-listen", "unix:/no/s"], "BAD   listen: http_listen: there is no folder /no"),
        (["--metrics-listen", "0.0.0.0:0"], "BAD   metrics_listen: 0.0.0.0:0: is for this machine"),
        (["--default-judge", "nobody"], "BAD   judges: no judge is called 'nobody'"),
        (["--default-judge", "llm"], "BAD   judges: default_judge: llm asks a language model"),
        (["--rubrics-dir", "/no/such"], "BAD   judges: rubrics_dir /no/such can't be read"),
        (["--embedding-backend", "cuda"], "BAD   judges: embedding_backend cuda: "),
        (["--audit-log", "/no/such/log"], "BAD   audit log: /no/such/log: its folder is not there"),
        (["--audit-log", "/"], "BAD   audit log: /: is a folder; name a file"),
    ],
)
def test_what_keeps_a_server_from_running(flags: list[str], said: str):
    status, lines = doctor(*flags, JUDGED_LISTEN="127.0.0.1:0")  # a flag comes first
    assert status == 2
    assert [line for line in lines if line.startswith(said)], lines
    assert lines[-1] == "mend what is BAD; see above"


def test_a_port_that_is_taken(server: ServerProcess):
    status, lines = doctor("--listen", server.address)
    assert status == 2
    assert [line for line in lines if f"can't listen on {server.address}" in line]


def test_a_metrics_port_that_is_taken(server: ServerProcess):
    status, lines = doctor("--metrics-listen", server.address)
    assert status == 2
    assert [line for line in lines if line.endswith("or set --metrics-listen")], lines
    status, lines = doctor("--listen", "127.0.0.1:9", "--http-listen", "127.0.0.1:9")
    assert status == 2


@pytest.mark.parametrize(
    ("tenants", "said"),
    [
        ("[tenants.a]\nweight = 0\n", "weight must be a whole number from 1"),
        ('[tenants.a]\njudges = ["semantik"]\n', "has no 'semantik'; did you mean semantic?"),
        ('[tenants.a]\nrubrics = ["answer_mach"]\n', "has no 'answer_mach'; did you mean"),
    ],
)
def test_a_tenant_that_can_not_be(tmp_path: Path, tenants: str, said: str):
    path = tmp_path / "t.toml"
    path.write_text("[tenants.a]\n")
    new_token(path, "a")
    path.write_text(tenants)
    status, lines = doctor("--tenants", str(path))
    assert status == 2
    assert [line for line in lines if line.startswith("BAD   tenants: ") and said in line], lines


def test_a_token_of_two_tenants_and_a_clock_that_is_behind(tmp_path: Path):
    path, tokens = tmp_path / "t.toml", tmp_path / "t.tokens.json"
    path.write_text("[tenants.a]\n[tenants.b]\n")
    new_token(path, "a")
    held = json.loads(tokens.read_text())
    [token] = held["tokens"]
    tokens.write_text(json.dumps(held | {"tokens": [token, token | {"tenant": "b"}]}))
    status, lines = doctor("--tenants", str(path))
    assert status == 2
    assert [line for line in lines if "a and b have the same token" in line], lines
    later = token | {"created": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
    tokens.write_text(json.dumps(held | {"tokens": [later]}))
    status, lines = doctor("--tenants", str(path))
    assert status == 0
    assert [line for line in lines if line.startswith("warn  clock: a token was made at")], lines


def test_what_is_wrong_with_a_file_is_told_once(tmp_path: Path):
    config = tmp_path / "llm.toml"
    config.write_text("[budget]\n")
    status, lines = doctor("--llm-config", str(config))
    assert status == 2
    assert len([line for line in lines if "llm.toml" in line]) == 1, lines


@pytest.mark.parametrize(
    ("begins_in", "ends_in", "said"),
    [(-10, -1, " UTC; renew it"), (1, 9, "set this machine's clock, or wait")],
)
def test_a_certificate_of_another_time(tmp_path: Path, begins_in: int, ends_in: int, said: str):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now + timedelta(begins_in))
        .not_valid_after(now + timedelta(ends_in))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (tmp_path / "c.pem").write_bytes(made.public_bytes(pem))
    (tmp_path / "c.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    files = ("--certificate", str(tmp_path / "c.pem"), "--private-key", str(tmp_path / "c.key"))
    status, lines = doctor(*files)
    assert status == 2
    assert [line for line in lines if line.startswith("BAD   certificate: ") and said in line]
    # The same as an authority of clients: one that has ended lets nobody in.
    certificate, private_key = Authority(tmp_path).server()
    flags = ("--certificate", str(certificate), "--private-key", str(private_key))
    status, lines = doctor(*flags, "--client-ca", str(tmp_path / "c.pem"))
    assert (status == 2) is (ends_in < 0)
