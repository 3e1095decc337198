"""A broker with TLS and passwords: both ends get in with the settings, and say why they do not."""

import gc
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from collector.settings import load_settings
from scouter.errors import TransientError
from scouter.transport.config import KafkaConfig
from tests.collector.conftest import Service
from tests.support.broker_security import PASSWORD, USER, BrokerSecurity, make_security
from tests.support.collector_process import CollectorProcess
from tests.support.components import require
from tests.support.kafka_broker import KafkaBroker, own_broker
from tests.support.processes import wait_until
from tests.support.traced_agent import helper_profile, traced_agent

StartCollector = Callable[..., CollectorProcess]
WRONG = "Tr0ub4dor&3"
pytestmark = pytest.mark.filterwarnings(
    # kafka-python leaves the sockets of refused TLS connections to the garbage collector.
    "ignore:.*SSLSocket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Leave no such socket to another test."""
    yield
    gc.collect()


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


def flags(broker: KafkaBroker, ca: Path) -> dict[str, str]:
    return {
        "kafka": broker.bootstrap, "kafka_security_protocol": "SASL_SSL",
        "kafka_sasl_mechanism": "PLAIN", "kafka_sasl_username": USER, "kafka_ssl_cafile": str(ca),
    }  # fmt: skip


def test_records_and_spans_come_through(
    broker: KafkaBroker,
    security: BrokerSecurity,
    transport: KafkaConfig,
    start_collector: StartCollector,
    tmp_path: Path,
) -> None:
    config = tmp_path / "collector.yaml"
    config.write_text(f"kafka_sasl_password: {PASSWORD}\n")
    given = [
        f"--{name.replace('_', '-')}={value}" for name, value in flags(broker, security.ca).items()
    ]
    with traced_agent(transport, helper_profile()) as agent:
        agent.answer_all(["one", "two"])
        collector = start_collector(
            "--profile", helper_profile().save_to_json(tmp_path / "h.json"),
            "--config", config, *given,
        )  # fmt: skip
        collector.wait_evaluated(2)
    found = collector.evaluations()
    assert {item["record_id"]: item["outcome"] for item in found} == {
        "one": "passed", "two": "passed",
    }  # fmt: skip
    assert PASSWORD not in collector.process.log.read_text()
    assert PASSWORD not in repr(transport)


def test_the_agent_says_why_it_does_not_get_in(transport: KafkaConfig) -> None:
    config = transport.model_copy(update={"password": SecretStr(WRONG), "timeout_s": 3})
    with pytest.raises(TransientError, match=r"check user name, password and mechanism") as raised:
        config.connect()
    assert_no_secret(str(raised.value) + repr(raised.value) + repr(config))


def test_the_agent_says_that_it_does_not_know_the_authority(
    transport: KafkaConfig, security: BrokerSecurity
) -> None:
    update = {"ssl_cafile": str(security.other_ca), "timeout_s": 3}
    with pytest.raises(TransientError, match=r"certificate verify failed.*CA file") as raised:
        transport.model_copy(update=update).connect()
    assert_no_secret(str(raised.value))


@pytest.mark.parametrize("fault", ["password", "authority"])
def test_the_collector_says_why_it_does_not_get_in(
    broker: KafkaBroker,
    security: BrokerSecurity,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    fault: str,
) -> None:
    """In its log and at /readyz; what it was told as a password is in neither."""
    # What the client itself writes at DEBUG shows its messages, with credentials in them.
    caplog.set_level(logging.INFO)
    is_password = fault == "password"
    ca = security.ca if is_password else security.other_ca
    secret = WRONG if is_password else PASSWORD
    given = {**flags(broker, ca), "kafka_sasl_password": secret}
    service = Service(tmp_path, **given)
    wanted = "check user name, password" if is_password else "certificate"
    try:
        wait_until(lambda: wanted.lower() in warnings(caplog).lower(), what="a reason in the log")
        wait_until(
            lambda: wanted.lower() in service.http.get("/readyz").text.lower(),
            what="the reason at /readyz",
        )
        answer = service.http.get("/readyz")
        assert answer.status_code == 503
    finally:
        service.stop()
    assert_no_secret(caplog.text + answer.text + repr(load_settings(given)))


def warnings(caplog: pytest.LogCaptureFixture) -> str:
    found = (each for each in caplog.records if each.name.startswith("collector"))
    return " ".join(each.getMessage() for each in found)


def assert_no_secret(text: str) -> None:
    assert PASSWORD not in text
    assert WRONG not in text
