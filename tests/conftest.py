"""Fixtures that every test can ask for."""

from collections.abc import Iterator

import pytest

from tests.support.components import required_parts
from tests.support.kafka_broker import ExternalBroker, KafkaBroker, run_broker


def pytest_configure() -> None:
    """Refuse a `SCOUTER_REQUIRE` that demands nothing because of a typing mistake."""
    try:
        required_parts()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker | ExternalBroker]:
    """A real Kafka broker, one for the whole session."""
    with run_broker() as broker:
        yield broker
