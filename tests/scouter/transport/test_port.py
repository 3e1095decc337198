"""The estimated size of a waiting record, against its real size."""

import pytest

from scouter.model.record import EvalRecord, RecordSnapshot
from scouter.transport.config import KafkaConfig, MockConfig
from scouter.transport.port import MockTransport, estimate_bytes
from tests.contracts.transport_data import make_items, make_spans
from tests.support.memory import held_bytes


@pytest.mark.parametrize(("size", "tags"), [(1, 0), (300, 0), (300, 2), (5_000, 0)])
def test_a_record_is_estimated_by_what_it_takes(size: int, tags: int) -> None:
    """The record waits as its context's text and a few short ones; within 20% and 100 bytes."""
    stored: list[RecordSnapshot] = []

    def make(number: int) -> None:
        for n in range(number):
            record = EvalRecord(
                {"text": "x" * size, "n": n},
                record_id=f"record {n}",
                session_id=f"session {n}",
                tags={f"key {key}": f"value {n} of {key}" for key in range(tags)},
            )
            stored.append(record.freeze())

    make(10)
    taken = held_bytes(lambda: make(500)) / 500
    estimated = sum(map(estimate_bytes, stored[10:])) / 500
    assert abs(estimated - taken) <= 100 + taken / 5


def test_it_takes_and_counts_everything() -> None:
    transport = MockConfig().open()
    assert isinstance(transport, MockTransport)

    assert transport.send_records(make_items(3)) == 0
    assert transport.send_spans(make_spans(4)) == 0

    assert (transport.records, transport.spans) == (3, 4)


def test_it_stands_in_for_any_other_configuration() -> None:
    """The keywords of other transports are accepted and ignored."""
    assert MockConfig(server_uri="http://x", brokers="y").open()  # pyright: ignore[reportCallIssue]
    assert MockConfig() == MockConfig()


def test_secrets_do_not_show() -> None:
    config = KafkaConfig(username="u", password="hidden")  # pyright: ignore[reportArgumentType]

    assert "hidden" not in repr(config) + str(config.model_dump()) + config.model_dump_json()
