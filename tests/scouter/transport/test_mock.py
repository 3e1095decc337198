"""The transport that goes nowhere."""

from scouter.transport.config import KafkaConfig, MockConfig
from scouter.transport.mock import MockTransport
from tests.contracts.transport_data import make_items, make_spans


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
