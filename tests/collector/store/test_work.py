"""Evaluations as they are appended, and what they count, on each store."""

import pytest

from tests.contracts.store_opened import Open
from tests.contracts.store_work import WorkContract


@pytest.fixture
def open_store(open_for_work: Open) -> Open:
    """Also a share."""
    return open_for_work


class TestWork(WorkContract):
    """What the worker decided."""
