"""What is taken out of the store, and what stays."""

from pathlib import Path

import pytest

from tests.contracts.store_care import CareContract
from tests.contracts.store_events import ErasedEventsContract
from tests.contracts.store_opened import Open
from tests.support.store_appends import AppendingStore


@pytest.fixture
def open_store(tmp_path: Path) -> Open:
    """Opens the store on DuckDB, whose files it is about."""
    return lambda: AppendingStore(tmp_path / "data")


class TestCare(CareContract):
    """Records and spans."""


class TestEvents(ErasedEventsContract):
    """Log events."""
