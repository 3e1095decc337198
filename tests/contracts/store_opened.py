"""The store that a contract is about."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import examples
from tests.support.store_appends import AppendingStore

Open = Callable[[], AppendingStore]
"""Opens the store of this test; opened again it holds what was stored before."""

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
    """A subclass has the fixture `open_store`."""

    @pytest.fixture
    def store(self, open_store: Open) -> Iterator[AppendingStore]:
        store = open_store()
        yield store
        store.close()
