"""Appending to the log on Kafka: what is acknowledged is there, and what is not is said."""

import gc
import itertools
import json
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest
from kafka import KafkaConsumer
from kafka.admin import (  # pyright: ignore[reportMissingTypeStubs]
    ConfigResource,
    ConfigResourceType,
)
from kafka.structs import TopicPartition

from collector.fleet.message import item_of
from collector.fleet.topic_log import RETRY_S, TopicLog
from collector.log.port import Item, Kind
from collector.receivers.kafka.settings import KafkaSettings
from scouter.errors import ConfigError, TransientError
from scouter.transport.kafka_client import partition_of
from tests.support.kafka_broker import (
    ExternalBroker,
    KafkaBroker,
    admin,
    create_topics,
    delete_topics,
    own_broker,
    topics,
)
from tests.support.processes import free_ports, wait_until

SPACE: Final = "shop"
_numbers = itertools.count(1)
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
Open = Callable[..., TopicLog]


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    """A broker that tests of this module stop and start."""
    with own_broker() as running:
        yield running


@pytest.fixture
def open_log(kafka: KafkaBroker | ExternalBroker) -> Iterator[Open]:
    """Opens logs, each on a topic of its own; closes them all."""
    opened: list[TopicLog] = []

    def open_(partitions: int | None = 4, topic: str = "", at: str = "", **more: Any) -> TopicLog:
        log = TopicLog(settings_of(at or kafka.bootstrap, topic), partitions, **more)
        opened.append(log)
        return log

    yield open_
    for each in opened:
        each.close()
    gc.collect()  # kafka-python leaves the sockets of vain tries to its garbage


def settings_of(bootstrap: str, topic: str = "") -> KafkaSettings:
    return KafkaSettings(
        servers=(bootstrap,), group="workers", topic=topic or f"work.{next(_numbers)}", space=SPACE
    )


def records(*uids: str, text: str = "") -> Item:
    rows = [{"uid": uid, "profile": "p", "context": text} for uid in uids]
    return Item(Kind.RECORDS, SPACE, 7, json.dumps({"records": rows}).encode(), "http", 5)


def messages(log: TopicLog, bootstrap: str) -> list[Any]:
    """All that is in the topic."""
    consumer: Any = KafkaConsumer(bootstrap_servers=[bootstrap], auto_offset_reset="earliest")
    try:
        places = [TopicPartition(log.topic, number) for number in range(log.partitions)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        found: list[Any] = []
        while any(consumer.position(each) < end for each, end in ends.items()):
            for each in consumer.poll(timeout_ms=500).values():
                found += each
        return found
    finally:
        consumer.close()


def uids_in(log: TopicLog, bootstrap: str) -> list[str]:
    """Uids of the records in the topic, in order."""
    found = [json.loads(each.value) for each in messages(log, bootstrap) if each.value != b"[]"]
    return sorted(row["uid"] for body in found for row in body["records"])


def test_parts_are_in_their_partitions_with_all_that_the_item_said(
    open_log: Open, kafka: KafkaBroker | ExternalBroker
) -> None:
    log = open_log(5)
    uids = [f"u{number}" for number in range(20)]
    assert log.append(records(*uids)).result(120) == 0
    found = messages(log, kafka.bootstrap)
    for message in found:
        item, is_ours = item_of(message, 5, "default", 0)
        rows = json.loads(bytes(item.body))["records"]
        assert {partition_of(row["uid"].encode(), 5) for row in rows} == {message.partition}
        assert message.key.decode() == rows[0]["uid"]
        assert is_ours
        assert (item.kind, item.space, item.source) == (Kind.RECORDS, SPACE, "http")
        assert (item.received_ns, item.behind_ns) == (7, 5)
        assert [uids.index(row["uid"]) for row in rows] == list(item.places)
        assert not item_of(message, 6, "default", 0)[1]
    assert len(found) == len({message.partition for message in found})
    assert uids_in(log, kafka.bootstrap) == sorted(uids)


def test_a_topic_that_is_there_has_its_number_of_partitions(
    open_log: Open, kafka: KafkaBroker | ExternalBroker
) -> None:
    create_topics(kafka.bootstrap, ["work.there"], partitions=3)
    log = open_log(None, "work.there")
    assert log.partitions == 3
    assert open_log(3, "work.there").topic_id == log.topic_id
    with pytest.raises(ConfigError, match="has 3 partitions, not 12"):
        open_log(12, "work.there")


def test_a_topic_made_anew_has_another_id(
    open_log: Open, kafka: KafkaBroker | ExternalBroker
) -> None:
    first = open_log(1, "work.anew").topic_id
    delete_topics(kafka.bootstrap, ["work.anew"])
    assert open_log(1, "work.anew").topic_id != first


def test_what_is_too_large_is_cut_or_put_aside(
    open_log: Open, kafka: KafkaBroker | ExternalBroker
) -> None:
    """Also if it becomes so while the log is open: whoever sends it again is understood."""
    log = open_log(2, "work.small")
    log.append(records(*(f"u{number}" for number in range(9)), text="x" * 20_000)).result(120)
    limit(kafka.bootstrap, "work.small", 50_000)
    log = open_log(2, "work.small")
    log.append(records(*(f"v{number}" for number in range(9)), text="x" * 20_000)).result(120)
    assert len(uids_in(log, kafka.bootstrap)) == 18
    log.append(records("w0", "large", "w1", text="y" * 60_000)).result(120)
    kinds = [item_of(each, 2, SPACE, 0)[0].kind for each in messages(log, kafka.bootstrap)]
    assert kinds.count(Kind.LETTER) == 3


def test_a_limit_that_was_lowered_is_learned(
    open_log: Open, kafka: KafkaBroker | ExternalBroker
) -> None:
    log = open_log(1, "work.lowered")
    limit(kafka.bootstrap, "work.lowered", 50_000)
    noise = "".join(f"{number:x}" for number in range(15_000))
    item = records(*(f"u{number}" for number in range(4)), text=noise[:30_000])

    def is_in() -> bool:
        return log.append(item).exception(60) is None

    wait_until(is_in, what="the request is cut smaller", timeout_s=120, every_s=RETRY_S / 4)
    assert set(uids_in(log, kafka.bootstrap)) == {"u0", "u1", "u2", "u3"}


def limit(bootstrap: str, topic: str, most: int) -> None:
    with admin(bootstrap) as client:
        client.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, topic, {"max.message.bytes": str(most)})]
        )


def test_a_log_that_is_closed_takes_nothing(open_log: Open) -> None:
    log = open_log(1)
    log.close()
    error = log.append(records("u")).exception(0)
    assert isinstance(error, TransientError)
    assert "closed" in str(error)


def test_what_was_appended_before_the_end_is_there(
    open_log: Open, kafka: KafkaBroker | ExternalBroker
) -> None:
    log = open_log(2)
    waiting = [log.append(records(f"u{number}")) for number in range(50)]
    log.close()
    assert [each.result(0) for each in waiting] == [0] * 50
    assert len(uids_in(log, kafka.bootstrap)) == 50


def test_no_broker_is_said_in_words() -> None:
    (port,) = free_ports(1)
    with pytest.raises(TransientError, match=f"127.0.0.1:{port}"):
        TopicLog(settings_of(f"127.0.0.1:{port}"), 1)


def test_brokers_that_are_slow_are_waited_for_but_not_without_end(
    open_log: Open, broker: KafkaBroker
) -> None:
    log = open_log(1, at=broker.bootstrap, max_in_flight=1_500)
    with broker.paused():
        first = log.append(records("first", text="x" * 1_000))
        second = log.append(records("second", text="x" * 1_000))
        assert isinstance(second.exception(0), TransientError)
        assert "come again" in str(second.exception(0))
        assert not first.done()
    assert first.result(120) == 0
    assert log.append(records("second", text="x" * 1_000)).result(120) == 0


def test_a_broker_that_comes_back_is_written_to_again(
    open_log: Open, broker: KafkaBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody appends meanwhile, as a gateway that is not ready gets no requests."""
    caplog.set_level(logging.INFO, "collector.fleet")
    log = open_log(3, at=broker.bootstrap, delivery_s=3.0)
    log.append(records("before")).result(120)
    broker.stop()
    uids = [f"away{number}" for number in range(9)]
    lost = [log.append(records(uid)) for uid in uids]
    for each in lost:
        error = each.exception(60)
        assert isinstance(error, TransientError)
        assert broker.bootstrap in str(error)
    assert log.fault
    assert isinstance(log.append(records("refused")).exception(0), TransientError)
    broker.start()
    wait_until(lambda: not log.fault, what="messages are taken again", timeout_s=120)
    log.append(records("after")).result(120)
    assert {"before", "after"} <= set(uids_in(log, broker.bootstrap))
    assert caplog.text.count("takes messages again") == 1


def test_a_short_absence_is_nobodys_business(open_log: Open, broker: KafkaBroker) -> None:
    log = open_log(3, at=broker.bootstrap, delivery_s=60.0)
    log.append(records("before")).result(120)
    restart = threading.Thread(target=broker.restart)
    restart.start()
    waiting = [log.append(records(f"u{number}")) for number in range(50)]
    restart.join()
    assert [each.result(120) for each in waiting] == [0] * 50
    assert log.fault == ""
    assert len(uids_in(log, broker.bootstrap)) == 51


def test_a_topic_that_was_made_anew_is_not_written_to(open_log: Open, broker: KafkaBroker) -> None:
    """Nor is one made in the place of one that somebody has deleted."""
    log = open_log(2, "work.gone", at=broker.bootstrap, delivery_s=3.0)
    log.append(records("before")).result(120)
    delete_topics(broker.bootstrap, ["work.gone"])
    assert isinstance(log.append(records("after")).exception(60), TransientError)
    wait_until(lambda: "the topic is gone" in log.fault, what="it is reported", timeout_s=120)
    assert "work.gone" not in topics(broker.bootstrap)
    create_topics(broker.bootstrap, ["work.gone"], partitions=3)
    wait_until(lambda: "3 partitions now instead of 2" in log.fault, what="it is reported")
