"""The log of a fleet on brokers with TLS and passwords: its clients are let in, or learn why."""

import gc
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from collector.fleet.member import Member
from collector.fleet.partition_log import PartitionLog
from collector.fleet.topic_log import TopicLog
from collector.log.port import Item, Kind
from collector.receivers.kafka.settings import KafkaSettings
from scouter.errors import ConfigError, ScouterError
from tests.support.broker_security import PASSWORD, USER, BrokerSecurity, make_security
from tests.support.components import require
from tests.support.kafka_broker import KafkaBroker, own_broker

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning")


@pytest.fixture(scope="module")
def security(tmp_path_factory: pytest.TempPathFactory) -> BrokerSecurity:
    require("kafka", present=shutil.which("openssl") is not None, detail="no program 'openssl'")
    return make_security(tmp_path_factory.mktemp("security"))


@pytest.fixture(scope="module")
def broker(security: BrokerSecurity) -> Iterator[KafkaBroker]:
    with own_broker(security) as running:
        yield running
    gc.collect()  # kafka-python leaves the sockets of vain tries to its garbage


@pytest.fixture
def settings(broker: KafkaBroker, security: BrokerSecurity) -> KafkaSettings:
    return KafkaSettings(
        servers=(broker.bootstrap,),
        group="workers",
        topic="secure.work",
        security_protocol="SASL_SSL",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_username=USER,
        sasl_password=SecretStr(PASSWORD),
        ssl_cafile=security.ca,
    )


def test_what_is_appended_is_read(settings: KafkaSettings) -> None:
    log = TopicLog(settings, 1)
    taken = threading.Event()
    logs: list[PartitionLog] = []

    def take(part: int, found: PartitionLog) -> None:
        logs.append(found)
        taken.set()

    member = Member(settings, log, "one", take, lambda part: None)
    member.start()
    try:
        body = json.dumps({"uid": "u", "profile": "p"}).encode()
        log.append(Item(Kind.RECORD, "default", 1, body)).result(120)
        assert taken.wait(120)
        assert logs[0].wait(0, 60)
        (entry,) = logs[0].read(0, 2**20).entries
        assert entry.item.body == body
    finally:
        member.stop()
        log.close()


@pytest.mark.parametrize("fault", ["password", "authority", "file"])
def test_who_is_not_let_in_learns_why(
    fault: str, settings: KafkaSettings, security: BrokerSecurity, tmp_path: Path
) -> None:
    wrong = {
        "password": replace(settings, sasl_password=SecretStr("wrong horse")),
        "authority": replace(settings, ssl_cafile=security.other_ca),
        "file": replace(settings, ssl_cafile=tmp_path / "none.pem"),
    }[fault]
    words = {"password": "password", "authority": "TLS", "file": "none.pem"}[fault]
    with pytest.raises(ScouterError, match=words) as caught:
        TopicLog(wrong, 1)
    assert isinstance(caught.value, ConfigError) == (fault == "file")
    for secret in (PASSWORD, "wrong horse"):
        assert secret not in str(caught.value) + repr(wrong)
