"""The store that a contract is about."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, settings

from collector.storage.port.store import Store
from tests.support.examples import examples

Open = Callable[[], Store]
"""Opens the store of this test; opened again it holds what was stored before."""
OpenCopy = Callable[[Path], Store]
"""Opens what a backup put into a folder."""

IN_CLASS: Final = settings(
    max_examples=examples(16),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.differing_executors,  # each class that fulfils the contract is one
    ],
)


def done(answer: Any) -> Any:
    """What a write answers, be it at once or through a future."""
    return cast(Any, answer).result() if isinstance(answer, Future) else answer


class OpenedStore:
    """A subclass has the fixture `open_store`, and for the care `open_copy`."""

    @pytest.fixture
    def store(self, open_store: Open) -> Iterator[Store]:
        store = open_store()
        yield store
        store.close()
