"""Fixtures that every test can ask for."""

import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.collector_process import CollectorProcess
from tests.support.components import required_parts
from tests.support.kafka_broker import ExternalBroker, KafkaBroker, run_broker

# Machines are noisy. Examples are the same in each run, so that a change alone can fail a build;
# `make fuzz` looks for new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("fuzz", deadline=None, print_blob=True)
settings.load_profile("same")


def pytest_configure() -> None:
    """Refuse a `SCOUTER_REQUIRE` that demands nothing because of a typing mistake.

    A shell starts its background jobs with the interrupt ignored; tests that send one need it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        required_parts()
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    # As where it is installed: the hundreds of programs that tests start find modules compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Answers of one test's server are no other test's, and none of the user's.
    os.environ["SCOUTER_JUDGE_CACHE"] = "none"


@pytest.fixture(scope="session")
def kafka() -> Generator[KafkaBroker | ExternalBroker]:
    """A real Kafka broker, one for the whole session."""
    with run_broker() as broker:
        yield broker


StartCollector = Callable[..., CollectorProcess]


@pytest.fixture
def start_collector(tmp_path: Path) -> Generator[StartCollector]:
    """Starts collectors as programs of their own, with the given flags; ends them all."""
    started: list[CollectorProcess] = []

    def start(*flags: str | Path) -> CollectorProcess:
        folder = tmp_path / f"collector-{len(started)}"
        folder.mkdir(exist_ok=True)  # a test may have put something there
        collector = CollectorProcess(folder, *flags)
        started.append(collector)
        collector.start()
        return collector

    yield start
    for collector in started:
        collector.close()
