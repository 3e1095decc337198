"""A broker with TLS and passwords: both ends get in with the settings, and say why they do not."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from scouter.transport.config import KafkaConfig
from tests.support.broker_security import PASSWORD, USER, BrokerSecurity, make_security
from tests.support.collector_process import CollectorProcess
from tests.support.components import ROOT, require
from tests.support.kafka_broker import KafkaBroker, own_broker
from tests.support.processes import wait_until
from tests.support.traced_agent import helper_profile, traced_agent

StartCollector = Callable[..., CollectorProcess]
WRONG = "Tr0ub4dor&3"
REFUSED = "check user name, password and mechanism"
_CONNECT = """
import sys
from scouter.errors import TransientError
from scouter.transport.config import KafkaConfig
brokers, ca = sys.argv[1:]
config = KafkaConfig(brokers=brokers, ssl_cafile=ca, timeout_s=3)
try:
    config.connect()
except TransientError as error:
    print(error, repr(error), repr(config))
"""
"""A program of its own, as kafka-python leaves sockets of refused connections open."""


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> BrokerSecurity:
    require("kafka", present=shutil.which("openssl") is not None, detail="no program 'openssl'")
    return make_security(tmp_path_factory.mktemp("security"))


@pytest.fixture(scope="module")
def broker(security: BrokerSecurity) -> Iterator[KafkaBroker]:
    with own_broker(security) as running:
        yield running


@pytest.fixture
def transport(broker: KafkaBroker, security: BrokerSecurity) -> KafkaConfig:
    return KafkaConfig(
        brokers=broker.bootstrap,
        username=USER,
        password=SecretStr(PASSWORD),
        ssl_cafile=str(security.ca),
        timeout_s=10,
    )


def flags(broker: KafkaBroker, ca: Path, mechanism: str = "PLAIN") -> list[str]:
    return [
        "--kafka", broker.bootstrap, "--kafka-security-protocol", "SASL_SSL",
        "--kafka-sasl-mechanism", mechanism, "--kafka-sasl-username", USER,
        "--kafka-ssl-cafile", str(ca),
    ]  # fmt: skip


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_records_and_spans_come_through(
    mechanism: str,
    broker: KafkaBroker,
    security: BrokerSecurity,
    transport: KafkaConfig,
    start_collector: StartCollector,
    tmp_path: Path,
) -> None:
    config = tmp_path / "collector.yaml"
    config.write_text(f"kafka_sasl_password: {PASSWORD}\n")
    prefix = mechanism.lower()
    topics = {f"{kind}_topic": f"{prefix}.{kind}" for kind in ("records", "spans")}
    transport = transport.model_copy(update={"sasl_mechanism": mechanism, **topics})
    with traced_agent(transport, helper_profile()) as agent:
        agent.answer_all(["one", "two"])
        collector = start_collector(
            "--profile", helper_profile().save_to_json(tmp_path / "h.json"),
            "--config", config, *flags(broker, security.ca, mechanism),
            "--kafka-records-topic", topics["records_topic"],
            "--kafka-spans-topic", topics["spans_topic"],
        )  # fmt: skip
        collector.wait_evaluated(2)
    found = collector.evaluations()
    assert {item["record_id"]: item["outcome"] for item in found} == {
        "one": "passed", "two": "passed",
    }  # fmt: skip
    assert PASSWORD not in collector.process.log.read_text()
    assert PASSWORD not in repr(transport)


def test_the_agent_says_why_it_does_not_get_in(
    broker: KafkaBroker, security: BrokerSecurity
) -> None:
    """With a wrong password, and with a broker that another authority vouches for."""
    for password, ca, reason in (
        (WRONG, security.ca, REFUSED),
        (PASSWORD, security.other_ca, "certificate verify failed"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", _CONNECT, broker.bootstrap, ca],
            env={**os.environ, "KAFKA_USERNAME": USER, "KAFKA_PASSWORD": password},
            capture_output=True, text=True, timeout=120, check=True, cwd=ROOT,
        )  # fmt: skip
        assert reason in done.stdout
        assert password not in done.stdout + done.stderr


def test_the_collector_says_why_it_does_not_get_in(
    broker: KafkaBroker, security: BrokerSecurity, start_collector: StartCollector, tmp_path: Path
) -> None:
    """In its log and at /readyz, in the words of the agent; the password is in neither."""
    config = tmp_path / "collector.yaml"
    config.write_text(f"kafka_sasl_password: {WRONG}\n")
    collector = start_collector("--config", config, *flags(broker, security.ca))
    wait_until(
        lambda: REFUSED in httpx.get(f"{collector.url}/readyz", timeout=120).text,
        what="the reason at /readyz",
    )
    answer = httpx.get(f"{collector.url}/readyz", timeout=120)
    log = collector.process.log.read_text()
    assert answer.status_code == 503
    assert REFUSED in log
    assert WRONG not in log + answer.text
