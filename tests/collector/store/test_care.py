"""What is taken out of the store, and what stays."""

from pathlib import Path

import pytest

from tests.contracts.store_care import CareContract, FilesContract
from tests.contracts.store_events import ErasedEventsContract
from tests.contracts.store_opened import Open
from tests.support.store_appends import AppendingStore


class TestCare(CareContract):
    """Records and spans, on either database."""


class TestEvents(ErasedEventsContract):
    """Log events, on either database."""


class TestFiles(FilesContract):
    """Files of DuckDB."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Open:
        """Opens the store on DuckDB, whose files it is about."""
        return lambda: AppendingStore(tmp_path / "data")
