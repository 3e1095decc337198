"""Fixtures that every test can ask for."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

from tests.support import same_examples
from tests.support.collector_process import CollectorProcess
from tests.support.components import required_parts
from tests.support.kafka_broker import ExternalBroker, KafkaBroker, run_broker
from tests.support.postgresql_server import PostgresqlServer

# Machines are noisy. Examples are the same in each run, so that a change alone can fail a build.
# `make fuzz` looks for new ones.
settings.register_profile(
    "same", deadline=None, derandomize=True, max_examples=25, backend=same_examples.register()
)
settings.register_profile("fuzz", deadline=None, print_blob=True, max_examples=500)
settings.load_profile("same")


_MEMORY: Final = Path("/dev/shm")  # noqa: S108 pytest makes a folder of its own in it
_ROOM_BYTES: Final = 4 * 2**30
_YOUNG: Final = 100_000
"""Objects that are made before the first search for cycles among them, instead of 700. Each search
passes over what the tests made, and finds next to nothing."""


def _write_to_memory() -> None:
    """Put folders of tests into memory where there is room, unless somebody named another place.

    A disk answers each sync after some milliseconds, and stores sync all the time: on one, their
    tests take half as long again. `kill -9` loses no more of the one than of the other.
    """
    named = {"PYTEST_DEBUG_TEMPROOT", "TMPDIR"} & os.environ.keys()
    if not named and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM_BYTES:
        os.environ["PYTEST_DEBUG_TEMPROOT"] = str(_MEMORY)


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
    # As where it is installed: the hundreds of programs that tests start find modules compiled, and
    # so does the next run. To rewrite the asserts of all tests takes each worker ten seconds.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    gc.disable()  # until all tests are collected: next to nothing of that is ever freed
    _write_to_memory()
    # Answers of one test's server are no other test's, and none of the user's.
    os.environ["SCOUTER_JUDGE_CACHE"] = "none"


@pytest.fixture(autouse=True)
def no_queue_is_left() -> Iterator[None]:
    """Forget the process' queue that a test has set up: a replay of the next one would use it."""
    name = "scouter.tracing.runtime"
    had = name in sys.modules and sys.modules[name].RUNTIME.queue is not None
    yield
    if name in sys.modules and not had and sys.modules[name].RUNTIME.queue is not None:
        sys.modules[name].RUNTIME.shutdown(5.0)


@pytest.fixture(scope="session")
def kafka() -> Generator[KafkaBroker | ExternalBroker]:
    """A real Kafka broker, one for the whole session."""
    with run_broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def postgresql_server() -> Generator[PostgresqlServer]:
    """A real PostgreSQL server, one for all tests that do not crash it."""
    server = PostgresqlServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def module_collector(tmp_path_factory: pytest.TempPathFactory) -> Generator[CollectorProcess]:
    """A collector without flags, for the tests of a module that leave nothing in it."""
    collector = CollectorProcess(tmp_path_factory.mktemp("collector"))
    collector.start()
    yield collector
    collector.close()


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


FIRST: Final = ("tests/integration/", "tests/bench/", "tests/test_", "tests/fuzz/")
"""Files that take longest. `--no-loadscope-reorder` keeps the order: at the end of a run the
workers share out many short files, and none waits for a long one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long files first, and try tests of a pace twice."""

    def place(item: pytest.Item) -> int:
        return next((at for at, path in enumerate(FIRST) if item.nodeid.startswith(path)), 9)

    items.sort(key=place)
    for item in items:
        if item.get_closest_marker("pace"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def pytest_collection_finish() -> None:
    """Search for cycles from here on, but not among the tests and what they import."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
