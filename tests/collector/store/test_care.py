"""What is taken out of the store, and what stays."""

from pathlib import Path

import pytest

from tests.contracts.store_care import CareContract
from tests.contracts.store_opened import Open
from tests.support.store_appends import AppendingStore


class TestCare(CareContract):
    """On DuckDB, whose file it is about."""

    @pytest.fixture
    def open_store(self, tmp_path: Path) -> Open:
        return lambda: AppendingStore(tmp_path / "data")
