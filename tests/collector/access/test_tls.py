"""A collector that others reach: TLS, tokens made on the command line, an agent that has one."""

import io
import json
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, cast

import grpc
import httpx
import pytest

from collector.service import run_collector
from collector.settings.load import load_settings
from scouter.cli.app import main
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.otlp import encode_request
from tests.contracts.store_data import TRACE, span
from tests.support.certificates import Certificates, make_certificates
from tests.support.collector_process import CollectorProcess
from tests.support.processes import free_ports, wait_until

AGENT = """
import json, os, sys
from scouter.drift import AgentEvalProfile
from scouter.evaluate import EvalRecord
from scouter.queue import ScouterQueue
from scouter.transport import HttpConfig

profile = AgentEvalProfile.from_file("answers.json")
for environment in json.loads(sys.argv[1]):
    os.environ.update(environment)
    queue = ScouterQueue.from_profile(profile, transport_config=HttpConfig())
    queue["answers"].insert(EvalRecord(context={"answer": 42}))
    queue.shutdown()
    print(queue.stats)
"""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("no program 'openssl': apt install openssl")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def collector(tmp_path: Path, certificates: Certificates) -> Iterator[CollectorProcess]:
    task = AssertionTask("right", "answer", 42, "Equals")
    AgentEvalProfile([task], alias="answers").save_to_json(tmp_path / "answers.json")
    collector = CollectorProcess(
        tmp_path, "--tls-cert", certificates.certificate, "--tls-key", certificates.key,
        "--grpc", "127.0.0.1:0", "--profile", tmp_path / "answers.json",
    )  # fmt: skip
    yield collector
    collector.close()


def token_command(folder: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run `scouter token` inside of this process."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    words = ["scouter", "token", *args, "--data", str(folder / "data")]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", words)
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def make_token(folder: Path, *scopes: str) -> str:
    flags = [part for scope in scopes for part in ("--scope", scope)]
    done = token_command(folder, "create", *flags, "--expires", "1h")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def https(collector: CollectorProcess, ca: Path, token: str) -> httpx.Client:
    return httpx.Client(
        base_url=collector.url.replace("http:", "https:"),
        verify=ssl.create_default_context(cafile=ca),
        headers={"Authorization": f"Bearer {token}"},
        timeout=120,
    )


def test_over_http(tmp_path: Path, collector: CollectorProcess, certificates: Certificates) -> None:
    """An agent sends a record; without a token, or if it trusts another authority, it does not."""
    reader, sender = make_token(tmp_path, "read"), make_token(tmp_path, "ingest")
    collector.start()
    url = collector.url.replace("http:", "https:")
    answer = run_agent(
        tmp_path,
        {"SSL_CERT_FILE": str(certificates.ca), "SCOUTER_URL": url},
        {"SSL_CERT_FILE": str(certificates.other_ca), "SCOUTER_AUTH_TOKEN": sender},
        {"SSL_CERT_FILE": str(certificates.ca)},
    )
    assert [re.findall(r"sent=\d", line) for line in answer] == [["sent=0"], ["sent=0"], ["sent=1"]]
    with https(collector, certificates.ca, reader) as http:
        wait_until(lambda: http.get("/api/v1/evaluations").json()["items"], what="the evaluation")
        assert http.get("/api/v1/conservation").json()["records"]["accepted"] == 1
    with https(collector, certificates.ca, sender) as http:
        assert http.get("/api/v1/evaluations").status_code == 403


def run_agent(folder: Path, *environments: Mapping[str, str]) -> list[str]:
    """Let it send a record with each of some changes of its environment; a line for each."""
    done = subprocess.run(
        [sys.executable, "-c", AGENT, json.dumps(environments)],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_over_grpc(tmp_path: Path, collector: CollectorProcess, certificates: Certificates) -> None:
    """A token of the right scope, revoked while the connection stays open."""
    sender, reader = make_token(tmp_path, "ingest", "read"), make_token(tmp_path, "read")
    collector.start()
    credentials = grpc.ssl_channel_credentials(certificates.ca.read_bytes())
    data = encode_request([span(1)]).SerializeToString()
    with grpc.secure_channel(collector.grpc, credentials) as channel:
        call = cast(Any, channel).unary_unary(
            "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
        )

        def code(token: str | None) -> str:
            metadata = [] if token is None else [("authorization", f"Bearer {token}")]
            try:
                call(data, metadata=metadata, timeout=120)
            except grpc.RpcError as error:
                return cast(Any, error).code().name
            return "OK"

        found = [code(None), code("sct_nonsense"), code(reader), code(sender)]
        assert found == ["UNAUTHENTICATED", "UNAUTHENTICATED", "PERMISSION_DENIED", "OK"]
        token_id = sender.split("_")[1]
        assert token_command(tmp_path, "revoke", token_id).returncode == 0
        wait_until(lambda: code(sender) == "UNAUTHENTICATED", what="the end of the token")
    with https(collector, certificates.ca, reader) as http:
        assert len(http.get(f"/api/v1/traces/{TRACE}").json()["spans"]) == 1


def test_the_command_line(tmp_path: Path) -> None:
    text = make_token(tmp_path, "read", "admin")
    assert re.fullmatch(r"sct_[0-9a-f]{12}_[\w-]{43}", text)
    token_id = text.split("_")[1]
    done = token_command(tmp_path, "list")
    assert token_id in done.stdout
    assert "admin read" in done.stdout
    assert text.split("_", 2)[2] not in done.stdout
    assert token_command(tmp_path, "revoke", token_id).returncode == 0
    again = token_command(tmp_path, "revoke", token_id)
    assert again.returncode == 2
    assert "no valid token" in again.stderr
    assert "revoked" in token_command(tmp_path, "list").stdout
    wrong = token_command(tmp_path, "create", "--scope", "read", "--expires", "soon")
    assert wrong.returncode == 2
    assert "'soon' is not a time" in wrong.stderr


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_proxy_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_trusted: bool
) -> None:
    """It lets nobody else in while there is no token: the sender behind it is not known for sure.

    Guesses of a token count for the connection's address, whatever a header or the environment
    says, unless the proxy is trusted.
    """
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    flags = ["--trusted-proxies", "127.0.0.1"] if is_trusted else []
    collector = CollectorProcess(tmp_path, *flags)
    collector.start()
    try:
        with httpx.Client(base_url=collector.url, timeout=120) as client:
            assert client.get("/api/v1/tasks").status_code == 200
            for name, value in (
                ("X-Forwarded-For", "10.0.0.7"), ("X-Forwarded-For", "127.0.0.1"),
                ("Forwarded", "for=10.0.0.7"), ("X-Real-IP", "10.0.0.7"), ("Via", "1.1 proxy"),
            ):  # fmt: skip
                answer = client.get("/api/v1/tasks", headers={name: value})
                assert answer.status_code == 403, answer.text
            assert not (tmp_path / "data" / "access.db").exists()
            make_token(tmp_path, "read")
            wait_until(
                lambda: client.get("/api/v1/tasks").status_code == 401, what="the first guess"
            )
            guesses = [
                client.get("/api/v1/tasks", headers={"X-Forwarded-For": f"10.0.0.{n}"})
                for n in range(12)
            ]
    finally:
        collector.close()
    statuses = [each.status_code for each in guesses]
    assert statuses == ([401] * 12 if is_trusted else [401] * 9 + [429] * 3)


def test_a_collector_whose_tokens_vanish_stays_shut(tmp_path: Path) -> None:
    """Also after a look at them on the command line; and its probe tells no address."""
    make_token(tmp_path, "read")
    (port, broker) = free_ports(2)
    collector = CollectorProcess(
        tmp_path, "--listen", f"0.0.0.0:{port}", "--kafka", f"127.0.0.1:{broker}"
    )
    collector.start()
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=120)
        assert (answer.status_code, answer.json()["detail"]) == (503, "not ready: kafka")
        url = f"http://127.0.0.1:{port}/api/v1/tasks"
        assert httpx.get(url, timeout=120).status_code == 401
        (tmp_path / "data" / "access.db").unlink()
        assert token_command(tmp_path, "list").returncode == 0
        assert not (tmp_path / "data" / "access.db").exists()
        assert httpx.get(url, timeout=120).status_code == 401
    finally:
        collector.close()


def test_looking_for_tokens_makes_no_folder(tmp_path: Path) -> None:
    for arguments in (["list"], ["revoke", "3f9c2ab04d11"]):
        done = token_command(tmp_path / "typo", *arguments)
        assert done.returncode == 2
        assert "there is no data folder" in done.stderr
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"listen": "0.0.0.0:0"}, "other machines could reach this address"),
        ({"grpc": "0.0.0.0:0"}, "other machines could reach this address"),
        ({"tls_cert": "nothing.pem"}, "TLS needs both"),
        ({"tls_cert": "nothing.pem", "tls_key": "nothing.pem"}, "No such file"),
    ],
)
def test_what_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    here = {"data": tmp_path / "d", "listen": "127.0.0.1:0", "grpc": "off"}
    with pytest.raises(ConfigError, match=message):
        run_collector(load_settings({**here, **given}))
