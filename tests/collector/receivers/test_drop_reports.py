"""Reports of senders on drops: read from a header, and counted once."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from collector.items.drop_reports import merge_dropped, read_dropped
from collector.log.port import Item, Kind
from collector.receivers.intake import Delivery
from collector.receivers.kafka import intake as intake_module
from collector.receivers.kafka.intake import KafkaIntake
from collector.receivers.message_servers import receiver as messages_module
from collector.receivers.message_servers.receiver import MessageReceiver
from scouter.errors import TransientError
from scouter.model.otlp import encode_request
from scouter.transport.drops import Count
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import span
from tests.contracts.transport_data import news
from tests.support.otlp import GrpcClient

HEADER = "full=2, replay_over=3"
LINE = 'scouter_queue_dropped_total{reason="%s",space="default"}'
DATA = encode_request([span(1)]).SerializeToString()


@pytest.mark.parametrize(
    ("header", "counts"),
    [
        ("", {}),
        ("full=3", {"full": 3}),
        ("full=3, full=4,closed=1", {"full": 7, "closed": 1}),
        ("full=0, full=-1, full=1.5, full, =, full=٣, full=1e3", {}),
        ("Full=1, 9=2, a b=4, =8", {"other": 15}),
        (f"full={10**9}, closed={10**9 - 1}", {"closed": 10**9 - 1}),
        ("r0=1, r1=1, r2=1", {"other": 3}),
    ],
)
def test_the_header(header: str, counts: dict[str, int]) -> None:
    assert news(read_dropped(header)) == counts


@pytest.mark.parametrize(
    ("header", "counts"),
    [
        (
            "sender=a-1, full=37/40, closed=0/1",
            {("a-1", "full"): (37, 40), ("a-1", "closed"): (0, 1)},
        ),
        ("sender=a, full=0/1, sender=b, full=2/4", {("a", "full"): (0, 1), ("b", "full"): (2, 4)}),
        ("sender=a, mine=0/1, yours=2/4", {("a", "other"): (2, 5)}),
        ("full=2, sender=a, full=3", {("", "full"): (0, 5)}),
        ("full=0/3", {}),
        ("sender=, full=0/3", {}),
        ("sender=a b, full=0/3, sender=a;b, full=0/3", {}),
        (f"sender={'a' * 65}, full=0/3", {}),
        ("sender=a, full=3/3, closed=4/3, invalid=0/9999999999, sampled=/3, sampled=²/³", {}),
    ],
)
def test_the_header_with_senders(header: str, counts: dict[tuple[str, str], Count]) -> None:
    assert read_dropped(header) == counts


def test_several_headers_are_one_report() -> None:
    """Counts without a sender add up; a sender's later ones stand for the earlier ones."""
    headers = ["full=1", "", "full=2,closed=1", "sender=a, full=3/4", "sender=a, full=0/3"]

    assert merge_dropped(headers) == {
        ("", "full"): (0, 3),
        ("", "closed"): (0, 1),
        ("a", "full"): (0, 4),
    }


class Silent(MessageReceiver):
    """Is only called to store."""

    def consume(self) -> None:
        raise NotImplementedError


def over_http(service: Service) -> bool:
    headers = {"content-type": "application/x-protobuf", "scouter-dropped": HEADER}
    return service.http.post("/v1/traces", content=DATA, headers=headers).status_code == 200


def over_grpc(service: Service) -> bool:
    assert service.collector.grpc is not None
    client = GrpcClient(str(service.collector.grpc.listen))
    try:
        client.send(DATA, metadata=[("scouter-dropped", HEADER)])
    except grpc.RpcError:
        return False
    finally:
        client.close()
    return True


def over_messages(service: Service) -> bool:
    receiver = Silent("silent", "nowhere", service.collector.ingest)
    parts = HEADER.split(",") if "sender" not in HEADER else [HEADER]
    return receiver.store(
        [Delivery(kind=Kind.SPANS, data=DATA, dropped=part, source="") for part in parts]
    )


def over_kafka(service: Service) -> bool:
    intake = KafkaIntake(service.collector.ingest, "scouter.spans", threading.Event())
    messages: list[Any] = [
        SimpleNamespace(
            topic="scouter.spans", partition=0, offset=n, value=DATA,
            headers=[("scouter-dropped", part.encode())],
        )
        for n, part in enumerate(HEADER.split(",") if "sender" not in HEADER else [HEADER])
    ]  # fmt: skip
    intake.take(messages)
    intake.finish()
    return bool(intake.durable_offsets())


@pytest.mark.parametrize("send", [over_http, over_grpc, over_messages, over_kafka])
def test_a_report_that_comes_again_counts_once(
    start: Start, monkeypatch: pytest.MonkeyPatch, send: Callable[[Service], bool]
) -> None:
    """As where the answer was lost, or Kafka's offset; also by a collector that starts anew."""
    service = start(grpc="127.0.0.1:0")
    for header, full in (
        ("sender=a, full=0/3", 3),
        ("sender=a, full=0/3", 3),
        ("sender=a, full=0/5", 5),
        ("sender=a, full=3/4", 5),
        ("sender=b, full=1/2", 6),
    ):
        monkeypatch.setattr(f"{__name__}.HEADER", header)
        assert send(service)
        assert service.sample(LINE % "full") == full
    service.stop()
    service = start(grpc="127.0.0.1:0")
    monkeypatch.setattr(f"{__name__}.HEADER", "sender=a, full=0/6")
    assert send(service)
    assert service.sample(LINE % "full") == 7


@pytest.mark.parametrize("send", [over_http, over_grpc, over_messages, over_kafka])
def test_drops_count_once_where_a_batch_comes_again(
    start: Start, monkeypatch: pytest.MonkeyPatch, send: Callable[[Service], bool]
) -> None:
    """The log takes no spans at the first three tries, though it would have taken the counts."""
    monkeypatch.setattr(intake_module, "RETRY_S", 0.001)
    monkeypatch.setattr(messages_module, "RETRY_S", 0.001)
    service = start(grpc="127.0.0.1:0")
    log, tries = service.collector.log, list[Item]()
    append = log.append

    def picky(item: Item) -> "Future[int]":
        if item.kind is Kind.SPANS:
            tries.append(item)
            if len(tries) <= 3:
                refused: Future[int] = Future()
                refused.set_exception(TransientError("disk full"))
                return refused
        return append(item)

    monkeypatch.setattr(log, "append", picky)
    while not send(service):
        assert len(tries) <= 3
    assert len(tries) >= 4
    assert (service.sample(LINE % "full"), service.sample(LINE % "replay_over")) == (2, 3)
